"""The real datasets of Li & Sur (NeurIPS 2025) by name: ``load("madelon")``.

Data flow: `catalogue` declares every dataset (`spec`: citation, `homes`, preparation, `labels`, the
paper's sizes and errors); `loading` finds its file in ``ANGCAL_DATA`` or in the user's cache, or
has it downloaded there (`downloading`, `fetching`); `reading` opens it, `preparing` makes a matrix
of it. No code knows a dataset by name.
"""

from studies.datasets.catalogue import CATALOGUE
from studies.datasets.downloading import cache_folder
from studies.datasets.loading import (
    DatasetUnavailableError,
    LoadedDataset,
    available,
    load,
    obtainable,
)
from studies.datasets.preparing import DatasetFileError
from studies.datasets.spec import HOLDOUT, PRINTED, Dataset, Groups, Preparation, Sizes, Threshold

__all__ = [
    "CATALOGUE",
    "HOLDOUT",
    "PRINTED",
    "Dataset",
    "DatasetFileError",
    "DatasetUnavailableError",
    "Groups",
    "LoadedDataset",
    "Preparation",
    "Sizes",
    "Threshold",
    "available",
    "cache_folder",
    "load",
    "obtainable",
]
