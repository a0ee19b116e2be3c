"""Penalties that a pool's spectrum shapes: the map, its estimate, and the classifier with it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from angcal import AngularLogisticRegressionCV, plan
from angcal.estimators.path_fits import fit_path
from angcal.estimators.training import validated
from angcal.metrics import log_loss
from angcal.penalty_path import exponent_shares, spectrum_of
from angcal.persistence import load, save
from angcal.pools import open_pool

rng = np.random.default_rng(3)
WIDTHS = np.arange(1, 61) ** -0.5  # deviations of the features
BASIS = np.linalg.qr(rng.normal(size=(60, 60)))[0]


def rows(count, seed):
    return (np.random.default_rng(seed).normal(size=(count, 60)) * WIDTHS) @ BASIS.T


def labels(X, power, seed, scale=4.0):
    """Labels whose signal lies as s^power along the eigenvectors."""
    draw = np.random.default_rng(seed)
    along = X @ BASIS / WIDTHS
    w = draw.normal(size=60) * WIDTHS**power
    index = scale * along @ w / np.linalg.norm(w)
    return (draw.random(len(X)) < expit(index)).astype(int)


POOL = rows(1000, 1)
X, X_NEW = rows(80, 2), rows(2000, 4)
Y = labels(X, 3.0, 5)
CS = [1e-2, 0.1, 1.0, 10.0, 100.0, 1e4]


def spectrum(X=X, pool=POOL, centered=True):
    return spectrum_of(open_pool(pool, X.shape[1]), X, centered)


def matrix(shape, d):
    return shape.times(np.eye(d))


def test_gains_follow_the_power_and_keep_the_trace():
    found = spectrum()
    sigma = found.directions * found.values @ found.directions.T
    for exponent in (1.0, 1.5, 2.0):
        M = matrix(found.shape(exponent), 60)
        ratio = found.directions.T @ M @ found.directions / found.values[:, None] ** (exponent - 1)
        assert_allclose(np.diag(ratio), np.diag(ratio)[0], rtol=1e-8)
        assert np.trace(M @ sigma) == pytest.approx(np.trace(sigma))
    root = found.shape(2.0).times(np.eye(60), 0.5)
    assert_allclose(root @ root, matrix(found.shape(2.0), 60), atol=1e-10)
    assert_allclose(matrix(found.shape(1.0), 60), np.eye(60), atol=1e-10)


def test_eigenvalues_are_those_of_all_rows_shrunk_as_by_ledoit_and_wolf():
    from sklearn.covariance import ledoit_wolf

    both = np.vstack([X, POOL])
    held = np.minimum(1.0, X.std(axis=0) / both.std(axis=0))
    covariance, _ = ledoit_wolf(both * held)
    assert_allclose(spectrum().values, np.linalg.eigvalsh(covariance), rtol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [20, 80])  # fewer rows than columns, and more
def test_rows_of_the_design_have_the_inner_products_of_the_shape(n, intercept, kind):
    part, weights = X[:n], np.random.default_rng(0).uniform(0.5, 2.0, n)
    shape = spectrum().shape(2.0)
    Z = shape.rotate(kind(part), weights, intercept)
    centered = part - (weights @ part / weights.sum() if intercept else 0.0)
    assert_allclose(Z.X @ Z.X.T, centered @ matrix(shape, 60) @ centered.T, atol=1e-8)
    v = np.random.default_rng(1).normal(size=(Z.X.shape[1], 2))
    assert_allclose(centered @ Z.expand(v), Z.X @ v, atol=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_leading_directions_and_a_remainder_stand_for_all(monkeypatch, kind):
    # Ten wide directions over even noise.
    draw = np.random.default_rng(9)
    steep = [
        5.0 * draw.normal(size=(m, 10)) @ BASIS[:10] + draw.normal(size=(m, 60)) for m in (80, 2000)
    ]
    exact = matrix(spectrum(*steep).shape(2.0), 60)
    monkeypatch.setattr(plan, "LARGEST_SPECTRUM_SIDE", 10)
    monkeypatch.setattr(plan, "LEADING_DIRECTIONS", 20)
    found = spectrum(steep[0], kind(steep[1]))
    assert found.directions.shape == (60, 20)
    assert_allclose(matrix(found.shape(2.0), 60), exact, atol=0.02 * np.abs(exact).max())


def test_a_path_under_a_shape_is_ridge_in_its_columns_and_so_is_leaving_one_out():
    estimator = AngularLogisticRegressionCV(CS, tol=1e-7, observables="exact")
    training = validated(estimator, X, Y, None, raw_rows=False, many_classes=True)
    shape = spectrum().shape(1.5)
    path = fit_path(estimator, training, 0.0, shape)
    even = shape.times(X.T, 0.5).T
    ridge = LogisticRegression(C=CS[2], tol=1e-10, max_iter=10_000).fit(even, Y)
    coefs, intercepts = path.restored
    assert_allclose(coefs[2], shape.times(ridge.coef_[0], 0.5), atol=1e-4)
    assert_allclose(intercepts[2], ridge.intercept_[0], atol=1e-4)
    found, spread = path.observed[2].loo_scores, path.observed[2].scores.std()
    for i in (0, 17, 50):
        kept = np.arange(len(Y)) != i
        left = LogisticRegression(C=CS[2], tol=1e-10, max_iter=10_000).fit(even[kept], Y[kept])
        assert abs(left.decision_function(even[[i]])[0] - found[i]) < 0.02 * spread


def test_shares_hold_on_to_ridge_unless_losses_speak():
    even = exponent_shares([np.full(3, 0.5)] * 3, 100, np.array([1.0, 1.5, 2.0]))
    assert_allclose(even / even[0], np.exp(-0.5 * (np.array([0.0, 0.5, 1.0]) / 0.7) ** 2))
    far = exponent_shares([np.full(3, 0.5), np.full(3, 0.3)], 1000, np.array([1.0, 2.0]))
    assert_allclose(far, [0.0, 1.0])


@pytest.mark.parametrize(("power", "most"), [(3.0, 0.97), (0.0, 1.01)])
def test_a_pool_pays_where_signal_lies_along_wide_directions_and_costs_little_elsewhere(
    power, most
):
    losses = []
    for seed in (5, 6, 7):
        y, y_new = (labels(part, power, seed) for part in (X, X_NEW))
        models = [AngularLogisticRegressionCV().fit(X, y, pool=pool) for pool in (None, POOL)]
        losses.append([log_loss(y_new, m.predict_proba(X_NEW)[:, 1]) for m in models])
    alone, helped = np.mean(losses, axis=0)
    assert helped < most * alone


def test_what_the_classifier_says_of_the_exponents():
    alone = AngularLogisticRegressionCV().fit(X, Y)
    assert (alone.exponent_, alone.spectrum_reason_) == (1.0, "there is no pool")
    helped = AngularLogisticRegressionCV().fit(X, Y, pool=POOL)
    assert helped.spectrum_reason_ == ""
    assert_allclose(helped.exponents_, [1.0, 2.0])
    assert_allclose(helped.average_.shares, helped.exponent_shares_)
    # Signal along narrow directions moves the shares back to ridge.
    narrow = AngularLogisticRegressionCV().fit(X, labels(X, 0.0, 5), pool=POOL)
    assert narrow.exponent_shares_[0] > helped.exponent_shares_[0]


def test_one_model_or_none():
    one = AngularLogisticRegressionCV(CS, spectrum="one").fit(X, Y, pool=POOL)
    assert one.average_ is None
    assert one.exponent_ == one.exponents_[np.argmax(one.exponent_shares_)]
    assert_allclose(
        one.predict_proba(X)[:, 1], one.curve_.predict(X @ one.coef_[0] + one.intercept_)
    )
    off = AngularLogisticRegressionCV(CS, spectrum=None).fit(X, Y, pool=POOL)
    assert_allclose(off.coef_, AngularLogisticRegressionCV(CS).fit(X, Y).coef_)
    with pytest.raises(ValueError, match="spectrum='all' must be"):
        AngularLogisticRegressionCV(spectrum="all").fit(X, Y)


def test_a_pool_that_is_gone_over_once_or_many_columns_in_blocks_leave_ridge(monkeypatch):
    once = AngularLogisticRegressionCV(CS, angle="loo").fit(X, Y, pool=iter([POOL]))
    assert "once only" in once.spectrum_reason_
    monkeypatch.setattr(plan, "LARGEST_SPECTRUM_SIDE", 59)
    blocks = AngularLogisticRegressionCV(CS).fit([X[:40], X[40:]], Y, pool=POOL)
    assert "blocks of more than 59 columns" in blocks.spectrum_reason_
    assert once.exponent_ == blocks.exponent_ == 1.0


def test_columns_that_training_rows_lack_move_nothing():
    # Scaled by training rows, a column that is rare there is huge elsewhere.
    def more(part, extra):
        return np.column_stack([part, extra, np.zeros(len(part))])

    wild = 100.0 * np.random.default_rng(8).normal(size=1000)
    plain = AngularLogisticRegressionCV(CS, spectrum="one").fit(X, Y, pool=POOL)
    held = AngularLogisticRegressionCV(CS, spectrum="one")
    held.fit(more(X, np.zeros(len(X))), Y, pool=more(POOL, wild))
    assert_allclose(held.coef_[0, 60:], 0.0, atol=1e-9)
    assert_allclose(held.exponent_shares_, plain.exponent_shares_, atol=0.05)


@pytest.mark.parametrize(
    ("kind", "average", "classes"),
    [
        (np.asarray, None, 2),
        (sparse.csr_array, None, 3),
        (sparse.csr_array, "penalties", 2),
        (np.asarray, "penalties", 3),
        (np.asarray, "folds", 2),
    ],
)
def test_averages_classes_and_files(kind, average, classes, tmp_path):
    y = Y if classes == 2 else np.digitize(X @ BASIS[:, 0], [-0.5, 0.5])
    model = AngularLogisticRegressionCV(3, average=average).fit(kind(X), y, pool=kind(POOL))
    p = model.predict_proba(kind(X_NEW[:50]))
    assert_allclose(p.sum(axis=1), 1.0)
    assert model.coef_.shape == (1 if classes == 2 else 3, 60)
    ends = model.predict_interval(kind(X_NEW[:5]))
    inside = p[:5, 1] if classes == 2 else p[:5]
    assert np.all((ends[..., 0] <= inside) & (inside <= ends[..., 1]))
    path = tmp_path / "model.angcal"
    save(model, path)
    again = load(path)
    assert_allclose(again.predict_proba(kind(X_NEW[:50])), p)
    assert_allclose(again.exponent_shares_, model.exponent_shares_)


@pytest.mark.parametrize("average", [None, "penalties"])
def test_left_out_probabilities_are_those_of_the_average(average):
    """Of the model that predicts, and not those of the chosen fit."""
    model = AngularLogisticRegressionCV(CS, average=average).fit(X, Y, pool=POOL)
    left_out = model.loo_proba_
    parts = [part.probabilities() for part in model._left_out.parts]
    assert len(parts) > 1
    assert_allclose(left_out, np.tensordot(model.average_.shares, parts, 1), atol=1e-12)
    assert_allclose(left_out.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(left_out - model._left_out.chosen.probabilities()).max() > 1e-3
