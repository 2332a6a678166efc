"""Whether the world has changed: a test on the errors of a model's predictions.

While the world stays as it is, an error e/(σ̂√(1 + h)) of a prediction made beforehand has mean 0 and variance 1. So each block
adds up the errors of its outcomes in windows of 16, 32, 64, … outcomes, which lie end to end. n outcomes with the sum S show a
change if S²/n is more than ALARM, and if their mean is also away from that of the block's first outcomes. The second condition is
for models that fit badly in a world that stays the same: they were wrong from the start. Errors count as at most
LARGEST_ERROR, so that no single outcome is an alarm.

Then the block restarts: its prediction moves by the mean error, and everything it has learnt weighs PAST times as much as the
window does. The other blocks keep their estimates, but weigh at most as much as OTHERS outcomes, since they may have changed, too.

`watch` is the number of changes so far; the block and output of one that is due, how many outcomes show it, and their mean error;
then for each block how many outcomes it weighs, and for each output the number of outcomes and the sum of their errors: in all,
when their number was last a power of two, at the power before that, and in each window.
"""

from __future__ import annotations

import math

from tightrope.kernels.compile import inlined, kernel

CHANGES, DUE, DUE_OUTPUT, DUE_OUTCOMES, SHIFT = range(5)
WATCH_HEAD = 5
# The shortest window, and how many lengths there are.
FIRST_WINDOW, WINDOWS = 16.0, 12
# Sums before those of windows: of all outcomes, and up to the last powers of two.
EARLIER = 2
SUMS = 2 * (1 + EARLIER + WINDOWS)
LARGEST_ERROR = 3.0
# In squared standard errors: how far the mean error of a window is from 0, and how far from that of the first outcomes.
ALARM, APART = 26.0, 14.0
PAST, OTHERS = 0.25, 64.0


def watch_size(G, M):
    """Length of `watch` for G blocks and M outputs."""
    return WATCH_HEAD + G * (1 + M * SUMS)


@kernel
def begin_watch(watch, at):
    """Nothing was learnt."""
    for i in range(at, watch.shape[0]):
        watch[i] = 0.0
    watch[at + DUE] = -1.0


@inlined
def block_of_watch(at, g, M):
    """Where block g of the watch starts."""
    return at + WATCH_HEAD + g * (1 + M * SUMS)


@kernel
def note_error(watch, at, g, i, M, error):
    """Note an error of output i, in deviations; the windows that end with it may be an alarm."""
    e = max(-LARGEST_ERROR, min(LARGEST_ERROR, error))
    own = block_of_watch(at, g, M)
    first = own + 1 + i * SUMS
    window = first + 2 * (1 + EARLIER)
    watch[first] += 1.0
    watch[first + 1] += e
    watch[window] += 1.0
    watch[window + 1] += e
    if watch[window] < FIRST_WINDOW:
        return
    most = FIRST_WINDOW
    for level in range(WINDOWS):
        if watch[window] < most:
            break
        judge(watch, at, g, i, own, window, first + 2 * EARLIER)
        if level + 1 < WINDOWS:
            watch[window + 2] += watch[window]
            watch[window + 3] += watch[window + 1]
        watch[window] = watch[window + 1] = 0.0
        window += 2
        most *= 2.0
    n = int(watch[first])
    if n & (n - 1) == 0:
        for k in range(2 * EARLIER + 1, 1, -1):
            watch[first + k] = watch[first + k - 2]


@inlined
def judge(watch, at, g, i, own, window, earlier):
    """Whether the errors of a window show a change; only where as many outcomes were learnt before it."""
    n, before = watch[window], watch[earlier]
    if watch[own] < 2.0 * n or before == 0.0:
        return
    mean = watch[window + 1] / n
    apart = mean - watch[earlier + 1] / before
    if n * mean * mean > ALARM and apart * apart > APART * (1.0 / n + 1.0 / before):
        watch[at + DUE] = g
        watch[at + DUE_OUTPUT] = i
        watch[at + DUE_OUTCOMES] = n
        watch[at + SHIFT] = mean


@inlined
def is_due(watch, at):
    """Whether a change was seen that has not been acted upon."""
    return watch[at + DUE] >= 0.0


@kernel
def part_kept(watch, at, g, M):
    """How much of its weight block g keeps after the change that is due."""
    n = watch[block_of_watch(at, g, M)]
    most = PAST * watch[at + DUE_OUTCOMES] if g == watch[at + DUE] else OTHERS
    return min(1.0, most / n) if n > 0.0 else 1.0


@kernel
def begin_anew(watch, at, G, M):
    """The change that is due was acted upon: all windows begin anew."""
    for g in range(G):
        own = block_of_watch(at, g, M)
        watch[own] *= part_kept(watch, at, g, M)
        for k in range(own + 1, own + 1 + M * SUMS):
            watch[k] = 0.0
    watch[at + CHANGES] += 1.0
    watch[at + DUE] = -1.0


@inlined
def in_deviations(error, leverage, noise):
    """An error in standard deviations of what it would be if the world had not changed."""
    return error / math.sqrt(noise * (1.0 + leverage)) if noise > 0.0 else 0.0
