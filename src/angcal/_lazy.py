"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def found_in(package: str, name: str, names: Sequence[str], homes: Sequence[str]) -> Any:
    """An attribute of a package: one of its public names, or one of its modules.

    `homes` are modules of the package that define the names, in the order in which they are tried.
    """
    if name in names:
        for home in homes:
            value = getattr(import_module(f"{package}.{home}"), name, None)
            if value is not None:
                setattr(sys.modules[package], name, value)
                return value
    if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
        return import_module(f"{package}.{name}")
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
