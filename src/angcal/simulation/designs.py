"""How rows, weights and labels are drawn, and from which seeds."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from angcal._typing import Floats

DESIGNS = ("gaussian", "rademacher", "uniform", "student", "elliptical")
"""The laws a row can have before it is colored by the covariance."""

Seed = int | np.random.Generator | None


def stream(random_state: Seed, purpose: int) -> np.random.Generator:
    """Return a generator of its own for each integer seed and purpose."""
    # Were the integer used as it is, `simulate(n, random_state=0).sample(n, random_state=0)`
    # would hand the training rows out again as test rows.
    if isinstance(random_state, Integral):
        return np.random.default_rng([int(random_state), purpose])
    return np.random.default_rng(random_state)


def positive_integer(name: str, value: object) -> int:
    """Return `value` as an int of at least 1, or say what it is instead."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:  # type: ignore[redundant-expr]
        raise ValueError(f"{name} must be an integer of at least 1; got {value!r}")
    return int(value)


def vector(name: str, value: ArrayLike, d: int) -> Floats:
    """Return `value` as d finite numbers, or say which shape it has."""
    vector = np.asarray(value, dtype=float)
    if vector.shape != (d,) or not np.all(np.isfinite(vector)):
        raise ValueError(
            f"{name} must hold {d} finite numbers, one per column; got shape {vector.shape}"
            " (np.ravel a coef_ of shape (1, d))"
        )
    return vector


def check_design(design: str, degrees: float) -> None:
    """Raise unless the design is known and its degrees leave a finite variance."""
    if design not in DESIGNS:
        raise ValueError(f"design must be one of {', '.join(DESIGNS)}; got {design!r}")
    if not 2 < degrees < np.inf:
        raise ValueError(
            f"degrees must be finite and above 2, or the variance is infinite; got {degrees!r}"
        )


def radius(n: int, degrees: float, rng: np.random.Generator) -> Floats:
    """Return n radii r with E r² = 1."""
    # r² = (ν − 2)/χ²_ν has mean one and makes r·Gaussian a multivariate t of covariance Σ.
    return np.sqrt((degrees - 2) / rng.chisquare(degrees, n))


def white_rows(design: str, n: int, d: int, degrees: float, rng: np.random.Generator) -> Floats:
    """Return n rows of mean zero and covariance I, of the design's law."""
    if design == "rademacher":
        # The same numbers as rng.choice((-1, 1), (n, d)), in a sixth of its time.
        return 2.0 * rng.integers(0, 2, (n, d)).astype(np.float64) - 1.0
    if design == "uniform":
        return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (n, d))
    if design == "student":
        return np.sqrt((degrees - 2) / degrees) * rng.standard_t(degrees, (n, d))
    rows = rng.standard_normal((n, d))
    if design == "elliptical":
        rows *= radius(n, degrees, rng)[:, None]
    return rows


def draw_weights(
    weights: ArrayLike | None, n_nonzero: int | None, d: int, rng: np.random.Generator
) -> Floats:
    """Return the given weights, or N(0, I) of which `n_nonzero` entries are kept."""
    if weights is not None:
        if n_nonzero is not None:
            raise ValueError("pass weights or n_nonzero, not both; weights fixes its own zeros")
        return vector("weights", weights, d)
    drawn = rng.standard_normal(d)
    if n_nonzero is not None:
        if positive_integer("n_nonzero", n_nonzero) > d:
            raise ValueError(f"n_nonzero must be at most d={d}; got {n_nonzero}")
        drawn[rng.permutation(d)[n_nonzero:]] = 0.0
    return drawn


def draw_labels(probability: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels in {0, 1} from (n,) P(y = 1), or 0, …, L−1 from (n, L) probabilities."""
    level = rng.random(len(probability))
    if probability.ndim == 1:
        return (level < probability).astype(np.int64)
    cumulative = np.cumsum(probability, axis=1)
    # Scaled to the row's own sum, so that rounding never draws a class of probability zero.
    level = level * cumulative[:, -1]
    return np.sum(cumulative[:, :-1] <= level[:, None], axis=1, dtype=np.int64)
