"""Copies among the rows: which rows they are, and whether leaving one out leaves too much in."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import connected_components
from scipy.special import log_softmax

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import product, slices
from angcal.leverages.groups import Groups
from angcal.notices import RepeatedRowsWarning, warn
from angcal.observables import Observables
from angcal.rows import FarRows, TensorRows

if TYPE_CHECKING:
    from angcal.estimators.training import Training

LARGEST_MISS = 0.025
"""Share of the entropy of the classes by which the leave-one-out log-loss of copies may be too low
without a word. Of 541 drawn designs of 20 to 300 rows, two to six classes and 2 to 5 copies, 148
lost more than 0.1 nats by their copies, and it was more for 97 % of these; of 273 that lost less
than 0.02, for 44 %."""
FEWEST_DISTINCT = 20
"""Of fewer distinct rows, where they are a third of all or more, scores separate labels by chance,
and then no loss tells anything."""
AGREEING, CHANCE = 0.95, 0.01
"""Share of copies whose labels agree, and how likely chance may have it so."""
NEAREST, EMPTY, MOST_BETWEEN, FEWEST_PAIRS = 1 / 3, 2.0, 0.1, 8
"""Near copies are closer than a third of the closest twentieth of pairs, at a distance where a
tolerance twice as large would find a tenth more pairs at most: of rows that are no copies it finds
twice as many in one dimension, and more in others."""
MARKS, LOOKED_AT = 16, 400
"""Directions that tell distances to a fifth, and rows among which copies are looked for first."""


def warn_about_repeats(training: Training, X: Matrix, observed: list[Observables]) -> Groups | None:
    """Warn if leaving a row out, or its group, leaves its copies in, where that matters.

    m copies of a row with leverage h move its score by mhψ/(1 − mhD) where they are left out
    together, and by hψ/(1 − hD) where one is. It matters where the log-loss of the scores, at the
    slope that suits the latter, is higher for the former. Copies have the same label; rows of few
    values that are alike by chance have not.

    Returns
    -------
    Groups or None
        Rows that are one label: those of a group that was given, or the copies of a row.
    """
    groups = observed[0].groups
    if isinstance(training.groups, str) or _none_in_a_sample(X):
        return groups  # copies are left out together, or there are none
    codes, numbers = training.codes.astype(np.intp), copies(X)
    distinct = int(numbers.max()) + 1
    if distinct == len(numbers):
        return groups
    repeated = np.bincount(numbers)[numbers] > 1
    if not (repeated.any() and _agree(codes, numbers)):
        return groups
    apart = np.arange(len(numbers))
    if groups is not None:  # copies in one group are left out together
        apart = np.unique([numbers, groups.codes], axis=1, return_inverse=True)[1].reshape(-1)
        repeated = np.bincount(numbers)[numbers] > np.bincount(apart)[apart]
    sides = Groups(numbers), Groups(apart)
    few = distinct < FEWEST_DISTINCT and len(numbers) < 3 * FEWEST_DISTINCT
    together = Groups(numbers) if groups is None and _varies(X, distinct) else groups
    if not few and missed_share(observed, codes, training.weights, *sides) < LARGEST_MISS:
        return together
    count = f"{int(repeated.sum())} of {len(repeated)} rows of X have exact or near copies"
    if groups is not None:
        what = (
            f"{count} in other groups. Leaving a group out leaves them in, so probabilities will "
            "be too confident. Give copies the same group, or drop them."
        )
    else:
        what = (
            f"{count}. Leaving a row out leaves its copies in, so probabilities will be too "
            "confident. Fit with groups='copies', which leaves them out together, drop the "
            "copies, or give each distinct row a sample_weight."
        )
    warn(what, RepeatedRowsWarning)
    return together


def missed_share(
    observed: list[Observables],
    codes: np.ndarray,
    weights: Floats,
    together: Groups,
    apart: Groups,
) -> float:
    """Rise of the log-loss if rows are left out `together`, not `apart`; of the classes' entropy.

    Scores become log-odds by one slope, the best one for rows `apart`, about the shares of the
    classes.
    """
    scores, moves = [], []
    for found in observed:
        scores.append(found.calibration_scores)
        moves.append(_moves_together(found, together) - _moves_together(found, apart))
    u, moved = np.column_stack(scores), np.column_stack(moves)
    if u.shape[1] == 1:
        u, moved = (np.column_stack([0.0 * each, each]) for each in (u, moved))
    n_classes, share = u.shape[1], weights / weights.sum()
    u = u - share @ u
    scale = float(np.sqrt(np.mean(u**2)))
    if not 0.0 < scale < np.inf:
        return 0.0
    u, moved = u / scale, moved / scale
    priors = np.log(np.maximum(np.bincount(codes, share, n_classes), 1e-300))
    own = (np.arange(len(codes)), codes)

    def loss(log_slope: float, scores: Floats) -> float:
        return -float(share @ log_softmax(np.exp(log_slope) * scores + priors, axis=1)[own])

    slope = minimize_scalar(loss, bounds=(-8.0, 6.0), args=(u,), method="bounded").x
    return (loss(slope, u - moved) - loss(slope, u)) / loss(-np.inf, u)


def _moves_together(found: Observables, together: Groups) -> Floats:
    """mhψ/(1 − mhD) of rows whose copies are left out with them, less the intercept's part of h."""
    h, codes = found.leverages, together.codes
    share = together.sums(h * found.curvatures)[codes]
    pulls = together.sums(found.residuals)[codes] / np.maximum(1.0 - share, 1e-10)
    return np.maximum(h - found.intercept_leverage, 0.0) * pulls


def _agree(codes: np.ndarray, numbers: np.ndarray) -> bool:
    """Whether rows of one number have one label, more often than chance would have it."""
    order = np.argsort(numbers, kind="stable")
    pairs = np.diff(numbers[order]) == 0
    first, second = codes[order[:-1][pairs]], codes[order[1:][pairs]]
    if not len(first) or np.mean(first == second) < AGREEING:
        return False
    # Chernoff's bound for independent labels: min_θ Π E exp(θ(observed − differing pairs)).
    shares, times = np.bincount(codes) / len(codes), np.bincount(first, minlength=codes.max() + 1)
    theta = np.linspace(0.0, 20.0, 81)[:, None]
    agreeing = np.maximum(shares + (1.0 - shares) * np.exp(-theta), 1e-300)
    bound = theta[:, 0] * np.sum(first != second) + np.log(agreeing) @ times
    return bool(bound.min() < np.log(CHANCE))


def _varies(X: Matrix, distinct: int) -> bool:
    """Whether a column has as many values as half of the rows that differ.

    Rows of few values are alike by chance, and each has a label of its own. Asked of no more rows
    than few labels are looked for among.
    """
    if isinstance(X, FarRows | TensorRows) or X.shape[0] > plan.MOST_JUDGED_ROWS:
        return False
    columns = np.random.default_rng(3).permutation(X.shape[1])[:MARKS]
    some = X[:, columns]
    values = np.asarray(some.toarray() if sparse.issparse(some) else some)
    return max(len(np.unique(column)) for column in values.T) >= 0.5 * distinct


def copies(X: Matrix) -> np.ndarray:
    """A number for each row, the same for rows that are equal or all but equal.

    Told by three random projections that agree: rows next to each other along the first are
    compared along the other two. All but equal are rows a thousand times closer than the closest
    twentieth of random pairs, which of rows in clusters are those within a cluster. Of few rows it
    is a larger share, as triples alone are two of n − 1 pairs. Of up to 2,000 rows in memory all
    pairs are looked at, and all but equal are also rows at distances far below all others.
    """
    if isinstance(X, FarRows | TensorRows):
        numbers = _numbers(_Marks(X.marks if isinstance(X, FarRows) else X.marks()))
        if isinstance(X, FarRows):
            X.forget_marks()
        return numbers
    marks = _Projected(X)
    near = _near_copies(marks) if len(marks.first) <= plan.MOST_PAIRED_ROWS else None
    return _numbers(marks) if near is None else near


def _none_in_a_sample(X: Matrix) -> bool:
    """Whether there are no copies among some of many rows.

    So many that they do harm are among these.
    """
    n = X.shape[0]
    count = int(plan.SEARCHED_ROWS * np.sqrt(n))
    if 4 * count > n:
        return False
    rows = np.sort(np.random.default_rng(2).choice(n, count, replace=False))
    if isinstance(X, FarRows):
        marks = _Marks(X.marks[rows])
    else:
        marks = _Marks(X.marks(rows)) if isinstance(X, TensorRows) else _Projected(X[rows])
    none = int(_numbers(marks).max()) == count - 1
    if none and isinstance(X, FarRows):
        X.forget_marks()
    return none


class _Marks:
    """Rows along three random directions, by which equal ones are found.

    Parameters
    ----------
    marks : (n, 3) array
    """

    def __init__(self, marks: Floats) -> None:
        self._marks, self.first = marks, marks[:, 0]

    def others(self, rows: np.ndarray) -> Floats:
        """The second and the third mark of some rows."""
        return self._marks[rows, 1:]

    def may_be_alike(self, i: np.ndarray, j: np.ndarray, near: float) -> np.ndarray:
        """Whether rows i and j may be alike in all marks, by what costs less than these."""
        return np.ones(len(i), dtype=bool)

    @cached_property
    def of_some(self) -> Floats:
        """All three of rows that are looked at first, or of all."""
        return self._marks

    @cached_property
    def differ(self) -> bool:
        """Whether rows are not all alike, which would say nothing at all."""
        largest = np.abs(self._marks).max(axis=0, initial=0.0)
        return bool(np.all(self._marks.std(axis=0) > 1e-12 * largest))


class _Projected(_Marks):
    """The same of rows in memory: all of them along the first direction alone.

    Hardly any rows are all but equal along it that are not along the others. The projections of
    some rows tell which distances are small, and mostly that there are no near copies.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    """

    def __init__(self, X: Matrix) -> None:
        self.X = X
        rng = np.random.default_rng(0)
        (n, d), self.rng = X.shape, rng
        paired = n <= plan.MOST_PAIRED_ROWS
        self.directions = 2.0 * rng.random((d, MARKS if d > MARKS and paired else 3)) - 1.0
        self.few = n <= LOOKED_AT
        count = LOOKED_AT if paired else LOOKED_AT // 2
        self.part = X if self.few else X[rng.choice(n, count, replace=False)]
        self.first = product(X, np.ascontiguousarray(self.directions[:, 0]))
        self._others: Floats | None = None

    def others(self, rows: np.ndarray) -> Floats:
        own = np.ascontiguousarray(self.directions[:, 1:3])
        if self._others is None and 4 * len(rows) < len(self.first):
            return product(self.X[rows], own)
        if self._others is None:  # all of X is not to be copied
            self._others = product(self.X, own)
        return self._others[rows]

    def may_be_alike(self, i: np.ndarray, j: np.ndarray, near: float) -> np.ndarray:
        # Along three directions rows are hardly ever thirty times closer than they are.
        if sparse.issparse(self.X) or self.X.shape[1] <= MARKS:
            return super().may_be_alike(i, j, near)
        columns = self.rng.integers(0, self.X.shape[1], MARKS // 2)
        apart = np.abs(self.X[i[:, None], columns] - self.X[j[:, None], columns])
        return np.all(apart <= 30.0 * near, axis=1)

    @cached_property
    def projected(self) -> Floats:
        """Some rows along all directions."""
        return product(self.part, self.directions)

    @property
    def of_some(self) -> Floats:
        return self.projected[:, :3]

    @cached_property
    def differ(self) -> bool:
        return bool(self.first.std() > 1e-12 * np.abs(self.first).max(initial=0.0))

    def places(self, all_of_them: bool) -> Floats:
        """Rows in so few columns that distances between all pairs cost little, about their mean."""
        X = self.X if all_of_them else self.part
        if self.directions.shape[1] < MARKS:
            places = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        else:
            places = product(X, self.directions) if all_of_them else self.projected
        places = places - places.mean(axis=0)
        return places / max(float(np.abs(places).max()), np.finfo(float).tiny)


def _numbers(marks: _Marks) -> np.ndarray:
    """A number for each row, the same where all three marks are all but equal."""
    first, n = marks.first, len(marks.first)
    if not marks.differ:
        return np.arange(n)
    some = marks.of_some
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, len(some), size=(2, min(max(n, 1000), 10_000)))
    apart = np.abs(some[pairs[0]] - some[pairs[1]])[pairs[0] != pairs[1]]
    near = 1e-3 * np.quantile(apart, _closest(n), axis=0)
    rounding = 1e-14 * np.abs(some).max(axis=0)
    rounding[0] = 1e-14 * np.abs(first).max()
    order = np.argsort(first)
    numbers, number = np.empty(n, dtype=np.intp), 0
    for rows in slices(n, plan.BLOCK_ENTRIES):
        own = np.append(order[max(rows.start - 1, 0)], order[rows])
        differ = np.abs(np.diff(first[own])) > near[0] + rounding[0]
        alike = np.flatnonzero(~differ)
        may_be = marks.may_be_alike(own[alike], own[alike + 1], float(near.max() + rounding.max()))
        differ[alike] = ~may_be
        alike = alike[may_be]
        others = marks.others(np.append(own[alike], own[alike + 1]))
        largest = np.maximum(rounding[1:], 1e-14 * np.abs(others).max(axis=0, initial=0.0))
        others = np.abs(others[: len(alike)] - others[len(alike) :])
        differ[alike] = np.any(others > near[1:] + largest, axis=1)
        numbers[order[rows]] = number + np.cumsum(differ)
        number = int(numbers[own[-1]])
    return numbers


def _closest(n: int) -> float:
    """Share of pairs that are close, though no copies."""
    return min(max(0.05, 8.0 / n), 0.5)


def _near_copies(marks: _Projected) -> np.ndarray | None:
    """Numbers of rows in clusters far smaller than the distances between them; None without any."""
    if not marks.differ:
        return None
    found = _gap(marks.places(marks.few), marks.rng)
    # So many copies that they do harm are among some of the rows too.
    if found is not None and not marks.few:
        found = _gap(marks.places(True), marks.rng)
    if found is None:
        return None
    (first, second), n = found, len(marks.first)
    graph = sparse.coo_array((np.ones(len(first), dtype=bool), (first, second)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def _gap(places: Floats, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
    """Pairs at distances below a gap among all distances; None where there is no such gap."""
    n = len(places)
    pairs = rng.integers(0, n, size=(2, 4000))
    apart = places.take(pairs[0], axis=0) - places.take(pairs[1], axis=0)
    usual = np.sqrt(np.einsum("ij,ij->i", apart, apart))[pairs[0] != pairs[1]]
    widest = NEAREST * float(np.quantile(usual, _closest(n)))
    if widest <= 0.0:
        return None
    first, second, distances = _pairs_within(places, EMPTY * widest)
    near = np.sort(distances)
    tolerances = widest * EMPTY ** -np.arange(0.0, 9.0, 0.5)
    found, more = np.searchsorted(near, tolerances), np.searchsorted(near, EMPTY * tolerances)
    gap = (found >= FEWEST_PAIRS) & (more - found <= MOST_BETWEEN * found)
    if not gap.any():
        return None
    # About the pairs of the smallest such distance: a larger one may hold rows that are only close.
    gap &= found <= (1.0 + MOST_BETWEEN) * found[gap][-1]
    linked = distances < tolerances[gap][0]
    return first[linked], second[linked]


def _pairs_within(places: Floats, reach: float) -> tuple[np.ndarray, np.ndarray, Floats]:
    """(i, j, ‖x_i − x_j‖) of all pairs i < j that are closer than this.

    Looked for by products in single precision, and then measured: that takes a fifth of the time
    that all distances do.
    """
    short = places.astype(np.float32)
    half = 0.5 * np.einsum("ij,ij->i", short, short)
    # xᵀy > (‖x‖² + ‖y‖² − r²)/2, but for rounding.
    margin = np.float32(0.5 * reach**2 + 1e-6 * float(half.max(initial=0.0)))
    firsts, seconds = [], []
    for rows in slices(len(short), plan.CACHE_ENTRIES, len(short)):
        inner = short[rows] @ short[rows.start :].T
        inner -= half[rows, None] - margin
        # Flat, where a sparse mask is searched in a third of the time.
        i, j = np.divmod(np.flatnonzero(inner > half[rows.start :]), inner.shape[1])
        later = j > i
        firsts.append(i[later] + rows.start)
        seconds.append(j[later] + rows.start)
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    distances = np.linalg.norm(places[first] - places[second], axis=1)
    close = distances < reach
    return first[close], second[close], distances[close]
