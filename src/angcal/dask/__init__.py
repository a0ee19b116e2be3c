"""Fits of Dask arrays and dataframes, where their blocks are: on a cluster, or out of core.

The classifiers are those of :mod:`angcal` by the same names, with the same algorithm and the same
answers; only the rows are elsewhere. Without a client the threaded scheduler of this machine does
the work, block by block. Needs ``pip install 'angcal[dask]'``.
"""

from __future__ import annotations

from angcal.dask.engine import BlockSizeError, ClusterError
from angcal.dask.estimators import AngularCalibratedClassifier, AngularLogisticRegressionCV

__all__ = [
    "AngularCalibratedClassifier",
    "AngularLogisticRegressionCV",
    "BlockSizeError",
    "ClusterError",
]
