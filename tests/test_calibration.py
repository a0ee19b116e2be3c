"""Which angle and which link come of what was given: the decisions, their reasons and warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.covariance import EmpiricalCovariance, LedoitWolf
from sklearn.linear_model import LogisticRegression

from angcal import AngleWarning, AngularCalibratedClassifier, Logistic, Logit, Ridge
from angcal.angle import combine, loo_angle, observable_angle
from angcal.calibrate import Options, calibrate
from angcal.covariance import precision
from angcal.curve import (
    AveragedCurve,
    CalibratedCurve,
    ConstantCurve,
    angular_probability,
    tail_floor,
)
from angcal.observables import observe
from angcal.problem import LinearFit
from angcal.simulation import simulate
from angcal.solvers.minimize import minimize

N, D = 150, 40
LINK = Logit(3.0, 1.0)
DATA = simulate(N, D, link=LINK, random_state=0)


def fit_of(X, y, fit_intercept=True, strength=0.5 / D):
    start = LinearFit(
        X,
        np.asarray(y, dtype=float),
        np.ones(len(y)),
        np.zeros(X.shape[1]),
        0.0,
        Logistic(),
        Ridge(strength),
        fit_intercept,
    )
    return minimize(start, tol=1e-8)


FIT = fit_of(DATA.X, DATA.y)
SEEN = observe(FIT)
ONES = np.ones(N)
POOL = DATA.pool(200, random_state=1)
SOURCES = {
    "nothing": {},
    "matrix": {"covariance": DATA.covariance.matrix()},
    "operator": {"covariance": DATA.covariance},
    "pool": {"pool": POOL},
    "sparse pool": {"pool": sparse.csr_array(POOL)},
    "small pool": {"pool": POOL[:D]},
    "estimator": {"covariance": LedoitWolf()},
    "estimator on pool": {"covariance": EmpiricalCovariance(), "pool": POOL},
}
GIVEN = "Σ⁻¹ from the given covariance"
FROM_POOL = "Σ⁻¹ from a pool of 200 rows"
NEITHER = "no observable angle: neither a covariance nor a pool of unlabeled rows was given"
FEW = "no observable angle: the pool has 40 rows for 40 columns, too few"
OWN = "no observable angle: the covariance comes from the training rows themselves"
LIKELIHOOD = "likelihood of 150 leave-one-out scores under the logit link"
WEIGHED = "by precision"
JOINT = "the curve averages over its error"
APART = "not determined by labels alone; an unlabeled pool would"


def decide(fit=FIT, *, link=LINK, known=True, angle="auto", source="nothing", weights=None, **more):
    options = Options(link, known, angle, **{**SOURCES[source], **more})
    weights = np.ones(len(fit.labels)) if weights is None else weights
    return calibrate(fit, SEEN if fit is FIT else observe(fit), weights, options)


# (link known, angle, source) -> (method, parts of the reason, warned)
DECISIONS = [
    (True, "auto", "nothing", "loo", [LIKELIHOOD, NEITHER], False),
    (True, "auto", "matrix", "combined", [WEIGHED], False),
    (True, "auto", "operator", "combined", [WEIGHED], False),
    (True, "auto", "pool", "combined", [WEIGHED], False),
    (True, "auto", "sparse pool", "combined", [WEIGHED], False),
    (True, "auto", "small pool", "loo", [LIKELIHOOD, FEW], False),
    (True, "auto", "estimator", "loo", [LIKELIHOOD, OWN], False),
    (True, "auto", "estimator on pool", "combined", [WEIGHED], False),
    (True, "observable", "nothing", "loo", [LIKELIHOOD, NEITHER], True),
    (True, "observable", "matrix", "observable", [GIVEN], False),
    (True, "observable", "operator", "observable", [GIVEN], False),
    (True, "observable", "pool", "observable", [FROM_POOL], False),
    (True, "observable", "small pool", "loo", [LIKELIHOOD, FEW], True),
    (True, "observable", "estimator", "observable", ["LedoitWolf on the training rows"], False),
    (True, "observable", "estimator on pool", "observable", ["EmpiricalCovariance on a"], False),
    (True, "loo", "nothing", "loo", [LIKELIHOOD], False),
    (True, "loo", "matrix", "loo", [LIKELIHOOD], False),
    (True, "loo", "operator", "loo", [LIKELIHOOD], False),
    (True, "loo", "pool", "loo", [LIKELIHOOD], False),
    (True, 0.4, "nothing", "given", ["the cosine was given"], False),
    (True, 0.4, "operator", "given", ["the cosine was given"], False),
    (True, 0.4, "pool", "given", ["the cosine was given"], False),
    (False, "auto", "nothing", "loo", [APART, NEITHER], False),
    (False, "auto", "matrix", "observable", [GIVEN, JOINT], False),
    (False, "auto", "operator", "observable", [GIVEN, JOINT], False),
    (False, "auto", "pool", "observable", [FROM_POOL, JOINT], False),
    (False, "auto", "small pool", "loo", [APART, FEW], False),
    (False, "auto", "estimator", "loo", [APART, OWN], False),
    (False, "observable", "nothing", "loo", [APART, NEITHER], True),
    (False, "observable", "matrix", "observable", [GIVEN], False),
    (False, "observable", "estimator", "observable", ["LedoitWolf on the training rows"], False),
    (False, "observable", "small pool", "loo", [APART, FEW], True),
    (False, "loo", "nothing", "loo", [APART], False),
    (False, "loo", "operator", "loo", [APART], False),
    (False, "loo", "pool", "loo", [APART], False),
    (False, 0.4, "nothing", "given", ["the cosine was given"], False),
    (False, -0.4, "matrix", "given", ["the cosine was given"], False),
]


@pytest.mark.parametrize(("known", "angle", "source", "method", "reasons", "warned"), DECISIONS)
def test_decision(known, angle, source, method, reasons, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = decide(known=known, angle=angle, source=source)
    assert [w.category for w in caught] == [AngleWarning] * warned
    if warned:
        assert "angle='observable' is not possible" in str(caught[0].message)
        assert "The leave-one-out angle is used" in str(caught[0].message)
    assert result.angle.method == method
    for reason in reasons:
        assert reason in result.angle.reason
    if angle == "loo":
        assert "no observable angle" not in result.angle.reason
    if known:
        # What labels say of an angle they do not say of an exception among them.
        floor = 0.0 if angle == 0.4 else tail_floor(len(result.left_out.labels))
        given = (result.link, result.angle.cosine, result.scale)
        assert result.curve == CalibratedCurve(*given, floor)
    else:
        assert isinstance(result.curve, AveragedCurve)
        assert sum(part.weight for part in result.curve.parts) == pytest.approx(1.0)
        signs = {np.sign(part.cosine) for part in result.curve.parts}
        assert signs == {np.sign(result.angle.cosine)}
    assert (result.link == LINK) == known
    if not isinstance(angle, str):
        assert result.angle.cosine == angle
        assert result.angle.interval == (angle, angle)
    low, high = result.angle.interval
    assert low <= result.angle.cosine <= high


def test_each_route_is_the_function_it_names():
    sigma = DATA.covariance.matrix()
    scale = decide(source="matrix").scale
    inverse = precision(sigma, None, FIT.X)
    observable = observable_angle(FIT, SEEN, inverse, scale, sign=1.0)
    loo = loo_angle(SEEN, FIT.labels, ONES, scale, LINK)
    assert decide(angle="observable", source="matrix").angle == observable
    assert decide(angle="loo", source="matrix").angle == loo
    assert decide(angle="auto", source="matrix").angle == combine(observable, loo)
    exact = decide(known=False, angle="observable", source="matrix")
    assert exact.angle == observable
    # Offsets are averaged over, which adds noise to every part and lowers its cosine a little.
    for part in exact.curve.parts:
        assert 0.95 * observable.cosine < part.cosine < observable.cosine


def test_confidence_reaches_every_interval():
    for known in (True, False):
        for angle, source in (("auto", "matrix"), ("observable", "matrix"), ("loo", "nothing")):
            wide = decide(known=known, angle=angle, source=source, confidence=0.99).angle
            narrow = decide(known=known, angle=angle, source=source, confidence=0.5).angle
            assert (wide.confidence, narrow.confidence) == (0.99, 0.5)
            assert wide.cosine == narrow.cosine
            assert np.ptp(wide.interval) > np.ptp(narrow.interval)


def test_an_unknown_scale_widens_the_interval():
    labels_alone = decide(known=False, angle="loo").angle
    assert np.ptp(labels_alone.interval) > 1.5 * np.ptp(
        decide(known=True, angle="loo").angle.interval
    )
    assert labels_alone.standard_error > 0


def test_a_sign_holdout_decides_the_sign():
    X, y = DATA.sample(200, random_state=3)
    for known in (True, False):
        for labels, sign in ((y, 1.0), (1 - y, -1.0)):
            result = decide(
                known=known,
                angle="observable",
                source="matrix",
                sign_holdout=(X, labels.astype(float)),
            )
            assert np.sign(result.angle.cosine) == sign


def test_an_unstable_denominator_is_a_reason():
    """Σ far too small off ŵ: by name a warning, by "auto" only a reason."""
    fit = fit_of(DATA.X, DATA.y, strength=1e-6)
    unit = fit.coef / np.linalg.norm(fit.coef)
    along = DATA.norm(unit) ** 2  # so that the scores' spread is what it should be
    tiny = 1e-8 * np.eye(D) + along * np.outer(unit, unit)
    for known in (True, False):
        with pytest.warns(AngleWarning, match="no stable denominator"):
            result = decide(fit, known=known, angle="observable", covariance=tiny)
        assert "no stable denominator" in result.angle.reason
        quiet = decide(fit, known=known, covariance=tiny)
        assert quiet.angle.method == "loo"
        assert "no stable denominator" in quiet.angle.reason


# ------------------------------------------------------------------ nothing can be estimated


def rare(n_positive, fit_intercept=True):
    y = np.zeros(N)
    y[:n_positive] = 1.0
    return fit_of(DATA.X, y, fit_intercept)


@pytest.mark.parametrize(
    ("known", "angle"), [(True, "auto"), (True, "loo"), (False, "auto"), (False, 0.4)]
)
@pytest.mark.parametrize("flipped", [False, True])
def test_a_tiny_class_gets_the_prevalence(known, angle, flipped):
    fit = rare(2)
    if flipped:
        fit = fit_of(DATA.X, 1 - fit.labels)
    with pytest.warns(AngleWarning, match="the smaller class has 2 rows, fewer than 3") as caught:
        result = decide(fit, known=known, angle=angle)
    assert len(caught) == 1
    assert result.angle.is_fallback
    assert result.angle.interval == (-1.0, 1.0)
    assert isinstance(result.curve, ConstantCurve)
    expected = (fit.labels.sum() + 1) / (N + 2)
    assert_allclose(result.curve.predict(np.array([-9.0, 9.0])), expected, rtol=1e-12)


def test_the_prevalence_weighs_rows():
    weights = np.where(np.arange(N) < 2, 10.0, 1.0)
    with pytest.warns(AngleWarning):
        result = decide(rare(2), weights=weights)
    expected = (20.0 * N / weights.sum() + 1) / (N + 2)
    assert_allclose(result.curve.prevalence, expected, rtol=1e-12)


def test_three_rows_or_a_known_curve_are_enough():
    assert not decide(rare(3)).angle.is_fallback
    result = decide(rare(2), angle=0.4)
    assert result.angle.method == "given"
    s = np.linspace(-1, 1, 5)
    u = result.scale.center + result.scale.norm * s
    assert_allclose(result.curve.predict(u), angular_probability(LINK, 0.4, s), atol=1e-12)


@pytest.mark.parametrize("angle", ["auto", "observable", "loo", 0.4])
@pytest.mark.parametrize("source", ["nothing", "matrix", "operator", "pool"])
def test_zero_weights_get_the_prevalence(angle, source):
    start = LinearFit(
        DATA.X, FIT.labels, ONES, np.zeros(D), 0.3, Logistic(), Ridge(1.0), fit_intercept=True
    )
    with pytest.warns(AngleWarning, match="all weights are zero"):
        result = decide(start, angle=angle, source=source)
    assert result.angle.is_fallback


@pytest.mark.parametrize("angle", ["auto", "loo", 0.4])
def test_a_score_that_sigma_calls_constant_gets_the_prevalence(angle):
    """ŵ lies where Σ has no variance: ‖ŵ‖_Σ = 0 although the weights are not zero."""
    X = np.column_stack([DATA.X[:, :1], np.zeros(N)])
    sigma = np.diag([0.0, 1.0])
    with pytest.warns(AngleWarning, match="does not vary .its spread, by covariance, is 0"):
        assert decide(fit_of(X, DATA.y), angle=angle, covariance=sigma).angle.is_fallback


@pytest.mark.parametrize("angle", ["auto", "observable", "loo", 0.4])
@pytest.mark.parametrize("known", [True, False])
def test_a_matrix_that_is_no_covariance_is_refused_by_every_route(angle, known):
    bad = DATA.covariance.matrix()
    bad[0, 0] *= -1.0
    with pytest.raises(ValueError, match="covariance is not positive"):
        decide(angle=angle, known=known, covariance=bad)


# ------------------------------------------------------------------ scores that contradict


def warnings_of(share, fit_intercept):
    """Messages where shifted columns stand in for the intercept that rare labels call for."""
    rare_labels = DATA.signal > np.quantile(DATA.signal, 1 - share)
    fit = fit_of(DATA.X + 0.5, rare_labels, fit_intercept)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not decide(fit, angle="loo").angle.is_fallback
    return [str(w.message) for w in caught]


def test_scores_off_center_without_an_intercept_warn():
    (message,) = warnings_of(0.3, fit_intercept=False)
    assert "no intercept, which presumes centered features" in message
    assert warnings_of(0.3, fit_intercept=True) == []


def test_scores_far_off_center_warn_once():
    """Leave-one-out scores cannot contradict a spread that is their own."""
    assert len(warnings_of(0.1, fit_intercept=False)) == 1


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_a_covariance_in_other_units_warns(factor):
    sigma = factor**2 * DATA.covariance.matrix()
    with pytest.warns(AngleWarning, match="By the covariance the scores should have a standard"):
        decide(angle="loo", covariance=sigma)


# ------------------------------------------------------------------ seen from outside


@pytest.mark.parametrize("link", [None, LINK])
def test_warnings_point_at_the_callers_line(link):
    base = LogisticRegression(tol=1e-8, max_iter=1000)
    model = AngularCalibratedClassifier(base, link=link, angle="observable")
    with pytest.warns(AngleWarning, match="not possible") as caught:
        model.fit(DATA.X, DATA.y)
    assert {w.filename for w in caught} == {__file__}
    with pytest.warns(AngleWarning, match="No angle can be estimated") as caught:
        model.fit(DATA.X, rare(1).labels)
    assert {w.filename for w in caught} == {__file__}
    model.set_params(angle="loo", covariance=25.0 * DATA.covariance.matrix())
    with pytest.warns(AngleWarning, match="By the covariance") as caught:
        model.fit(DATA.X, DATA.y)
    assert {w.filename for w in caught} == {__file__}


@pytest.mark.parametrize("angle", ["auto", "observable", "loo", 0.4])
@pytest.mark.parametrize("link", [None, LINK])
def test_an_operator_is_its_matrix(angle, link):
    found = [
        AngularCalibratedClassifier(
            LogisticRegression(), link=link, angle=angle, covariance=covariance
        ).fit(DATA.X, DATA.y)
        for covariance in (DATA.covariance, DATA.covariance.matrix())
    ]
    assert_allclose(found[0].angle_.cosine, found[1].angle_.cosine, atol=1e-6)
    assert_allclose(found[0].predict_proba(DATA.X), found[1].predict_proba(DATA.X), atol=1e-5)
