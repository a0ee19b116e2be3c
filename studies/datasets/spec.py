r"""What is known of a dataset before any of it is read: a frozen record, and no code per dataset.

Sizes
-----
The paper splits the rows of a dataset into n labeled ones for the fit, a pool of n_cov unlabeled
ones, n_test for the error, and h = 500 for Platt and isotonic scaling. For a file with R rows, the
same roles are filled by

.. math::
    n' = \min(n, \max(\lfloor R/2 \rfloor, R - n_{cov} - n_{test} - h)),

    h' = \min(h, \max(\lfloor (R - n')/3 \rfloor, R - n' - n_{cov} - n_{test})), \qquad
    r = R - n' - h',

    n_{test}' = \min\bigl(n_{test},
        \lfloor r \max(\tfrac12, n_{test}/(n_{cov} + n_{test})) \rfloor\bigr), \qquad
    n_{cov}' = \min(n_{cov}, r - n_{test}').

The paper's sizes come out where they fit, whatever the file's number of columns. Otherwise n is
kept as long as half of the rows allow it, and the pool gives way before the test rows do: the error
is read off the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

# -- Where a dataset lives in public, and the name under which its download is cached -----------
#
# A download and the file of a data folder may differ: the folder may hold a stand-in or some of the
# rows. So a download is cached under a name of its own, and what was loaded always knows which of
# the two it came from.


Recode = tuple[tuple[str, int], ...]
"""(label at home, label in the catalogue); used only where it covers every label of a file."""


@dataclass(frozen=True)
class OpenML:
    """A dataset of OpenML, by its number."""

    number: int
    # Whether its columns have names and categories worth keeping; otherwise it is a matrix
    table: bool = False
    recode: Recode = ()  # Labels that OpenML writes in another way than the catalogue

    @property
    def page(self) -> str:
        """The page to read about the dataset."""
        return f"https://www.openml.org/d/{self.number}"

    def cached_as(self, name: str) -> str:
        """File name of the download in the cache."""
        return f"{name}-openml-{self.number}" + (".csv.gz" if self.table else ".npz")


@dataclass(frozen=True)
class WebFile:
    """A file behind an address: a zip archive with a CSV file, or a MATLAB file with X and Y."""

    page: str  # The page to read about the dataset
    url: str  # The file itself
    form: Literal["zip", "mat"]
    member: str = ""  # Name of the CSV file in the archive, in whatever folder
    # File of the archive that names the columns in lines ``@attribute <name> ...``, where the CSV
    # file has no header
    names_member: str = ""
    # Checksum of the file behind ``url`` where it is known. Otherwise the checksum of the first
    # complete download is recorded, and later loads are checked against that.
    sha256: str = ""
    recode: ClassVar[Recode] = ()
    """Labels are as in the catalogue."""

    def cached_as(self, name: str) -> str:
        """File name of the download in the cache."""
        return f"{name}-web" + (".csv.gz" if self.form == "zip" else ".npz")


@dataclass(frozen=True)
class ByHand:
    """A dataset that no program can simply download."""

    page: str  # Where the raw data are
    reason: str  # A sentence: why the matrix cannot be downloaded, and how one would make it


@dataclass(frozen=True)
class Packaged:
    """A dataset that scikit-learn carries, by the name of its loader."""

    loader: Literal["load_digits", "load_breast_cancer"]
    page: ClassVar[str] = "https://scikit-learn.org/stable/datasets/toy_dataset.html"
    """The page to read about the dataset."""


Home = OpenML | WebFile | ByHand | Packaged


# -----------------------------------------------------------------------------------------------
# How the labels of a dataset become a task with two classes: 1, 0, and −1 where there is none.


Ints = NDArray[np.int64]
MISSING = -1


@dataclass(frozen=True)
class Threshold:
    """Class 1 where a number is above the median of those that are present.

    Parameters
    ----------
    name : str
        The task in words.
    """

    name: str

    def task(self, labels: NDArray[Any]) -> Ints:
        """0, 1 or −1 for every row."""
        values = np.asarray(labels, dtype=np.float64)
        known = np.isfinite(values)
        above = (values > np.median(values[known])).astype(np.int64)
        return np.where(known, above, MISSING)


@dataclass(frozen=True)
class Groups:
    """Class 1 for some labels, class 0 for others, by their text.

    Parameters
    ----------
    positive : tuple of str
    name : str
        The task in words.
    negative : tuple of str, optional
        All other labels if None. Labels in neither group count as missing.
    """

    positive: tuple[str, ...]
    name: str
    negative: tuple[str, ...] | None = None

    def task(self, labels: NDArray[Any]) -> Ints:
        """0, 1 or −1 for every row."""
        values, where = np.unique(spelled(labels), return_inverse=True)
        unknown = [value for value in self.positive if value not in values]
        if len(unknown) == len(self.positive):
            raise ValueError(
                f"none of the labels {', '.join(self.positive)} of the task '{self.name}' occurs; "
                f"the file has {', '.join(values[:20])}. Is it the file of another dataset?"
            )
        return np.array([self._class(value) for value in values], dtype=np.int64)[where]

    def _class(self, value: str) -> int:
        if value in self.positive:
            return 1
        if value == "" or (self.negative is not None and value not in self.negative):
            return MISSING
        return 0


LabelRule = Threshold | Groups


def spelled(labels: NDArray[Any]) -> NDArray[np.str_]:
    """Labels as text, so that 1, 1.0, '1' and b'1' are one label; missing ones as ''."""
    labels = np.asarray(labels)
    values, where = np.unique(labels.astype(str), return_inverse=True)
    return np.array([_spell(value) for value in values], dtype=np.str_)[where]


def _spell(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return "" if value in ("None", "<NA>") else value
    if np.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() else value


def recoded(labels: NDArray[Any], pairs: tuple[tuple[str, int], ...]) -> NDArray[Any]:
    """Labels in the catalogue's numbering, where every label is one of the pairs' first."""
    mapping = dict(pairs)
    text = spelled(labels)
    if not pairs or not set(text) <= set(mapping):
        return labels
    return np.array([mapping[value] for value in text], dtype=np.int64)


Table = Literal["dl", "uci", "uci-extended", "extra", "packaged"]
Standing = Literal["as published", "stand-in", "rebuilt", "subset", "loader only"]
DatePart = Literal["year", "month", "weekday", "hour", "date", "time"]

HOLDOUT = 500
PRINTED = ("uncalibrated", "angular", "platt_100", "isotonic_100", "platt_500", "isotonic_500")


@dataclass(frozen=True)
class Dates:
    """A column of dates that becomes one column of 0 and 1 for every value of every part."""

    column: str
    format: str  # As in ``datetime.strptime``
    parts: tuple[DatePart, ...]  # "date" is the calendar day, "time" the hour and minute


@dataclass(frozen=True)
class Preparation:
    """How a file becomes a matrix; the steps are taken in the order of the parameters.

    Labels are set aside first and play no part in any step.

    Parameters
    ----------
    label : str, optional
        Column of a table with the labels; a matrix carries them as ``y``.
    drop : tuple of str
        Columns to leave out: identifiers, other targets, columns that give the label away. Names
        that a file does not have are ignored.
    dates : tuple of Dates
    categories : tuple of str
        Columns of numbers that are mere names. Text always is. A category becomes one column of 0
        and 1 per level, all levels kept as in the paper; a missing cell is 0 in all of them.
    two_valued : {"number", "levels"}
        What a column of two distinct numbers is: a number, or a category with two levels.
    max_missing : float
        Columns of numbers with a larger share of missing cells are left out; in the others the
        median of the present cells is filled in.
    dead_share : float
        Columns whose deviation is at most this share of the median deviation are left out. For
        columns of one unit only, such as the coordinates of an embedding, some of which are dead in
        the published weights. Columns that are constant up to rounding are always left out.
    sparse : bool
        Whether a table becomes a CSR matrix.
    scaling : {"standardize", "none"}
        Mean 0 and deviation 1; a sparse matrix is scaled but not centered.
    """

    label: str | None = None
    drop: tuple[str, ...] = ()
    dates: tuple[Dates, ...] = ()
    categories: tuple[str, ...] = ()
    two_valued: Literal["number", "levels"] = "number"
    max_missing: float = 0.5
    dead_share: float = 0.0
    sparse: bool = False
    scaling: Literal["standardize", "none"] = "standardize"


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows: labeled for the fit, unlabeled in the pool, for the test, held out."""

    n: int
    n_pool: int
    n_test: int
    n_holdout: int

    @property
    def total(self) -> int:
        """All rows that are used."""
        return self.n + self.n_pool + self.n_test + self.n_holdout


@dataclass(frozen=True)
class Dataset:
    """A dataset by name, with all that is known of it beforehand.

    Parameters
    ----------
    name : str
        Short name, for ``load``.
    title : str
        As the paper prints it.
    table : {"dl", "uci", "uci-extended", "extra", "packaged"}
        Table of the paper: pretrained representations, UCI, UCI/OpenML extended.
    citation : str
    home : OpenML, WebFile, ByHand or Packaged
    file : str
        Name of the file in a data folder (``ANGCAL_DATA``).
    n, d, n_pool, n_test : int, optional
        The paper's sizes; None outside its tables.
    printed : mapping
        The paper's calibration errors, with the keys ``PRINTED``.
    standing : {"as published", "stand-in", "rebuilt", "subset", "loader only"}
        What ``file`` is, as against the published dataset.
    remark : str
        A sentence about that, and about what the paper's identifier holds where it is another set.
    preparation : Preparation
    labels : Threshold, Groups or None
        How real labels become two classes; None where there are none.
    printed_id : str
        The identifier that the paper prints.
    sha256 : str
        Checksum of ``file`` as the tracked results were made from it; "" where it was not at hand.
    """

    name: str
    title: str
    table: Table
    citation: str
    home: Home
    file: str
    standing: Standing
    remark: str
    labels: LabelRule | None
    n: int | None = None
    d: int | None = None
    n_pool: int | None = None
    n_test: int | None = None
    printed: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    preparation: Preparation = field(default_factory=Preparation)
    printed_id: str = ""
    sha256: str = ""

    def sizes_for(self, n_rows: int, *, n_holdout: int = HOLDOUT) -> Sizes:
        """Sizes for a file with so many rows, by the formula of this module.

        Outside the paper's tables half of the rows are for the fit, and the others are shared
        equally.

        Examples
        --------
        >>> from studies.datasets import CATALOGUE
        >>> CATALOGUE["madelon"].sizes_for(2600)
        Sizes(n=300, n_pool=900, n_test=900, n_holdout=500)
        >>> CATALOGUE["mnist"].sizes_for(20000)
        Sizes(n=784, n_pool=17216, n_test=1500, n_holdout=500)
        """
        if self.n is None or self.n_pool is None or self.n_test is None:
            n, n_pool, n_test = n_rows // 2, n_rows, n_rows
        else:
            n, n_pool, n_test = self.n, self.n_pool, self.n_test
        n = min(n, max(n_rows // 2, n_rows - n_pool - n_test - n_holdout))
        held = min(n_holdout, max((n_rows - n) // 3, n_rows - n - n_pool - n_test))
        rest = n_rows - n - held
        n_test = min(n_test, int(rest * max(0.5, n_test / (n_pool + n_test))))
        return Sizes(n, min(n_pool, rest - n_test), n_test, held)
