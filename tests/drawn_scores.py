"""Standard scores with labels drawn from the calibrated curve itself."""

from __future__ import annotations

import numpy as np

from angcal.curve import angular_probability

GRID = np.linspace(-2.5, 2.5, 41)


def labeled(n, cosine, link, seed=0):
    """Standard scores and labels drawn from the model itself."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    labels = (rng.random(n) < angular_probability(link, cosine, scores)).astype(float)
    return scores, labels
