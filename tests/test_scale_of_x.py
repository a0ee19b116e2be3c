"""X·c for any c: the same probabilities from a path, and never NaN or an internal error."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.penalty_path import make_design
from angcal.penalty_path.design import unit_of

pytestmark = pytest.mark.filterwarnings("ignore")
SCALES = [1e-120, 1e-20, 1e-10, 1e10, 1e20, 1e120]


def rows_and_labels(n_classes: int, n: int = 120, d: int = 25) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n, d)) + 0.3
    scores = X @ rng.normal(size=(d, n_classes)) + rng.gumbel(size=(n, n_classes))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("average", [None, "penalties", "folds"])
@pytest.mark.parametrize("scale", SCALES)
def test_a_path_follows_the_unit_of_X(scale, average, n_classes):
    X, y = rows_and_labels(n_classes)
    plain = AngularLogisticRegressionCV(6, average=average).fit(X, y)
    scaled = AngularLogisticRegressionCV(6, average=average).fit(scale * X, y)
    # Weights are good to a few 1e-6 of themselves, in whatever unit.
    assert_allclose(scaled.predict_proba(scale * X), plain.predict_proba(X), atol=1e-5)
    assert_allclose(scaled.C_ * scale**2, plain.C_, rtol=1e-9)
    assert_allclose(scaled.path_.log_loss, plain.path_.log_loss, atol=1e-4)
    assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_a_path_on_sparse_rows_follows_the_unit_of_X(scale, n_classes):
    X, y = rows_and_labels(n_classes)
    X = sparse.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    plain = AngularLogisticRegressionCV(4).fit(X, y)
    scaled = AngularLogisticRegressionCV(4).fit(scale * X, y)
    assert_allclose(scaled.predict_proba(scale * X), plain.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("scale", [2.0**-200, 2.0**-30, 2.0**40])
def test_a_unit_that_is_a_power_of_two_changes_no_digit(scale):
    X, y = rows_and_labels(2)
    labels, weights = y.astype(np.float64), np.ones(len(y))
    one, other = (make_design(rows, labels, weights, True) for rows in (X, scale * X))
    unit = other.unit / scale
    assert other.unit == unit_of(scale * X) != 1.0
    np.testing.assert_array_equal(np.abs(other.rows.X) * unit, np.abs(one.rows.X))
    assert_allclose(other.grid(5) * scale**2, one.grid(5), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_a_unit_whose_square_is_no_number_is_refused(scale, n_classes):
    X, y = rows_and_labels(n_classes)
    with pytest.raises(ValueError, match=r"X has entries of about .*Scale X"):
        AngularLogisticRegressionCV(4).fit(scale * X, y)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e-120, 1e80, 1e120])
def test_blocks_whose_scale_has_no_grid_are_refused(scale):
    """Before, 1e80 ended as "Geometric sequence cannot include zero"."""
    X, y = rows_and_labels(2)
    named = rf"X, .* of about [0-9.]+e\{int(np.log10(scale)):+}, .* Scale"
    with pytest.raises(ValueError, match=named):
        AngularLogisticRegressionCV(4).fit([scale * X[:50], scale * X[50:]], y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e20, 1e200])
def test_given_penalties_that_do_not_suit_X_are_refused(scale, n_classes):
    X, y = rows_and_labels(n_classes)
    with pytest.raises(ValueError, match=r"Cs=.* do not suit the scale of X, .* Scale X"):
        AngularLogisticRegressionCV([0.1, 1.0, 10.0]).fit(scale * X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shape", [(120, 25), (60, 100)])
@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e-8, 1e8, 1e20, 1e200])
def test_a_plain_fit_has_probabilities_or_names_the_scale_of_X(scale, shape, n_classes):
    X, y = rows_and_labels(n_classes, *shape)
    model = AngularCalibratedClassifier(LogisticRegression())
    refused = ""
    try:
        p = model.fit(scale * X, y).predict_proba(scale * X)
    except ValueError as error:
        refused, p = str(error), np.full((1, n_classes), 1.0 / n_classes)
    assert not refused or "The entries of X reach" in refused
    assert np.all((p >= 0.0) & (p <= 1.0))
    assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_very_large_column_leaves_probabilities(n_classes):
    X, y = rows_and_labels(n_classes)
    X[:, 0] *= 1e20
    p = AngularLogisticRegressionCV(4).fit(X, y).predict_proba(X)
    assert np.all(np.isfinite(p))
