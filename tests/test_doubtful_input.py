"""Input that is legal but contradicts what the method presumes gets a warning that says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    PenaltyWarning,
    Quadratic,
    RepeatedRowsWarning,
    ScoreCalibratedClassifier,
)
from angcal.estimators.repeats import _none_in_a_sample, copies
from angcal.rows import as_rows
from angcal.simulation import AutoregressiveCovariance, simulate

LINK = Logit(3.0, 1.0)
DATA = simulate(300, 150, link=LINK, random_state=0)


def base(**options):
    return LogisticRegression(tol=1e-8, max_iter=5000, **options)


@pytest.mark.filterwarnings("ignore:the scores separate the labels")
@pytest.mark.parametrize("calibrator", [AngularCalibratedClassifier, ScoreCalibratedClassifier])
def test_copies_of_rows_are_noticed(calibrator):
    X, y = np.repeat(DATA.X, 3, axis=0), np.repeat(DATA.y, 3)
    with pytest.warns(RepeatedRowsWarning, match="900 of 900 rows"):
        calibrator(base(C=100.0)).fit(X, y)


def test_copies_do_not_matter_with_many_labels_per_feature():
    """Five binary columns repeat by nature; with tiny leverages there is nothing to warn of."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (500, 5)).astype(float)
    y = (rng.random(500) < 0.2 + 0.6 * X[:, 0]).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRowsWarning)
        clf = AngularCalibratedClassifier(base()).fit(X, y)
    assert np.ptp(clf.predict_proba(X)[:, 1]) > 0.4


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_a_covariance_in_other_units_is_noticed(factor):
    covariance = factor * DATA.covariance.matrix()
    with pytest.warns(AngleWarning, match="after any scaling"):
        AngularCalibratedClassifier(base(), link=LINK, covariance=covariance).fit(DATA.X, DATA.y)


def test_no_intercept_on_features_off_center_is_noticed():
    data = simulate(500, 100, link=Logit(3.0, 2.0), mean=np.full(100, 0.5), random_state=1)
    with pytest.warns(AngleWarning, match="Fit an intercept, or center X"):
        AngularCalibratedClassifier(base(fit_intercept=False, C=50.0)).fit(data.X, data.y)


@pytest.mark.parametrize("angle", ["auto", "observable", "loo", 0.5])
@pytest.mark.parametrize(
    "covariance",
    [DATA.covariance, DATA.covariance.matrix(), LedoitWolf()],
    ids=["operator", "matrix", "estimator"],
)
def test_every_kind_of_covariance_with_every_angle(covariance, angle):
    clf = AngularCalibratedClassifier(
        base(), link=LINK, angle=angle, covariance=covariance, pool=DATA.pool(600, random_state=2)
    ).fit(DATA.X, DATA.y)
    assert abs(clf.angle_.cosine - DATA.cosine(clf.coef_[0])) < 0.35


@pytest.mark.parametrize("covariance", ["ledoit", object(), StandardScaler()])
def test_what_is_no_covariance_is_refused(covariance):
    clf = AngularCalibratedClassifier(base(), link=LINK, covariance=covariance)
    with pytest.raises(TypeError, match="covariance"):
        clf.fit(DATA.X, DATA.y)


def test_a_structured_covariance_is_never_written_out(monkeypatch):
    data = simulate(60, 400, link=LINK, random_state=3)

    def refuse(self):
        raise AssertionError("the d × d matrix was formed")

    monkeypatch.setattr(AutoregressiveCovariance, "matrix", refuse)
    clf = AngularCalibratedClassifier(base(), link=LINK, covariance=data.covariance)
    assert "given covariance" in clf.fit(data.X, data.y).angle_.reason or clf.angle_.method != "loo"


def test_a_penalty_that_is_not_convex_is_refused():
    with pytest.raises(ValueError, match="negative eigenvalue"):
        Quadratic(np.diag([1.0, -0.5]))
    with pytest.raises(ValueError, match="NaN"):
        Quadratic([[np.nan, 0.0], [0.0, 1.0]])
    assert Quadratic([[2.0, 0.0], [0.0, 2.0]]).value(np.ones(2)) == 2.0


@pytest.mark.parametrize(
    ("rows", "copies", "d", "C", "jitter"),
    [(100, 2, 100, 1.0, 1e-6), (40, 3, 300, 1e-4, 0.0), (13, 3, 20, 1.0, 1e-6)],
)
def test_near_copies_and_copies_under_a_strong_penalty_are_noticed(rows, copies, d, C, jitter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, d))
    y = (rng.random(rows) < LINK(X @ rng.normal(size=d) / np.sqrt(d))).astype(int)
    copied = np.repeat(X, copies, axis=0) + jitter * rng.normal(size=(rows * copies, d))
    with pytest.warns(RepeatedRowsWarning, match=f"{rows * copies} of {rows * copies} rows"):
        AngularCalibratedClassifier(base(C=C)).fit(copied, np.repeat(y, copies))


@pytest.mark.parametrize("d", [3, 5, 10, 40, 300])
def test_near_copies_are_found_where_a_gap_tells_them(d):
    rng = np.random.default_rng(40_000_000)
    once = rng.normal(size=(100, d))
    source = np.repeat(np.arange(100), 2)
    jitter = 0.01 if d < 10 else 0.05
    twice = once[source] + jitter * rng.normal(size=(200, d))
    for X in (twice, 1e30 * twice, csr_array(twice)):
        found = copies(X)
        assert 97 <= len(np.unique(found)) <= 100  # of few columns some are as near by chance
        np.testing.assert_array_equal(found[::2], found[1::2])
    assert len(np.unique(copies(rng.normal(size=(200, d))))) == 200


def grouped(numbers):
    """The first row of each row's number."""
    first, places = np.unique(numbers, return_index=True, return_inverse=True)[1:]
    return first[places.reshape(-1)]


@pytest.mark.parametrize("n", [60, 700, 1500, 3000])
@pytest.mark.parametrize("kind", ["numbers", "large mean", "integers", "sparse", "one outlier"])
def test_equal_rows_get_the_same_number_in_whatever_rows(n, kind):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 40))
    if kind == "integers":
        X = rng.integers(0, 4, size=(n, 40)).astype(float)
    if kind == "sparse":
        X = X * (rng.random((n, 40)) < 0.2)
    X = X + 1e5 * (kind == "large mean")
    pairs = rng.permutation(n)[:20].reshape(2, 10)
    X[pairs[0]] = X[pairs[1]]
    if kind == "one outlier":
        X[pairs[:, 0]] *= 1e9
    expected = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    found = copies(csr_array(X) if kind == "sparse" else X)
    assert np.array_equal(grouped(found), grouped(expected))


@pytest.mark.filterwarnings("ignore::angcal.AngleWarning")
def test_near_copies_of_weak_signals_in_many_classes_are_noticed():
    rng = np.random.default_rng(40_000_001)
    source = np.repeat(np.arange(50), 3)
    X = rng.normal(size=(50, 10))[source] + 0.02 * rng.normal(size=(150, 10))
    y = rng.integers(0, 4, 50)[source]
    with pytest.warns(RepeatedRowsWarning, match="150 of 150 rows"):
        AngularLogisticRegressionCV(Cs=4).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRowsWarning)
        AngularLogisticRegressionCV(Cs=4).fit(X, y, groups="copies")


def _separated():
    """Four classes that 30 of 60 columns separate; the others hardly vary."""
    rng = np.random.default_rng(40_000_003)
    X = rng.normal(size=(80, 60)) * np.where(np.arange(60) < 45, 1.0, 1e-4)
    return X, rng.integers(0, 4, 80)


@pytest.mark.filterwarnings("ignore::angcal.AngleWarning")
def test_penalties_whose_fits_end_short_of_the_optimum_are_left_out():
    X, y = _separated()
    with pytest.warns(PenaltyWarning, match="Cs above 1 are left out"):
        found = AngularLogisticRegressionCV([1e-2, 1.0, 1e10]).fit(X, y)
    np.testing.assert_array_equal(found.Cs_, [1e-2, 1.0])
    assert len(found.path_.log_loss) == len(found.coefs_paths_) == 2


def test_the_end_of_the_given_penalties_is_noticed():
    with pytest.warns(PenaltyWarning, match="is the largest of Cs"):
        AngularLogisticRegressionCV([1e-6, 1e-5, 1e-4]).fit(DATA.X, DATA.y)


@pytest.mark.parametrize("n", [5000, 40_000])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_copies_of_a_tenth_of_many_rows_are_among_those_that_are_looked_at(n, share):
    X = np.random.default_rng(0).normal(size=(n, 3))
    X[: int(share * n / 2)] = X[int(share * n / 2) : 2 * int(share * n / 2)]
    assert _none_in_a_sample(X) == (share == 0.0)
    assert _none_in_a_sample(csr_array(X)) == (share == 0.0)
    assert _none_in_a_sample(as_rows([X[: n // 2], X[n // 2 :]], True)) == (share == 0.0)
