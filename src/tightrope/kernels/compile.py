"""How kernels are compiled. If Numba is not installed, they run as plain Python.

Compiled code is kept (`tightrope.kernels.cache`). If no folder is writable, every process compiles from scratch, and a warning
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
        """Stands in for the compiler: returns the function unchanged."""
        return function

    released = inlined = kernel

    def entry(function, *_):
        """Returns the function unchanged."""
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
    # For functions that are called so often that a call would cost more than the work.
    inlined = _compiler(forceinline=True)

    def entry(function, *arguments):
        """The code of `function` for arguments of these types, without Numba's check of every argument in every call.

        The caller must guarantee the types: NumPy arrays of that dtype and number of dimensions, C-contiguous and aligned.
        """
        return function.compile(tuple(map(numba.typeof, arguments)))

    class _Announcement(event.Listener):
        """Says once that the compiler is at work, so that nobody wonders why a first call takes so long."""

        def __init__(self):
            self.said = False

        def on_start(self, event):
            if not self.said and event.data["dispatcher"].py_func.__module__.startswith("tightrope."):
                self.said = True
                announce(_FOLDER)

        def on_end(self, event):
            """Says nothing."""

    event.register("numba:compile", _Announcement())


def announce(folder):
    """Say that the compiler is at work: in the log if it accepts such lines, otherwise to people at a terminal or in a notebook.

    The level of this module's logger silences it. If nothing can be kept, that is always reported, as a warning.
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
