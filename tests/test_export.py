"""ONNX: onnxruntime gives predict_proba's numbers, and what cannot be exported is named."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    Probit,
    ScoreCalibratedClassifier,
)
from angcal.simulation import simulate

pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from angcal.export import ExportError, register_converters, to_onnx  # noqa: E402

DATA = simulate(150, 60, link=Logit(3.0, 1.0), random_state=0)
FRESH = DATA.sample(500, random_state=1)[0]
TOLERANCE = 1e-6


def run(model, X):
    """(label, probabilities) of an ONNX model in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = session.run(["label", "probabilities"], {session.get_inputs()[0].name: X})
    return tuple(np.asarray(values) for values in found)


def assert_parity(model, X, tolerance=TOLERANCE):
    """Float32 rows give the probabilities that predict_proba has for the same numbers."""
    rows = np.asarray(X, dtype=np.float32)
    label, probabilities = run(to_onnx(model, rows), rows)
    expected = model.predict_proba(rows.astype(np.float64))
    assert probabilities.dtype == np.float32
    assert probabilities.shape == expected.shape
    assert np.abs(probabilities - expected).max() < tolerance
    assert np.ptp(expected[:, 1]) > 0.1  # otherwise agreement would prove nothing
    clear = np.abs(expected[:, 1] - 0.5) > tolerance
    np.testing.assert_array_equal(label[clear], model.predict(rows.astype(np.float64))[clear])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"link": "probit"},
        {"link": Logit(3.0, 1.0), "angle": 0.5},
        {"link": Probit(2.0, -1.0), "angle": -0.3},
        {"link": Logit(20.0), "angle": 1.0},  # no noise, and as steep as a step
    ],
    ids=str,
)
def test_probabilities_agree(options):
    model = AngularCalibratedClassifier(LogisticRegression(C=5.0), **options)
    assert_parity(model.fit(DATA.X, DATA.y), FRESH)


def test_a_tuned_classifier_agrees():
    assert_parity(AngularLogisticRegressionCV(Cs=5).fit(DATA.X, DATA.y), FRESH)
    averaged = AngularLogisticRegressionCV(Cs=5, average="penalties").fit(DATA.X, DATA.y)
    with pytest.raises(ExportError, match="average=None"):
        to_onnx(averaged, DATA.X)


@pytest.mark.parametrize("tuned", [False, True])
def test_a_pipeline_with_a_scaler_in_front_agrees(tuned):
    X, y = load_breast_cancer(return_X_y=True)
    last = AngularLogisticRegressionCV(Cs=5) if tuned else AngularCalibratedClassifier()
    pipeline = make_pipeline(StandardScaler(), last).fit(X[:100], y[:100])
    assert_parity(pipeline, X)


def test_a_pipeline_inside_agrees():
    X, y = load_digits(return_X_y=True)
    base = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    assert_parity(AngularCalibratedClassifier(base).fit(X[:300], y[:300] % 2), X)


def test_columns_far_from_zero_agree():
    """A mean of 100,000 spreads leaves float32 nothing of the sixth digit, if computed in it."""
    far = np.asarray(DATA.X * 10.0 + 4096.0, dtype=np.float32)
    model = make_pipeline(StandardScaler(), AngularCalibratedClassifier())
    assert_parity(model.fit(far.astype(np.float64), DATA.y), far)


def test_a_frozen_pipeline_and_another_base_model_agree():
    base = make_pipeline(StandardScaler(), RidgeClassifier(alpha=5.0)).fit(DATA.X, DATA.y)
    assert_parity(AngularCalibratedClassifier(FrozenEstimator(base)).fit(DATA.X, DATA.y), FRESH)


def test_a_column_transformer_inside_agrees():
    columns = ColumnTransformer(
        [
            ("scaled", StandardScaler(), list(range(5, 40))),
            ("plain", "passthrough", list(range(40, 60))),
        ]
    )
    base = make_pipeline(columns, LogisticRegression(C=5.0))
    assert_parity(AngularCalibratedClassifier(base).fit(DATA.X, DATA.y), FRESH)


def test_double_precision_agrees_to_what_erf_leaves():
    model = AngularCalibratedClassifier(LogisticRegression(C=5.0)).fit(DATA.X, DATA.y)
    _, probabilities = run(to_onnx(model, DATA.X.shape[1], dtype="float64"), FRESH)
    assert probabilities.dtype == np.float64
    assert np.abs(probabilities - model.predict_proba(FRESH)).max() < 3e-7


def test_scores_far_out_agree():
    model = AngularCalibratedClassifier(LogisticRegression(C=5.0)).fit(DATA.X, DATA.y)
    assert_parity(model, FRESH * 40.0)


def test_probabilities_sum_to_one_and_stay_within_bounds():
    model = AngularCalibratedClassifier(LogisticRegression(C=5.0)).fit(DATA.X, DATA.y)
    rows = (FRESH * 100.0).astype(np.float32)
    _, probabilities = run(to_onnx(model, rows), rows)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    assert probabilities.min() >= 0.0
    assert probabilities.max() <= 1.0


@pytest.mark.parametrize(
    ("labels", "kind"), [(["no", "yes"], "U"), ([-1, 1], "i"), ([False, True], "i")]
)
def test_labels_keep_their_names(labels, kind):
    y = np.asarray(labels)[DATA.y]
    model = AngularCalibratedClassifier(LogisticRegression(C=5.0)).fit(DATA.X, y)
    found, _ = run(to_onnx(model, 60), FRESH.astype(np.float32))
    expected = model.predict(FRESH.astype(np.float32))
    if kind == "U":
        assert found.tolist() == expected.tolist()
    else:
        np.testing.assert_array_equal(found, expected.astype(np.int64))


def test_the_prevalence_is_exported_where_there_is_no_angle():
    model = AngularCalibratedClassifier(LogisticRegression(C=1e-12, tol=1e-12))
    X = np.zeros_like(DATA.X)
    with pytest.warns(AngleWarning):
        model.fit(X, DATA.y)
    _, probabilities = run(to_onnx(model, 60), FRESH.astype(np.float32))
    np.testing.assert_allclose(probabilities, model.predict_proba(FRESH), atol=TOLERANCE)
    assert np.ptp(probabilities[:, 1]) == 0.0


def test_skl2onnx_itself_converts_once_told():
    import skl2onnx

    register_converters()
    model = AngularCalibratedClassifier(LogisticRegression(C=5.0)).fit(DATA.X, DATA.y)
    rows = FRESH.astype(np.float32)
    _, probabilities = run(skl2onnx.to_onnx(model, rows), rows)
    assert np.abs(probabilities - model.predict_proba(rows)).max() < TOLERANCE


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        to_onnx(AngularCalibratedClassifier(), 60)


def test_another_link_is_refused_by_name():
    model = AngularCalibratedClassifier(LogisticRegression(C=5.0), link="cloglog")
    with pytest.raises(ExportError, match=r"cloglog link has no ONNX form; fit with link=None"):
        to_onnx(model.fit(DATA.X, DATA.y), 60)


@pytest.mark.parametrize("other", [LogisticRegression(), ScoreCalibratedClassifier()])
def test_another_classifier_is_refused_by_name(other):
    with pytest.raises(ExportError, match=type(other).__name__):
        to_onnx(make_pipeline(StandardScaler(), other).fit(DATA.X, DATA.y), 60)


def test_several_classes_are_refused():
    model = AngularCalibratedClassifier().fit(DATA.X, np.digitize(DATA.X[:, 0], [-0.05, 0.05]))
    with pytest.raises(ExportError, match="knows 3 classes; ONNX export takes two"):
        to_onnx(model, 60)


def test_labels_that_onnx_cannot_hold_are_refused():
    model = AngularCalibratedClassifier().fit(DATA.X, DATA.y)
    model.classes_ = np.array([0.5, 1.5])
    with pytest.raises(ExportError, match="neither whole numbers nor strings"):
        to_onnx(model, 60)


@pytest.mark.parametrize("X", [None, 0, True, np.zeros(3)])
def test_a_sample_without_columns_is_refused(X):
    model = AngularCalibratedClassifier().fit(DATA.X, DATA.y)
    with pytest.raises(ExportError, match="X must be rows"):
        to_onnx(model, X)


def test_an_unknown_type_is_refused():
    model = AngularCalibratedClassifier().fit(DATA.X, DATA.y)
    with pytest.raises(ExportError, match="dtype='float16'"):
        to_onnx(model, 60, dtype="float16")
