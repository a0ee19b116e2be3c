"""``catalogue.toml`` -> every dataset by name, in the order of the paper's three tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from studies.datasets.spec import (
    PRINTED,
    ByHand,
    Dataset,
    Dates,
    Groups,
    Home,
    LabelRule,
    OpenML,
    Packaged,
    Preparation,
    Threshold,
    WebFile,
)

FILE = Path(__file__).with_name("catalogue.toml")
HOMES: Mapping[str, Any] = {
    "openml": OpenML,
    "web": WebFile,
    "by_hand": ByHand,
    "packaged": Packaged,
}


def _frozen(value: Any) -> Any:
    """The value with tuples for lists, as frozen records hold them."""
    if isinstance(value, dict):
        return {name: _frozen(part) for name, part in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _home(entry: dict[str, Any]) -> Home:
    """A home; ``counted_from_one = k`` stands for labels 1, …, k there and 0, …, k − 1 here."""
    if count := entry.pop("counted_from_one", 0):
        entry["recode"] = tuple((str(label + 1), label) for label in range(count))
    home: Home = HOMES[entry.pop("kind")](**entry)
    return home


def _labels(entry: dict[str, Any] | None) -> LabelRule | None:
    if entry is None:
        return None
    return Threshold(entry["threshold"]) if "threshold" in entry else Groups(**entry)


def _dataset(entry: dict[str, Any]) -> Dataset:
    errors = dict(zip(PRINTED, entry.pop("printed"), strict=True)) if "printed" in entry else {}
    preparation = entry.pop("preparation", {})
    dates = tuple(Dates(**found) for found in preparation.pop("dates", ()))
    return Dataset(
        home=_home(entry.pop("home")),
        labels=_labels(entry.pop("labels", None)),
        preparation=Preparation(dates=dates, **preparation),
        printed=MappingProxyType(errors),
        **entry,
    )


CATALOGUE: dict[str, Dataset] = {
    entry["name"]: _dataset(_frozen(entry))
    for entry in tomllib.loads(FILE.read_text(encoding="utf-8"))["dataset"]
}
