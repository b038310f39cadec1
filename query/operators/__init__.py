"""All operators of PIER Table 3.3, one module each; importing this package makes them known to the registry."""

from importlib import import_module
from pkgutil import walk_packages

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)
