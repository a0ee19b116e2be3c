"""Unlabelled rows of a Dask collection: moments and covariance where the rows are."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

from angcal._typing import Floats, Matrix
from angcal.dask.rows import DaskRows
from angcal.pools import DENSE_ROUNDING, Moments, Pool, _moments_of, row_slices
from angcal.rows import dense_parts


class DaskPool(Pool):
    """A pool whose blocks stay where they are.

    Parameters
    ----------
    rows : DaskRows
        Without intercept.
    """

    def __init__(self, rows: DaskRows) -> None:
        super().__init__(
            lambda: ((block, "pool") for _, block in rows.blocks()), rows.shape[1], min_rows=2
        )
        self._rows = rows
        self._check_count(rows.shape[0])

    def survey(self, coef: Floats | None = None) -> Moments:
        self.passes += 1
        weights = np.zeros(self.n_features) if coef is None else coef
        self._columns, scores = self._rows.sum(_survey_of_block, (weights,), merge=_both)
        if not np.all(np.isfinite(self.columns.scatter)):
            raise ValueError("pool contains NaN or infinity; impute or drop those rows first.")
        self.stored_entries = self._rows.shape[0] * self.n_features
        return scores

    def covariance(self, centred: bool) -> tuple[Floats, Floats]:
        """Mean and covariance of the rows; see :func:`angcal.covariance.pool_covariance`."""
        m, mean = self.columns.count, self.columns.mean
        mean = mean if centred else np.zeros_like(mean)
        self.passes += 1
        matrix = self._rows.sum(partial(_scatter_of_block), (mean,)) / (m - 1)
        constant = np.diag(matrix) <= DENSE_ROUNDING * mean**2
        matrix[constant, :] = 0.0
        matrix[:, constant] = 0.0
        return mean, matrix


def _survey_of_block(X: Matrix, coef: Floats) -> tuple[Moments, Moments]:
    scores = np.concatenate([np.asarray(X[part] @ coef) for part in row_slices(X)])
    return _moments_of(X if sparse.issparse(X) else np.asarray(X)), Moments.of(scores[:, None])


def _both(a: tuple[Moments, Moments], b: tuple[Moments, Moments]) -> tuple[Moments, Moments]:
    return a[0].merge(b[0]), a[1].merge(b[1])


def _scatter_of_block(X: Matrix, mean: Floats) -> Floats:
    total = np.zeros((len(mean), len(mean)))
    for _, rows in dense_parts(X):
        deviations = rows - mean
        total += deviations.T @ deviations
    return total
