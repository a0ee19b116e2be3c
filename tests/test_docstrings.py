"""Docstrings of the public names have what [tool.numpydoc_validation] asks for."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

pytest.importorskip("numpydoc")
from numpydoc.hooks.validate_docstrings import parse_config
from numpydoc.validate import validate

from angcal.losses import BlockLoss

MODULES = (
    "angcal",
    "angcal.baselines",
    "angcal.dask",
    "angcal.displays",
    "angcal.export",
    "angcal.links",
    "angcal.links.multiclass",
    "angcal.metrics",
    "angcal.multiclass.predictor",
    "angcal.persistence",
    "angcal.simulation",
)
CONFIG = parse_config(Path(__file__).parents[1])
# A method is found from its class, which has the example and the cross-references. An exception or
# a warning has no use of its own to show: its message says what to do.
OF_WHOLE_NAMES = {"EX01", "SA01"}
# What losses tell the solver of penalty paths: no part of the interface.
FOR_THE_SOLVER = (BlockLoss,)


def public_objects(module: str) -> dict[str, object]:
    loaded = importlib.import_module(module)
    own = [name for name, value in vars(loaded).items() if inspect.getmodule(value) is loaded]
    names = getattr(loaded, "__all__", own)
    found = {name: getattr(loaded, name) for name in names if not name.startswith("_")}
    return {k: v for k, v in found.items() if inspect.isclass(v) or inspect.isfunction(v)}


def methods(cls: type, public: dict[str, object]) -> list[str]:
    """Public methods that no public base has; an override may state its formula alone."""
    others = [
        base
        for base in cls.__mro__[1:]
        if base in (*public.values(), *FOR_THE_SOLVER) or not base.__module__.startswith("angcal")
    ]
    inherited = {name for base in others for name in vars(base)}
    routines = {name for name, _ in inspect.getmembers(cls, inspect.isroutine)}
    return sorted(name for name in routines - inherited if not name.startswith("_"))


def issues(name: str, target: object) -> list[str]:
    errors = validate(name)["errors"]
    found = [f"{name}: {code} {text}" for code, text in errors if code in CONFIG["checks"]]
    documented = inspect.getdoc(target) or ""
    # A result has attributes rather than arguments: only the library makes one.
    is_result = "Attributes\n---" in documented and "Parameters\n---" not in documented
    is_exception = inspect.isclass(target) and issubclass(target, Exception)
    excused = {"PR01"} if is_result else OF_WHOLE_NAMES if is_exception else set()
    return [issue for issue in found if issue.split()[1] not in excused]


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_documented(module):
    found, public = [], public_objects(module)
    for name, value in public.items():
        if CONFIG["exclude"] and CONFIG["exclude"].search(f"{module}.{name}"):
            continue
        found += issues(f"{module}.{name}", value)
        if inspect.isclass(value):
            for method in methods(value, public):
                each = issues(f"{module}.{name}.{method}", getattr(value, method))
                found += [one for one in each if one.split()[1] not in OF_WHOLE_NAMES]
    assert not found, "\n".join(found)


def test_a_missing_section_is_found(monkeypatch):
    from angcal.metrics import log_loss

    monkeypatch.setattr(log_loss, "__doc__", "A loss.")
    assert {issue.split()[1] for issue in issues("angcal.metrics.log_loss", log_loss)} >= {
        "PR01",
        "RT01",
        "EX01",
    }
