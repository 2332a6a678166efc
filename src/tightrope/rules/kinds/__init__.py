"""The kinds of rule that come with Tightrope, one a file. A new file here is found and registered by itself."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
