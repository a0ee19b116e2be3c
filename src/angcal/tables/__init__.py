"""A table on disk -> features and labels -> numbers -> a calibrated model.

:mod:`~angcal.tables.reading` reads files, :mod:`~angcal.tables.targets` takes the labels out,
:mod:`~angcal.tables.columns` decides what each column is and turns it into numbers,
:mod:`~angcal.tables.checks` says what may be a mistake, and :mod:`~angcal.tables.fitting` tunes and
calibrates a model on them, also where a file is larger than memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from angcal._lazy import found_in

if TYPE_CHECKING:
    from angcal.tables.checks import unlike_training, warn_about
    from angcal.tables.columns import aligned, choose_columns, dropped_columns, preparation
    from angcal.tables.errors import MissingPackageError, TableError, TableWarning
    from angcal.tables.fitting import FittedTable, fit_large, fit_table, open_large
    from angcal.tables.reading import read_table
    from angcal.tables.targets import split_groups, split_target

__all__ = [
    "FittedTable",
    "MissingPackageError",
    "TableError",
    "TableWarning",
    "aligned",
    "choose_columns",
    "dropped_columns",
    "fit_large",
    "fit_table",
    "open_large",
    "preparation",
    "read_table",
    "split_groups",
    "split_target",
    "unlike_training",
    "warn_about",
]


def __getattr__(name: str) -> Any:
    homes = ("errors", "reading", "targets", "columns", "checks", "fitting")
    return found_in(__name__, name, __all__, homes)
