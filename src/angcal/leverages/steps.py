r"""What leaving out a row does to its own score, and back.

    γ_i = h_i/(1 − h_iD_i)        the leverage of row i in the fit without it
    h_i = γ_i/(1 + γ_iD_i)        and back

Arrays have the shape (n,), or (n, K) where there is one score for each class.
"""

from __future__ import annotations

import numpy as np

from angcal._typing import Floats


def remaining_curvature(leverages: Floats, curvatures: Floats) -> Floats:
    """1 − h_iD_i, the share of row i's curvature that is not its own doing; never negative."""
    # A row that determines its own fit has no usable score.
    return np.maximum(1.0 - leverages * curvatures, 1e-10)


def left_out(leverages: Floats, curvatures: Floats) -> Floats:
    """γ_i = h_i/(1 − h_iD_i)."""
    return leverages / remaining_curvature(leverages, curvatures)


def put_back(steps: Floats, curvatures: Floats) -> Floats:
    """h_i = γ_i/(1 + γ_iD_i)."""
    return steps / (1.0 + steps * curvatures)
