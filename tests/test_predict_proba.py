"""predict_proba of the calibrators: one pass over X, the same answers and the same refusals."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from angcal import AngularCalibratedClassifier, Logit, ScoreCalibratedClassifier
from angcal.curve import angular_probability
from angcal.simulation import simulate, simulate_multiclass

DATA = simulate(200, 20, link=Logit(3.0), random_state=0)
NEW = DATA.sample(50, random_state=1)[0]
# scikit-learn takes the kind of penalty by name before 1.8, and warns about that since.
BY_NAME = LogisticRegression().get_params().get("penalty", "deprecated") != "deprecated"
L1 = {"penalty": "l1"} if BY_NAME else {"l1_ratio": 1.0}
MODELS = {
    "angular": AngularCalibratedClassifier(),
    "platt": ScoreCalibratedClassifier(),
    "pipeline": AngularCalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
    "zero weights": AngularCalibratedClassifier(
        LogisticRegression(**L1, C=1.0, solver="saga", tol=1e-8, max_iter=10_000)
    ),
}
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def fitted():
    return {name: clone(model).fit(DATA.X, DATA.y) for name, model in MODELS.items()}


def test_the_table_answers_for_the_formula(fitted):
    model = fitted["angular"]
    s = model.scale_.standardize(NEW @ model.coef_[0] + model.intercept_[0])
    exact = sum(
        part.weight * angular_probability(part.link, part.cosine, s) for part in model.curve_.parts
    )
    p = model.predict_proba(NEW)
    assert model.curve_.table_error <= 1e-9
    assert np.abs(p[:, 1] - exact).max() <= model.curve_.table_error
    assert_array_equal(p[:, 0], 1.0 - p[:, 1])


@every_model
def test_log_odds_have_the_sign_of_the_prediction(fitted, name):
    model = fitted[name]
    p, odds = model.predict_proba(NEW), model.decision_function(NEW)
    assert_allclose(np.exp(model.predict_log_proba(NEW)), p, rtol=1e-14)
    assert odds.shape == (len(NEW),)
    assert_allclose(1.0 / (1.0 + np.exp(-odds)), p[:, 1], rtol=1e-12)
    assert_array_equal(model.predict(NEW), model.classes_[(odds > 0).astype(int)])


def test_log_odds_of_a_calibrator_that_is_sure():
    model = ScoreCalibratedClassifier(method="isotonic").fit(DATA.X, DATA.y)
    odds = model.decision_function(DATA.X)
    sure = model.predict_proba(DATA.X)[:, 1] == 1.0
    assert sure.any()
    assert np.all(odds[sure] >= 700)
    assert np.all(odds[~sure] < 100)
    assert np.isfinite(odds).all()  # or no metric of scikit-learn would take them


def test_decision_of_several_classes_is_their_log_probability():
    data = simulate_multiclass(300, 10, n_indices=4, signal=3, random_state=0)
    model = AngularCalibratedClassifier().fit(data.X, data.y)
    found = model.decision_function(data.X)
    assert_array_equal(found, np.log(model.predict_proba(data.X)))
    assert_array_equal(model.predict(data.X), model.classes_[found.argmax(axis=1)])


@every_model
def test_predict_takes_the_larger_probability(fitted, name):
    model = fitted[name]
    larger = np.argmax(model.predict_proba(NEW), axis=1)
    assert_array_equal(model.predict(NEW), model.classes_[larger])


def test_the_penalty_leaves_weights_at_zero(fitted):
    """Or the tests below do not look at the rows' own check."""
    weights = fitted["zero weights"].coef_[0]
    assert 0 < np.count_nonzero(weights) < len(weights)


@every_model
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_one_bad_entry_is_found_in_any_column(fitted, name, wrong):
    model = fitted[name]
    for column in range(NEW.shape[1]):
        rows = NEW.copy()
        rows[7, column] = wrong
        with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
            model.predict_proba(rows)
        with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
            model.predict_proba(rows.astype(np.float32))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_one_bad_entry_is_found_in_sparse_rows(fitted, wrong):
    rows = sparse.csr_array(np.where(NEW > 0, NEW, 0.0))
    rows.data[3] = wrong
    for name in ("angular", "zero weights"):
        with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
            fitted[name].predict_proba(rows)


def test_infinities_of_opposite_sign_do_not_cancel(fitted):
    rows = NEW.copy()
    rows[0, :2] = np.inf, -np.inf
    with pytest.raises(ValueError, match="X contains infinity"):
        fitted["angular"].predict_proba(rows)


@pytest.mark.parametrize("rows", [NEW[:, :-1], NEW[0]], ids=["columns", "dimensions"])
@every_model
def test_other_misfits_are_refused(fitted, name, rows):
    with pytest.raises(ValueError, match=r"features|1D array"):
        fitted[name].predict_proba(rows)


@every_model
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_layouts_and_precisions_agree(fitted, name, dtype, order, monkeypatch):
    monkeypatch.setattr("angcal.plan.CACHE_ENTRIES", 28 * NEW.shape[1])  # several blocks, one short
    rows = np.asarray(NEW.astype(dtype), order=order)
    p = fitted[name].predict_proba(rows)
    assert p.dtype == np.float64
    # What is left is the rounding of the rows themselves.
    expected = fitted[name].predict_proba(np.ascontiguousarray(rows, dtype=np.float64))
    tolerance = 1e-6 if name == "pipeline" and dtype == np.float32 else 1e-13
    assert_allclose(p, expected, atol=tolerance)


def test_a_transformer_runs_once():
    calls = []

    def note(rows):
        calls.append(len(rows))
        return rows

    pipeline = make_pipeline(FunctionTransformer(note), MODELS["zero weights"].estimator)
    model = AngularCalibratedClassifier(pipeline).fit(DATA.X, DATA.y)
    calls.clear()
    model.predict_proba(NEW)
    assert calls == [len(NEW)]


def test_rows_are_neither_written_to_nor_copied(fitted):
    model = fitted["angular"]
    for dtype in (np.float64, np.float32):
        rows = np.tile(NEW, (400, 1)).astype(dtype)
        rows.setflags(write=False)
        model.predict_proba(rows)
        tracemalloc.start()
        model.predict_proba(rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        scores = 8 * len(rows)
        # Scores, probabilities, two columns of them, and blocks that do not grow with the rows.
        assert peak < 5 * scores + 2**20 < rows.nbytes + 2**20


def test_an_unpickled_model_predicts_the_same(fitted):
    for model in fitted.values():
        assert_array_equal(
            pickle.loads(pickle.dumps(model)).predict_proba(NEW), model.predict_proba(NEW)
        )


def test_far_out_scores_are_as_sure_as_n_labels_can_be():
    # 200 rows of classes far apart, and new rows a thousand times as far out.
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 20)) + 2.0 * y[:, None]
    far = 1000.0 * np.concatenate([X, -X])
    clf = AngularCalibratedClassifier(LogisticRegression(C=0.01)).fit(X, y)
    P = clf.predict_proba(far)
    floor = 202.0**-1.5
    assert P.min() == pytest.approx(floor)
    assert P.max() == pytest.approx(1.0 - floor)
    # Where labels have been, nothing changes.
    inside = clf.curve_.predict(X @ clf.coef_[0] + clf.intercept_[0])
    free = replace(clf.curve_, floor=0.0).predict(X @ clf.coef_[0] + clf.intercept_[0])
    within = (free > floor) & (free < 1.0 - floor)
    assert within.mean() > 0.5
    np.testing.assert_array_equal(inside[within], free[within])
