"""What is compared on: packaged data with few labels, and a simulation with n = d."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from angcal import Logit
from angcal.simulation import simulate
from studies.peers.tasks import Split, scaled_by_first

Floats = NDArray[np.float64]
N_TEST = 5000


def packaged(X: Floats, y: NDArray[np.int64], n: int, seed: int) -> Split:
    """n labeled rows; all others are test rows."""
    X_train, X_new, y_train, y_new = train_test_split(
        X, y, train_size=n, stratify=y, random_state=seed
    )
    X_train, X_new = scaled_by_first(X_train, X_new)
    return Split(X_train, y_train, X_new, y_new)


def digits(seed: int) -> Split:
    X, y = load_digits(return_X_y=True)
    return packaged(X, y % 2, 100, seed)


def breast_cancer(seed: int) -> Split:
    X, y = load_breast_cancer(return_X_y=True)
    return packaged(X, y, 60, seed)


def simulated(seed: int) -> Split:
    data = simulate(300, 300, link=Logit(3.0, 1.0), random_state=seed)
    # Columns of variance 1/d become columns of variance 1, as a scaler would have them.
    factor = np.sqrt(300.0)
    X_new, y_new = data.sample(N_TEST, random_state=seed)
    return Split(data.X * factor, data.y, X_new * factor, y_new)


TASKS: dict[str, Callable[[int], Split]] = {
    "digits, even or odd: 100 × 64": digits,
    "breast cancer: 60 × 30": breast_cancer,
    "simulated: 300 × 300": simulated,
}
