"""Theorem 3: with a probit link F is a Platt curve, and fitted (Â, B̂) approach (A*, B*)."""

from __future__ import annotations

import numpy as np
import pytest

from angcal import Logit, PlattScaling, Probit, platt_limit
from angcal.curve import angular_probability
from angcal.links import CallableLink


@pytest.mark.parametrize("cosine", [-0.7, 0.05, 0.5, 0.95, 1.0])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (3.0, 1.0), (0.3, -2.0), (20.0, 5.0)])
def test_closed_form_equals_quadrature(cosine, scale, offset):
    """σ(A*u + B*) against adaptive quadrature that does not know it is a probit, to 1e-10."""
    link, norm = Probit(scale, offset), 0.86
    slope, intercept = platt_limit(cosine, norm, link)
    scores = np.linspace(-8, 8, 81) * norm
    closed = link(slope * scores + intercept)
    blind = CallableLink(Probit().base, scale=scale, offset=offset)
    quadrature = angular_probability(blind, cosine, scores / norm)
    np.testing.assert_allclose(closed, quadrature, atol=1e-10)
    np.testing.assert_allclose(closed, angular_probability(link, cosine, scores / norm), atol=1e-12)


@pytest.mark.slow
def test_fitted_parameters_approach_the_limit_at_root_n_ho():
    """RMS distance of (Â, B̂) to (A*, B*) has log-log slope −0.5 ± 0.08 in n_ho (s.e. 0.03)."""
    link, cosine, norm = Probit(1.9, 0.6), 0.5, 0.9
    limit = np.array(platt_limit(cosine, norm, link))
    sizes, draws = np.array([200, 800, 3200, 12800]), 100
    distances = []
    for size in sizes:
        squared = []
        for seed in range(draws):
            rng = np.random.default_rng([seed, size])
            score = rng.normal(size=size)
            signal = cosine * score + np.sqrt(1 - cosine**2) * rng.normal(size=size)
            labels = (rng.random(size) < link(signal)).astype(float)
            fitted = PlattScaling(link).fit(norm * score, labels)
            gap = np.array([fitted.slope_, fitted.intercept_]) - limit
            squared.append(float(gap @ gap))
        distances.append(np.sqrt(np.mean(squared)))
    slope = np.polyfit(np.log(sizes), np.log(distances), 1)[0]
    assert -0.58 <= slope <= -0.42
    assert distances[-1] < 0.05


def test_logit_is_close_to_its_probit_approximation():
    """The paper's use of the theorem for sigmoid(3t + 1): within 0.02 of the exact curve."""
    link, cosine, norm = Logit(3.0, 1.0), 0.51, 0.86
    slope, intercept = platt_limit(cosine, norm, link, approximate=True)
    scores = np.linspace(-4, 4, 81) * norm
    exact = angular_probability(link, cosine, scores / norm)
    assert np.max(np.abs(link(slope * scores + intercept) - exact)) < 0.02
