"""The angular predictor: closed forms, its table, and the curves made of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import norm

from angcal.covariance import ScoreScale
from angcal.curve import (
    CalibratedCurve,
    ConstantCurve,
    angular_probability,
)
from angcal.links import CallableLink, Cauchit, ComplementaryLogLog, Logit, Probit

LINKS = [
    Logit(3.0, 1.0),
    Logit(0.4, -2.0),
    Probit(2.0, 0.5),
    ComplementaryLogLog(1.5),
    Cauchit(2.0, -0.5),
]
every_link = pytest.mark.parametrize("link", LINKS, ids=repr)
S = np.linspace(-4.0, 4.0, 33)


@every_link
def test_a_right_angle_gives_the_same_probability_to_every_score(link):
    p = angular_probability(link, 0.0, S)
    z = np.linspace(-12.0, 12.0, 40_001)
    mean = np.sum(link(z) * norm.pdf(z)) * (z[1] - z[0])
    assert_allclose(p, mean, atol=1e-9)


@every_link
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_parallel_weights_give_the_link_itself(link, sign):
    assert_allclose(angular_probability(link, sign, S), link(sign * S), atol=1e-14)


def test_probit_has_a_closed_form():
    c, k, b = 0.6, 2.0, 0.5
    expected = norm.cdf((k * c * S + b) / np.sqrt(1 + k**2 * (1 - c**2)))
    assert_allclose(angular_probability(Probit(k, b), c, S), expected, atol=1e-14)


def test_a_callable_link_agrees_with_the_family_it_spells_out():
    blind = CallableLink(lambda t: expit(3.0 * t + 1.0))
    p = angular_probability(blind, -0.55, S)
    assert_allclose(p, angular_probability(Logit(3.0, 1.0), -0.55, S), atol=1e-10)


@every_link
def test_turning_the_weights_turns_the_score(link):
    turned = angular_probability(link, -0.7, S)
    assert_allclose(turned, angular_probability(link, 0.7, -S), atol=1e-14)
    assert np.all(np.diff(turned) < 0)


def test_a_cosine_a_hair_beyond_one_is_one():
    assert_allclose(angular_probability(Logit(3.0), 1.0 + 1e-12, S), Logit(3.0)(S), atol=1e-10)


def test_a_curve_standardizes_the_score_first():
    scale = ScoreScale(center=0.4, norm=2.5, source="covariance")
    curve = CalibratedCurve(Logit(3.0, 1.0), 0.6, scale)
    u = np.linspace(-5.0, 5.0, 11)
    expected = angular_probability(Logit(3.0, 1.0), 0.6, (u - 0.4) / 2.5)
    assert_allclose(curve.predict(u), expected, atol=1e-15)
    assert_allclose(scale.standardize(np.array([0.4, 2.9])), [0.0, 1.0])


@pytest.mark.parametrize("shape", [(0,), (7,)])
def test_a_constant_curve_ignores_the_score(shape):
    p = ConstantCurve(0.3).predict(np.full(shape, 1e9))
    assert_array_equal(p, np.full(shape, 0.3))
