"""How kernels are compiled, and where the compiled code is kept. Where Numba is not installed they run as plain Python.

Numba's own cache looks at the file of a function alone, and would go on using a kernel after a function that it calls in another
file has changed. Ours is stamped with the content of all files that kernels are made of.
"""

from __future__ import annotations

import functools
import getpass
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tightrope import schedules

try:
    import numba
    from numba.core import caching, config
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
    _OPTIONS = {"cache": True, **({"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {})}
    kernel = numba.njit(**_OPTIONS)
    released = numba.njit(nogil=True, **_OPTIONS)
    # For what is called so often that a call would cost more than the work.
    inlined = numba.njit(forceinline=True, **_OPTIONS)

    def entry(function, *arguments):
        """The code of `function` for arguments of the types of these, without the look at every argument of every call.

        Whoever calls it has made sure of the types: NumPy arrays of that dtype and number of dimensions, C-contiguous and aligned.
        """
        return function.compile(tuple(map(numba.typeof, arguments)))

    class PackageCacheLocator(caching.InTreeCacheLocator):
        """Where the code of a kernel is cached: the first folder that can be written to of those that `cache_folders` gives."""

        def get_source_stamp(self):
            """The content of every file that kernels are made of."""
            return source_stamp()

        @classmethod
        def from_function(cls, py_func, py_file):
            """A locator, or None for a function that is not ours."""
            if os.path.realpath(py_file) not in source_files():
                return None
            for folder in cache_folders(os.path.dirname(py_file), cls.get_suitable_cache_subpath(py_file)):
                if _is_writable(folder):
                    locator = cls(py_func, py_file)
                    locator._cache_path = folder
                    return locator
            return None

    caching.CompileResultCacheImpl._locator_classes = [
        PackageCacheLocator,
        *caching.CompileResultCacheImpl._locator_classes,
    ]


@functools.cache
def source_files() -> frozenset[str]:
    """The files that kernels are made of."""
    folder = Path(__file__).parent
    return frozenset(os.path.realpath(path) for path in (*folder.glob("*.py"), schedules.__file__))


@functools.cache
def source_stamp() -> str:
    """A hash of the content of `source_files`, read once for each process."""
    digest = hashlib.sha256()
    for path in sorted(source_files()):
        content = Path(path).read_bytes()
        digest.update(f"{os.path.basename(path)} {len(content)} ".encode() + content)
    return digest.hexdigest()


def cache_folders(beside: str, subfolder: str) -> Iterator[str]:
    """Folders to try: NUMBA_CACHE_DIR where it is set, beside the source, the user's cache, one for temporary files."""
    if config.CACHE_DIR:
        yield os.path.join(config.CACHE_DIR, subfolder)
    yield os.path.join(beside, "__pycache__")
    yield os.path.join(caching.AppDirs(appname="numba", appauthor=False).user_cache_dir, subfolder)
    yield os.path.join(_own_temporary_folder(), subfolder)


@functools.cache
def _is_writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@functools.cache
def _own_temporary_folder() -> str:
    """The same in every process of a user, unless somebody else has made it: what is cached there gets executed."""
    folder = os.path.join(
        tempfile.gettempdir(), f"tightrope-numba-{getattr(os, 'getuid', getpass.getuser)()}"
    )
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077):
            return folder
    except OSError:
        pass
    return tempfile.mkdtemp(prefix="tightrope-numba-")
