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
from typing import Literal

from studies.datasets.homes import Home
from studies.datasets.labels import LabelRule

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
