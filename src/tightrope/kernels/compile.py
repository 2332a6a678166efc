"""How kernels are compiled. Where Numba is not installed they run as plain Python.

What is compiled is kept (`tightrope.kernels.cache`). Where no folder can be written to, every process compiles anew, and a warning
says so.
"""

from __future__ import annotations

import logging
import multiprocessing
import sys

__all__ = ["announce", "entry", "inlined", "kernel", "released"]

_log = logging.getLogger(__name__)

try:
    import numba
    from numba.core import event
    from numba.core.cpu import CPUTargetOptions
except ModuleNotFoundError:

    def kernel(function):
        """The function as it is, in the compiler's place."""
        return function

    released = inlined = kernel

    def entry(function, *_):
        """The function as it is."""
        return function

else:
    from tightrope.kernels.cache import keep, writable_folder

    _FOLDER = writable_folder(__file__)
    _OPTIONS = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}

    def _compiler(**options):
        compiled = numba.njit(**options, **_OPTIONS)
        return compiled if _FOLDER is None else lambda function: keep(compiled(function))

    kernel = _compiler()
    released = _compiler(nogil=True)
    # For what is called so often that a call would cost more than the work.
    inlined = _compiler(forceinline=True)

    def entry(function, *arguments):
        """The code of `function` for arguments of the types of these, without the look at every argument of every call.

        Whoever calls it has made sure of the types: NumPy arrays of that dtype and number of dimensions, C-contiguous and aligned.
        """
        return function.compile(tuple(map(numba.typeof, arguments)))

    class _Announcement(event.Listener):
        """Says once that the compiler is at work, so that nobody wonders what a first call is busy with."""

        def __init__(self):
            self.said = False

        def on_start(self, event):
            if not self.said and event.data["dispatcher"].py_func.__module__.startswith("tightrope."):
                self.said = True
                announce(_FOLDER)

        def on_end(self, event):
            """Nothing is said."""

    event.register("numba:compile", _Announcement())


def announce(folder):
    """Say that the compiler is at work: in the log where it takes such lines, else to people at a terminal or in a notebook.

    The level of this module's logger silences it. That nothing can be kept is a warning, which is always said.
    """
    if multiprocessing.current_process().name != "MainProcess":
        return
    if folder is None:
        _log.warning("compiling at every start: no folder is writable; set NUMBA_CACHE_DIR to one that is")
        return
    words = f"compiling for this machine, which takes a while, but only once; kept in {folder}"
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s", words)
    elif _log.level == logging.NOTSET and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        print(f"tightrope: {words}", file=sys.stderr)
