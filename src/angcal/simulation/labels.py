"""Labels drawn on rows that were given: `simulate_labels` and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from angcal._typing import Floats, Matrix
from angcal.links import Link, as_link
from angcal.simulation.designs import Seed, draw_labels, draw_weights


@dataclass(frozen=True, eq=False)
class SimulatedLabels:
    """Labels P(y = 1 | x) = σ(w*ᵀ(x − mean)) drawn on rows that were given.

    Attributes
    ----------
    y, signal, probability
        Label, w*ᵀ(x − mean) and σ of it, row by row.
    weights, mean
        w* and the column means, so that the truth on any row is known.
    link
        σ.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(200, 5))
    >>> labels = simulate_labels(X, link="logit", random_state=0)
    >>> np.allclose(labels.link((X - labels.mean) @ labels.weights), labels.probability)
    True
    """

    y: NDArray[np.int64]
    signal: Floats
    probability: Floats
    weights: Floats
    mean: Floats
    link: Link


def simulate_labels(
    X: Matrix,
    *,
    link: Link | Any,
    weights: ArrayLike | None = None,
    n_nonzero: int | None = None,
    standardize: bool = False,
    random_state: Seed = None,
) -> SimulatedLabels:
    """P(y = 1 | x) = σ(w*ᵀ(x − mean)) on real rows, with w*ᵀ(x − mean) of variance one on them.

    Parameters
    ----------
    X
        All the rows at hand, dense or sparse: their mean and variance define the truth.
    link
        σ, as a Link or anything `as_link` takes.
    weights, n_nonzero
        As in `simulate`.
    standardize
        Whether a drawn w* ~ N(0, I) is for columns divided by their standard deviation, so that
        no column dominates by its unit. Given ``weights`` are for the columns as they are.
    random_state
        Seed or numpy Generator.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(200, 5))
    >>> round(float(simulate_labels(X, link="logit", random_state=0).signal.var()), 12)
    1.0
    """
    X = check_array(X, accept_sparse=("csr", "csc"), dtype=np.float64)
    link = as_link(link)
    rng = np.random.default_rng(random_state)
    direction = draw_weights(weights, n_nonzero, X.shape[1], rng)
    if standardize and weights is None:
        direction = direction / StandardScaler(with_mean=False).fit(X).scale_
    mean = np.asarray(X.mean(axis=0), dtype=float).ravel()
    raw = X @ direction
    deviation = raw.std()
    # Rounding alone leaves a constant score with a deviation of a few ulps of its size.
    if deviation <= 1e-12 * np.abs(raw).max():
        raise ValueError("the score X @ weights is constant on these rows; drop constant columns")
    signal = (raw - mean @ direction) / deviation
    probability = link(signal)
    y = draw_labels(probability, rng)
    return SimulatedLabels(y, signal, probability, direction / deviation, mean, link)
