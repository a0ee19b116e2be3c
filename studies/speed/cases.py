"""What is measured: sizes, penalties, and data whose truth is known.

Dense rows are Gaussian with AR(0.5) columns of unit variance; sparse rows are one-hot categories
with Zipf-distributed levels. Labels follow σ(t) = sigmoid(3t + 1) on a signal of unit variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from angcal._typing import Floats, Matrix
from angcal.links import Logit
from angcal.simulation import AutoregressiveCovariance, Simulation, simulate, simulate_labels

LINK = Logit(3.0, 1.0)
TRUTH_ROWS, TRUTH_BINS = 200_000, 50
BLOCK_ENTRIES = 8_000_000
CATEGORIES = 20


@dataclass(frozen=True)
class Case:
    """One problem: n rows, d columns, scikit-learn's C, where its solvers stop.

    ``tol`` bounds ‖∇J‖∞/n for every contender; 1e-4 is scikit-learn's default.
    """

    n: int
    d: int
    C: float = 1.0
    kind: str = "dense"
    dtype: str = "float64"
    tol: float = 1e-4
    seed: int = 0

    @property
    def name(self) -> str:
        """``4000x4000 C=1``, with what is not usual about it."""
        unusual = "" if self.kind == "dense" else f" {self.kind}"
        unusual += "" if self.dtype == "float64" else f" {self.dtype}"
        return f"{self.n}x{self.d}{unusual} C={self.C:g}"

    @property
    def entries(self) -> int:
        """Stored entries of X: n·d, or one per row and category."""
        return self.n * (self.d if self.kind == "dense" else CATEGORIES)

    @property
    def bytes(self) -> int:
        """Bytes of X's entries, with their column numbers where X is sparse."""
        per_index = 0 if self.kind == "dense" else 4
        return self.entries * (np.dtype(self.dtype).itemsize + per_index)


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows and labels to fit, and what is needed to judge a fitted score.

    ``fresh(coef, intercept)`` gives scores and signals of rows that no fit has seen.
    """

    case: Case
    X: Matrix = field(repr=False)
    y: np.ndarray = field(repr=False)
    fresh: Callable[[Floats, float], tuple[Floats, Floats]] = field(repr=False)
    truth: Simulation | None = field(default=None, repr=False)

    def true_curve(self, scores: Floats, signal: Floats, coef: Floats, intercept: float) -> Floats:
        """F(u) = P(y = 1 | score u): in closed form for Gaussian rows, else by narrow bins."""
        if self.truth is not None:
            return self.truth.calibrated_curve(scores, coef, intercept)
        order = np.argsort(scores, kind="stable")
        curve = np.empty_like(scores)
        # The noise of a bin of 4000 true probabilities is below 0.004; no labels are involved.
        for bin_ in np.array_split(order, TRUTH_BINS):
            curve[bin_] = LINK(signal[bin_]).mean()
        return curve


def make(case: Case) -> Problem:
    """The data of a case; the same ones for the same case."""
    return _dense(case) if case.kind == "dense" else _one_hot(case)


def gaussian_truth(d: int, seed: int) -> Simulation:
    """The law of dense rows with d columns, of which any number can then be drawn."""
    covariance = AutoregressiveCovariance(d, rho=0.5, variance=1.0)
    return simulate(1, link=LINK, covariance=covariance, random_state=seed)


def draw(
    truth: Simulation, n: int, dtype: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(X, y) of n rows, drawn in blocks: only X itself is ever held as a whole."""
    d = truth.covariance.d
    X, y = np.empty((n, d), dtype=dtype), np.empty(n, dtype=np.int64)
    step = max(1, BLOCK_ENTRIES // d)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        X[rows], y[rows] = truth.sample(rows.stop - start, rng)
    return X, y


def _dense(case: Case) -> Problem:
    truth = gaussian_truth(case.d, case.seed)
    X, y = draw(truth, case.n, case.dtype, np.random.default_rng([case.seed, case.n]))

    def fresh(coef: Floats, intercept: float) -> tuple[Floats, Floats]:
        return truth.fresh_scores(coef, TRUTH_ROWS, case.seed, intercept)

    return Problem(case, X, y, fresh, truth)


def one_hot_rows(n: int, d: int, dtype: str, rng: np.random.Generator) -> sparse.csr_matrix:
    """n rows with a 1 in each of 20 groups of d/20 columns; level k has probability ∝ 1/k."""
    levels = d // CATEGORIES
    if levels * CATEGORIES != d:
        raise ValueError(f"d={d} must be a multiple of {CATEGORIES}, the number of categories.")
    share = 1.0 / np.arange(1, levels + 1)
    drawn = rng.choice(levels, size=(n, CATEGORIES), p=share / share.sum())
    columns = (drawn + levels * np.arange(CATEGORIES)).astype(np.int32).ravel()
    starts = np.arange(0, n * CATEGORIES + 1, CATEGORIES, dtype=np.int32)
    ones = np.ones(n * CATEGORIES, dtype=dtype)
    return sparse.csr_matrix((ones, columns, starts), shape=(n, d))


def _one_hot(case: Case) -> Problem:
    rng = np.random.default_rng([case.seed, case.n])
    rows = one_hot_rows(case.n + TRUTH_ROWS, case.d, case.dtype, rng)
    truth = simulate_labels(rows, link=LINK, random_state=case.seed)
    unseen, signal = rows[case.n :], truth.signal[case.n :]

    def fresh(coef: Floats, intercept: float) -> tuple[Floats, Floats]:
        return np.asarray(unseen @ coef) + intercept, signal

    return Problem(case, rows[: case.n], truth.y[: case.n], fresh)


@dataclass(frozen=True)
class Selection:
    """Which cases make up a run."""

    name: str
    fits: tuple[Case, ...]
    predict_rows: int
    predict_columns: int
    memory: tuple[tuple[Case, str], ...]
    # Penalty and entries of X: at each size in turn.
    growth: tuple[tuple[str, tuple[int, ...]], ...]
    # Entries of X up to which the contenders that need very many fits are run.
    tuning_entries: int
    nested_entries: int
    # Longest smaller side up to which the exact path is run.
    exact_side: int
    # Most columns with which solvers that form the d × d Hessian are run.
    hessian_side: int
    bandwidth_side: int
    # Cases and their number of draws, for the accuracy of the fast path.
    draws: tuple[tuple[Case, int], ...] = ()
    repeats: int = 5
    minutes: float = float("inf")


SIZES = ((800, 384), (1000, 2000), (4000, 4000), (10_000, 2000), (100_000, 500))
PENALTIES = (1.0, 0.01)
ONE_HOT = (10_000, 20_000)

FULL = Selection(
    name="full",
    fits=tuple(Case(n, d, C) for n, d in SIZES for C in PENALTIES)
    + tuple(Case(*ONE_HOT, C, "one-hot") for C in PENALTIES),
    predict_rows=1_000_000,
    predict_columns=500,
    memory=(
        (Case(20_000, 20_000, 0.01, dtype="float32"), "randomised"),
        (Case(4000, 4000, 0.01), "exact"),
        (Case(100_000, 500, 0.01), "exact"),
    ),
    growth=(
        ("ridge 0.5", tuple(10**k for k in (5, 6, 7, 8, 9))),
        ("C=0.01", tuple(10**k for k in (5, 6, 7, 8))),
    ),
    tuning_entries=2_000_000,
    # The penalty path has its own part, at larger sizes too.
    nested_entries=400_000,
    exact_side=10_000,
    hessian_side=2000,
    bandwidth_side=8000,
    draws=(
        *((Case(800, 384, C), 20) for C in PENALTIES),
        *((Case(1000, 2000, C), 40) for C in PENALTIES),
        *((Case(4000, 4000, C), 6) for C in PENALTIES),
        *((Case(10_000, 2000, C), 6) for C in PENALTIES),
        *((Case(100_000, 500, C), 4) for C in PENALTIES),
    ),
)

QUICK = Selection(
    name="quick",
    fits=(
        *(Case(800, 384, C) for C in PENALTIES),
        *(Case(1000, 2000, C) for C in PENALTIES),
        Case(4000, 4000),
        Case(10_000, 2000, 0.01),
        Case(*ONE_HOT, 1.0, "one-hot"),
        Case(100_000, 500, 0.01),
    ),
    predict_rows=200_000,
    predict_columns=500,
    memory=(
        (Case(6000, 6000, 0.01, dtype="float32"), "randomised"),
        (Case(2000, 2000, 0.01), "exact"),
    ),
    growth=(("ridge 0.5", tuple(10**k for k in (5, 6, 7, 8))),),
    tuning_entries=400_000,
    nested_entries=0,
    exact_side=4000,
    hessian_side=500,
    bandwidth_side=5000,
    draws=((Case(1000, 2000, 1.0), 10),),
    # No case is begun after this, and none takes the two minutes that are left.
    minutes=8.0,
)
