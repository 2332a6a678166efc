"""What is left of a window, per decision still to come, and the price at which no more than that is used.

A rule with an amount per window is at each moment a rule per decision: c = left / (1 + N (1 + caution·s)), where N is the expected
number of decisions until the window ends and s its relative standard deviation. Its price is the dual on remembered rounds at c.

`traffic` forecasts N: the level of a day × the weekday × the profile of the day × a factor for today, in the layout below.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels.compile import inlined, kernel

# the head of traffic
(
    LEVEL,  # decisions on an ordinary day; 0 before anything is known
    DAYS,  # days learnt from
    BETWEEN,  # the relative variance of a day's total about its forecast
    WITHIN,  # the relative variance of the way through a day
    START,  # the day in progress, in seconds; both 0 before the first decision
    END,
    WEEKDAY,
    BEGAN,  # the share of the day that was over at its first decision, if that was the first of all
    TODAY,  # decisions today
    RECENT,  # the same, older ones fading
    GONE,  # the share of the profile that they were expected in, fading alike
    SHARE,  # the share of the profile that was over at the last decision
) = range(12)
BUCKETS, WEEK = 96, 7
# vectors: the factor of each weekday and how often it was seen, the share of the profile before each bucket, the profile itself,
# and today's decisions in each bucket
FACTORS = 12
SEEN = FACTORS + WEEK
BEFORE = SEEN + WEEK
PROFILE = BEFORE + BUCKETS + 1
COUNTS = PROFILE + BUCKETS
TRAFFIC_SIZE = COUNTS + BUCKETS

DAY = 86_400.0
# Today's surprise counts half after this share of a day's decisions, and after a night.
FADE = 0.2
# Before the first day is over: the relative variance of the rest of the day, times the share of the day that is over.
FIRST_VARIANCE, LEAST_SHARE = 0.3, 0.02
# How much of the variance within a day is added for the rest of it
REST_OF_DAY = 0.25
# The least part of the expected decisions that at-least rules count on.
LEAST_COMING = 0.3
# Bins of numbers of decisions: 0, 1, 2–3, 4–7, … and the typical number in each
BINS = 11
TYPICAL = np.array([0.0, 1.0, 2.5, 5.0, 11.0, 22.0, 45.0, 96.0, 190.0, 380.0, 760.0])


# How many decisions are still to come


@kernel
def share_of_day(traffic, place):
    """The share of the profile before a place in the day, from 0 to 1."""
    z = min(max(place, 0.0), 1.0) * BUCKETS
    b = min(int(z), BUCKETS - 1)
    before = traffic[BEFORE + b]
    return before + (z - b) * (traffic[BEFORE + b + 1] - before)


@inlined
def place_in_day(traffic, t):
    return (t - traffic[START]) / (traffic[END] - traffic[START])


@inlined
def usual_total(traffic, days_ahead):
    """Expected decisions of a whole day, so many days after today."""
    return traffic[LEVEL] * traffic[FACTORS + (int(traffic[WEEKDAY]) + days_ahead) % WEEK]


@inlined
def until_now(traffic, share):
    """Today's decisions and the share of the profile they were expected in, older ones faded, when this share is over."""
    kept = 0.5 ** ((share - traffic[SHARE]) / FADE)
    return traffic[RECENT] * kept, traffic[GONE] * kept + share - traffic[SHARE]


@kernel
def note_decision(traffic, t):
    """Count a decision at t, a moment of the day in progress."""
    place = place_in_day(traffic, t)
    share = share_of_day(traffic, place)
    traffic[RECENT], traffic[GONE] = until_now(traffic, share)
    traffic[SHARE] = share
    traffic[TODAY] += 1.0
    traffic[RECENT] += 1.0
    traffic[COUNTS + min(max(int(place * BUCKETS), 0), BUCKETS - 1)] += 1.0


@kernel
def still_to_come(traffic, t, end):
    """The mean number of decisions after t and before `end`, and its relative standard deviation; t is a moment of today."""
    place = place_in_day(traffic, t)
    if traffic[LEVEL] == 0.0:
        gone = max(place - traffic[BEGAN], 1e-4)
        rate = (traffic[TODAY] + 1.0) / (gone * (traffic[END] - traffic[START]))
        return rate * max(end - t, 0.0), math.sqrt(FIRST_VARIANCE / max(gone, LEAST_SHARE))
    share = share_of_day(traffic, place)
    recent, gone = until_now(traffic, share)
    ratio = traffic[WITHIN] / traffic[BETWEEN]
    factor = (ratio + recent / usual_total(traffic, 0)) / (ratio + gone)
    variance = traffic[WITHIN] / (ratio + gone) + REST_OF_DAY * traffic[WITHIN] / max(1.0 - share, 0.01)
    if end <= traffic[END]:
        last = share_of_day(traffic, place_in_day(traffic, end))
        return usual_total(traffic, 0) * factor * max(last - share, 0.0), math.sqrt(variance)
    mean = usual_total(traffic, 0) * factor * (1.0 - share)
    days = int((end - traffic[END]) // DAY)
    surprise = factor - 1.0
    for ahead in range(1, days + 2):
        surprise *= 0.5
        part = 1.0 if ahead <= days else share_of_day(traffic, (end - traffic[END]) / DAY - days)
        mean += usual_total(traffic, ahead) * (1.0 + surprise) * part
    n = 1.0 + (end - traffic[END]) / DAY
    return mean, math.sqrt(max(variance / n, traffic[BETWEEN] / n))


# What may be used per decision


@kernel
def amount_per_decision(left, mean, deviation, caution):
    """c of an amount of which `left` is free, with this decision; where something is owed, fewer decisions are the danger."""
    if left < 0.0:
        return left / (1.0 + mean * max(1.0 - caution * deviation, LEAST_COMING))
    return left / (1.0 + mean * (1.0 + caution * deviation))


# Prices


@kernel
def fill_use(rewards, uses, offsets, weights, floors, prices, use):
    """Mean use at each of the increasing `prices`, into `use`, of rounds that take the best of rewards − price · uses.

    The rows of round i are offsets[i] to offsets[i + 1]; it plays at its floor or the price, whichever is higher. As the price
    rises, a round goes from one action to the next that uses less, at the price where their values are equal.
    """
    G = prices.shape[0]
    for g in range(G):
        use[g] = 0.0
    total = 0.0
    for i in range(weights.shape[0]):
        weight = weights[i]
        total += weight
        now = offsets[i]
        for j in range(offsets[i] + 1, offsets[i + 1]):
            gain = rewards[j] - rewards[now] - floors[i] * (uses[j] - uses[now])
            if gain > 0.0 or (gain == 0.0 and uses[j] < uses[now]):
                now = j
        use[0] += weight * uses[now]
        g = 0
        at = 0.0
        while at < math.inf:
            at = math.inf
            following = now
            for j in range(offsets[i], offsets[i + 1]):
                less = uses[now] - uses[j]
                if less > 0.0:
                    equal = (rewards[now] - rewards[j]) / less
                    if equal < at or (equal == at and uses[j] < uses[following]):
                        at = equal
                        following = j
            if at > prices[G - 1]:
                at = math.inf
            else:
                g = first_not_below(prices, at, g)
                use[g] -= weight * (uses[now] - uses[following])
                now = following
    for g in range(1, G):
        use[g] += use[g - 1]
    for g in range(G):
        use[g] /= total


@inlined
def first_not_below(values, x, low):
    """The first index from `low` on whose value is at least x; the values increase, and the last is not below x."""
    high = values.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if values[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def price_at(prices, use, c):
    """The least price at which no more than c is used per decision, between two of the grid; the highest if none is enough."""
    n = prices.shape[0]
    if c >= use[0]:
        return 0.0
    if c < use[n - 1]:
        return prices[n - 1]
    low = 0
    high = n - 1
    while high - low > 1:
        middle = (low + high) // 2
        if use[middle] > c:
            low = middle
        else:
            high = middle
    fall = use[low] - use[high]
    return prices[low] + (use[low] - c) / fall * (prices[high] - prices[low]) if fall > 0.0 else prices[high]


@kernel
def mean_price(prices, use, left, chances, typical):
    """The mean over how many decisions may still come (`chances` of the `typical` numbers) of the price for an even share."""
    total = 0.0
    for b in range(typical.shape[0]):
        if chances[b] > 0.0:
            total += chances[b] * price_at(prices, use, left / (1.0 + typical[b]))
    return total
