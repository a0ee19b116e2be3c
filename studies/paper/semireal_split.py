"""One dataset with simulated labels, divided into rows for the fit, the pool, holdout and test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from angcal._typing import Floats, Matrix
from angcal.curve import angular_probability
from angcal.metrics import mean_bregman_divergence
from angcal.observables import Observables, observe
from angcal.problem import LinearFit
from angcal.simulation import SimulatedLabels, simulate_labels
from studies.datasets import LoadedDataset, Sizes, load
from studies.paper.setting import PAPER_LINKS, RIDGE, ridge_fit

LINK = PAPER_LINKS["sigmoid"]
MOST_ROWS_OF_TRUTH = 20_000
"""Rows on which c° is found; its error is then far below any that is measured."""


@dataclass(frozen=True)
class SemirealSettings:
    """Which datasets, and how often.

    Attributes
    ----------
    datasets : tuple of str
        Names in the catalogue.
    n_splits : int
    ridge : float
        λ.
    n_bins : int
    largest_pool : int
        Rows of the pool at most; a larger one adds time and nothing to be seen.
    """

    datasets: tuple[str, ...]
    n_splits: int
    ridge: float = RIDGE
    n_bins: int = 15
    largest_pool: int = 20_000
    seed: int = 2025


@lru_cache(maxsize=64)
def prepared(name: str) -> LoadedDataset:
    """A dataset with its columns scaled; kept, as every split of it needs it again."""
    return load(name)


@dataclass(frozen=True, eq=False)
class Split:
    """One dataset with labels, divided, and its ridge fit.

    Attributes
    ----------
    X : matrix
        All rows, divided by √d.
    truth : SimulatedLabels
    train, pool, holdout, test : arrays of row numbers
    fit, observables
        Of the training rows.
    scores : (rows,) array
        u of all rows.
    """

    X: Matrix
    truth: SimulatedLabels
    train: np.ndarray
    pool: np.ndarray
    holdout: np.ndarray
    test: np.ndarray
    fit: LinearFit
    observables: Observables
    scores: Floats

    @property
    def unseen(self) -> np.ndarray:
        """All rows but those of the fit: the population, as far as it is known."""
        return np.setdiff1d(np.arange(len(self.scores)), self.train)

    @property
    def cosine(self) -> float:
        """The true c."""
        return float(np.corrcoef(self.scores[self.unseen], self.truth.signal[self.unseen])[0, 1])

    def standard(self, rows: np.ndarray) -> Floats:
        """s of some rows, by the population's centre and spread."""
        population = self.scores[self.unseen]
        center = float(population.mean()) if self.fit.fit_intercept else 0.0
        return (self.scores[rows] - center) / np.sqrt(np.mean((population - center) ** 2))

    @cached_property
    def oracle(self) -> Floats:
        """F at the true cosine, on the test rows."""
        return angular_probability(LINK, self.cosine, self.standard(self.test))

    @cached_property
    def best_cosine(self) -> float:
        """c°: the cosine whose curve is nearest to the true probabilities of unseen rows."""
        rows = self.unseen
        if len(rows) > MOST_ROWS_OF_TRUTH:
            # Drawn: files may be sorted, and their first rows unlike the others.
            rows = np.random.default_rng(0).choice(rows, MOST_ROWS_OF_TRUTH, replace=False)
        scores, truth = self.standard(rows), self.truth.probability[rows]

        def divergence(cosine: float) -> float:
            p = angular_probability(LINK, cosine, scores)
            return mean_bregman_divergence(truth, np.clip(p, 1e-12, 1.0 - 1e-12), "kl")

        return float(minimize_scalar(divergence, bounds=(-1.0, 1.0), options={"xatol": 1e-4}).x)

    @cached_property
    def best(self) -> Floats:
        """F at c°, on the test rows."""
        return angular_probability(LINK, self.best_cosine, self.standard(self.test))


def divide(data: LoadedDataset, settings: SemirealSettings, rng: np.random.Generator) -> Split:
    """Draw labels, split the rows, and fit."""
    d = data.X.shape[1]
    X = data.X / np.sqrt(d)
    sizes = data.sizes
    truth = simulate_labels(X, link=LINK, random_state=rng)
    train, holdout, test, pool = _parts(rng.permutation(X.shape[0]), sizes)
    fit = ridge_fit(X[train], truth.y[train], settings.ridge, intercept=sparse.issparse(X))
    scores = np.asarray(X @ fit.coef) + fit.intercept
    pool = pool[: settings.largest_pool]
    return Split(X, truth, train, pool, holdout, test, fit, observe(fit), scores)


def _parts(order: np.ndarray, sizes: Sizes) -> list[np.ndarray]:
    ends = np.cumsum([sizes.n, sizes.n_holdout, sizes.n_test, sizes.n_pool])
    return np.split(order[: ends[-1]], ends[:-1])
