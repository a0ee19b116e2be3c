"""The theorem for several indices: calibrated exactly at the true angles; angles are found."""

import numpy as np
import pytest
from scipy.stats import chi2, norm
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit, Probit
from angcal.links.multiclass import AdditiveIndex, InteractionIndex, Softmax, TwoLayer
from angcal.multiclass import angular_predictor
from angcal.simulation import AutoregressiveCovariance, simulate_multiclass

FAMILIES = {
    "softmax": Softmax(3, offset=[0.3, 0.0, -0.3]),
    "two layers": TwoLayer((0.5, 0.2, 0.3), inner=Logit(2.0)),
    "additive": AdditiveIndex(
        parts=(
            lambda u: 0.3 * norm.cdf(u),
            lambda u: 0.3 * np.sin(u) ** 2,
            lambda u: 0.4 / (1 + u**2),
        )
    ),
    "interaction": InteractionIndex(
        parts=(lambda u: 0.2 * Probit()(u), lambda u: 0.2 * Probit()(-u), lambda u: 0.1 + 0 * u),
        pairs={
            (0, 1): lambda u, v: 0.25 * (1 + np.tanh(u * v)),
            (1, 2): lambda u, v: 0.0 * u * v,
        },
    ),
}


def _misfit(p, truth):
    """Σ z² over 30 bins of the prediction, z the mean of truth − prediction over its error.

    The prediction is E[truth | scores], so that z² sums to a χ² of 30 degrees of freedom. The true
    probability in place of a drawn label says the same with less noise.
    """
    place = np.searchsorted(np.quantile(p, np.linspace(0, 1, 31)[1:-1]), p)
    gaps = [truth[place == b] - p[place == b] for b in range(30)]
    return sum(gap.mean() ** 2 / (gap.var(ddof=1) / len(gap)) for gap in gaps)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dependent", [False, True], ids=["R regular", "R singular"])
def test_exact_calibration_at_the_true_angles(name, dependent):
    """In bins of the prediction, mean truth − mean prediction is noise of known variance.

    30,000 draws; the test fails for one draw in ten thousand.
    """
    link = FAMILIES[name]
    rng = np.random.default_rng(7)
    K, n = link.n_indices, 30_000
    W = rng.normal(size=(K, 8))
    V = 0.6 * W + 0.8 * rng.normal(size=(K, 8))
    if dependent:
        V = np.vstack([V, V.sum(axis=0)])
    W, V = W / np.sqrt(8), V / np.linalg.norm(V, axis=1, keepdims=True)
    predictor = angular_predictor(link, W @ V.T, V @ V.T, W @ W.T)
    x = rng.normal(size=(n, 8))
    P = predictor.predict(x @ V.T)
    truth = link(x @ W.T)
    for output in range(1, link.n_outputs):
        assert _misfit(P[:, output], truth[:, output]) < chi2(30).ppf(1 - 1e-4)


@pytest.mark.slow
def test_wrong_angles_are_not_calibrated():
    """The same statistic sees angles that are too large: the test above can fail."""
    rng = np.random.default_rng(8)
    W = rng.normal(size=(3, 8)) / 2
    V = 0.5 * W + 0.4 * rng.normal(size=(3, 8))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    link, n = Softmax(3), 30_000
    C = W @ V.T
    wrong = angular_predictor(link, 1.15 * C, V @ V.T, 1.15**2 * W @ W.T)
    x = rng.normal(size=(n, 8))
    misfit = _misfit(wrong.predict(x @ V.T)[:, 0], link(x @ W.T)[:, 0])
    assert misfit > chi2(30).ppf(1 - 1e-4)


def _relative_error(n, d, seed, C=0.1):
    covariance = AutoregressiveCovariance(d, 0.5, variance=1.0)
    data = simulate_multiclass(n, n_indices=3, signal=3.0, covariance=covariance, random_state=seed)
    link = Softmax(3, covariance=data.index_covariance)
    model = LogisticRegression(C=C, tol=1e-5, max_iter=2000)
    clf = AngularCalibratedClassifier(model, link=link).fit(data.X, data.y)
    true = (np.eye(3) - 1 / 3) @ data.cross_covariance(clf.coef_)
    found = clf.angle_.cosine * np.sqrt(np.diag(clf.angle_.index_covariance))[:, None]
    return np.linalg.norm(found - true) / np.linalg.norm(true)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "bar"), [(1500, 500, 0.06), (1000, 1000, 0.10)])
def test_relative_error_of_the_cross_covariance(n, d, bar):
    """Mean over 12 draws of ‖Ĉ − C‖/‖C‖."""
    errors = [_relative_error(n, d, seed) for seed in range(12)]
    assert np.mean(errors) < bar


@pytest.mark.slow
def test_error_falls_like_the_root_of_n():
    """Slope of log error in log n at n = 2d: −½ within 0.2; three sizes, 12 draws at each."""
    sizes = (250, 500, 1000)
    errors = [
        np.sqrt(np.mean([_relative_error(n, n // 2, 50 + seed) ** 2 for seed in range(12)]))
        for n in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.7 < slope < -0.3
