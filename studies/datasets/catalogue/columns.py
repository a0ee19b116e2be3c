"""Values that several entries of the catalogue share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from studies.datasets.homes import Recode
from studies.datasets.labels import Groups
from studies.datasets.spec import PRINTED

ODD_DIGITS = Groups(("1", "3", "5", "7", "9"), "odd against even digits")
PLUS_ONE = Groups(("1",), "label +1 against label -1")

AGNOSTIC = (
    "Guyon, Saffari, Dror, Cawley (2007). Agnostic learning vs. prior knowledge challenge. IJCNN."
)
AUTOML = (
    "Guyon et al. (2019). Analysis of the AutoML challenge series 2015-2018. In: Automated Machine "
    "Learning, Springer."
)
SCIKIT_FEATURE = (
    "Li et al. (2017). Feature selection: a data perspective. ACM Computing Surveys 50(6)."
)


def printed(*errors: float) -> Mapping[str, float]:
    """The six errors of a row, in the order in which the paper's tables have their columns."""
    return MappingProxyType(dict(zip(PRINTED, errors, strict=True)))


def counted_from_one(count: int) -> Recode:
    """Labels 1, …, count at home for 0, …, count − 1 here."""
    return tuple((str(label + 1), label) for label in range(count))
