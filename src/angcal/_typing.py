"""Array aliases shared by every module."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""A dense array of double precision numbers."""

Matrix = Any
"""A dense or scipy-sparse two-dimensional array: anything with ``X @ v`` and ``X.T @ u``."""
