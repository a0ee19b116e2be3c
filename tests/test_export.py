"""ONNX: onnxruntime gives predict_proba's numbers, and what cannot be exported is named."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    MEstimator,
    PlattScaling,
    Probit,
    ScoreCalibratedClassifier,
)
from angcal.baselines import CALIBRATORS, SEVERAL_CALIBRATORS
from angcal.links.multiclass import CallableMulticlassLink, OneVsRest, Softmax
from angcal.multiclass import ClassMap, angular_predictor
from angcal.multiclass.class_map import constant
from angcal.simulation import simulate, simulate_multiclass

pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from angcal.export import ExportError, register_converters, to_onnx, verified_onnx  # noqa: E402
from angcal.export.curves import CURVES  # noqa: E402

DATA = simulate(150, 60, link=Logit(3.0, 1.0), random_state=0)
FRESH = DATA.sample(500, random_state=1)[0]
TOLERANCE = 1e-6
# Half a unit in the last place of a float32 below 1.
ROUNDING = 3.1e-8


@cache
def several(K):
    """Rows and labels of K classes, and fresh rows."""
    data = simulate_multiclass(350 + 10 * K, 30, n_indices=K, random_state=0)
    return data.X[200:], data.y[200:], data.X[:200]


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


@pytest.mark.parametrize("average", ["penalties", "folds"])
def test_averages_agree(average):
    model = AngularLogisticRegressionCV(Cs=5, average=average).fit(DATA.X, DATA.y)
    chosen = AngularLogisticRegressionCV(Cs=5).fit(DATA.X, DATA.y)
    assert np.abs(model.predict_proba(FRESH) - chosen.predict_proba(FRESH)).max() > 0.01
    assert_parity(model, FRESH)


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


@pytest.mark.parametrize("other", [LogisticRegression(), MEstimator()])
def test_another_classifier_is_refused_by_name(other):
    with pytest.raises(ExportError, match=type(other).__name__):
        to_onnx(make_pipeline(StandardScaler(), other).fit(DATA.X, DATA.y), 60)


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


# -- three and more classes -------------------------------------------------------------------


def assert_exact(model, X, tolerance=1e-12):
    """Doubles give predict_proba to its last digits, float32 to half a unit of its own."""
    session = to_onnx(model, X.shape[1], dtype="float64")
    label, probabilities = run(session, X)
    expected = model.predict_proba(X)
    assert probabilities.shape == expected.shape
    assert np.abs(probabilities - expected).max() < tolerance
    # Otherwise agreement would prove nothing.
    assert np.ptp(expected, axis=0).max() > 1.0 / expected.shape[1]
    np.testing.assert_array_equal(label, model.predict(X))
    rows = X.astype(np.float32)
    _, single = run(to_onnx(model, rows), rows)
    assert single.dtype == np.float32
    assert np.abs(single - model.predict_proba(rows.astype(np.float64))).max() < ROUNDING


@cache
def classifier_of(K):
    X, y, _ = several(K)
    return AngularCalibratedClassifier(LogisticRegression(C=0.3)).fit(X, y)


@pytest.mark.parametrize("K", [3, 20, 100])
def test_classes_agree(K):
    model = classifier_of(K)
    assert isinstance(model.curve_, ClassMap)
    assert model.curve_.floor > 0
    assert len(model.curve_.shares) > 1
    assert_exact(model, several(K)[2])


@pytest.mark.parametrize("average", [None, "penalties", "folds"])
def test_tuned_classes_agree(average):
    X, y, fresh = several(3)
    model = AngularLogisticRegressionCV(Cs=[0.003, 0.1, 3.0], average=average).fit(X, y)
    assert_exact(model, fresh)
    plain = AngularLogisticRegressionCV(Cs=[0.003, 0.1, 3.0]).fit(X, y).predict_proba(fresh)
    assert (np.abs(model.predict_proba(fresh) - plain).max() > 1e-3) == (average is not None)


@pytest.mark.parametrize("kind", [LogisticRegression(C=0.3), RidgeClassifier(5.0)], ids=repr)
def test_one_vs_rest_heads_agree(kind):
    X, y, fresh = several(3)
    assert_exact(AngularCalibratedClassifier(OneVsRestClassifier(kind)).fit(X, y), fresh)


@pytest.mark.parametrize("K", [3, 20])
@pytest.mark.parametrize("shift", [0.0, -800.0], ids=["near", "far below zero"])
def test_one_vs_rest_shares_agree(K, shift):
    """The base model's own probabilities, with a floor; also where every sigmoid underflows."""
    model = clone_with(K, ClassMap(OneVsRest(K), *one_part(K, 3.0, shift), floor=1e-3))
    assert_exact(model, several(K)[2])
    assert model.predict_proba(several(K)[2]).min() >= 1e-3


def one_part(K, slope, offset):
    return np.ones(1), np.full((1, K), slope), np.full((1, K), offset)


def clone_with(K, curve):
    """A fitted classifier of K classes with another map."""
    model = copy(classifier_of(K))
    model.curve_ = curve
    return model


def test_a_softmax_with_an_offset_agrees():
    offset = np.array([2.0, 0.0, -2.0])
    model = clone_with(3, ClassMap(Softmax(3, offset=offset), *one_part(3, 1.0, 0.5)))
    assert_exact(model, several(3)[2])


def test_class_scores_far_out_agree():
    assert_exact(classifier_of(20), several(20)[2] * 1000.0)


def test_the_prevalence_of_classes_agrees():
    shares = np.array([0.2, 0.3, 0.5])
    _, found = run(to_onnx(clone_with(3, constant(shares)), 30, dtype="float64"), several(3)[2])
    np.testing.assert_allclose(found, np.tile(shares, (200, 1)), atol=1e-15)


def test_a_known_link_agrees():
    X, y, fresh = several(3)
    model = AngularCalibratedClassifier(link=Softmax(3, covariance=4.0 * np.eye(3))).fit(X, y)
    assert len(model.curve_.noise.spreads) == 2
    assert_exact(model, fresh)


@pytest.mark.parametrize("K", [3, 20, 100])
@pytest.mark.parametrize("floor", [0.0, 1e-4])
def test_a_predictor_of_known_angles_agrees(K, floor):
    """Components with and without noise, a center, an offset and a floor."""
    rng = np.random.default_rng(K)
    link = Softmax(K, offset=rng.normal(size=K))
    rest = np.diag(1.0 + rng.random(K))
    known = angular_predictor(
        link, 0.5 * np.eye(K), np.eye(K), rest, offset=rng.normal(size=K), center=rng.normal(size=K)
    )
    components = ((0.3, 1.0, 1.0), (0.5, 2.0, 0.5), (0.2, 3.0, 0.0))
    assert_exact(clone_with(K, replace(known, components=components, floor=floor)), several(K)[2])


def test_a_graph_does_not_grow_with_the_classes():
    few, many = (to_onnx(classifier_of(K), 30) for K in (3, 100))
    assert len(few.graph.node) == len(many.graph.node) < 25
    weights = 8 * classifier_of(100).coef_.size
    assert len(many.SerializeToString()) < weights + 20_000


@pytest.mark.parametrize("names", [["c", "a", "b"], [5, 3, 9], [2.0, 1.0, 4.0]], ids=str)
def test_names_of_classes_are_kept(names):
    X, y, fresh = several(3)
    model = AngularCalibratedClassifier().fit(X, np.array(names)[y])
    found, _ = run(to_onnx(model, 30, dtype="float64"), fresh)
    assert found.tolist() == model.predict(fresh).tolist()


@pytest.mark.parametrize("inside", [True, False])
def test_a_pipeline_of_classes_agrees(inside):
    X, y = load_digits(return_X_y=True)
    linear = LogisticRegression(C=0.01)
    if inside:
        base = make_pipeline(StandardScaler(), linear)
        model = AngularCalibratedClassifier(base)
    else:
        model = make_pipeline(StandardScaler(), AngularCalibratedClassifier(linear))
    assert_exact(model.fit(X[:300], y[:300]), X[300:600].astype(np.float64))


@pytest.mark.parametrize("opset", [13, 17])
def test_older_opsets_agree(opset):
    rows = several(3)[2].astype(np.float32)
    _, found = run(to_onnx(classifier_of(3), 30, target_opset=opset), rows)
    assert np.abs(found - classifier_of(3).predict_proba(rows)).max() < TOLERANCE


@pytest.mark.parametrize(
    "curve",
    [
        ClassMap(CallableMulticlassLink(lambda u: u, 3, 3), *one_part(3, 1.0, 0.0)),
        angular_predictor(
            CallableMulticlassLink(lambda u: u, 3, 3), np.zeros((3, 3)), np.eye(3), np.eye(3)
        ),
    ],
    ids=["map", "predictor"],
)
def test_another_link_of_classes_is_refused_by_name(curve):
    with pytest.raises(ExportError, match="CallableMulticlassLink"):
        to_onnx(clone_with(3, curve), 30)


# -- classical calibrators --------------------------------------------------------------------


@pytest.mark.parametrize("scores", ["loo", "holdout"])
@pytest.mark.parametrize("method", SEVERAL_CALIBRATORS)
def test_calibrators_agree(method, scores):
    """All but error functions are exact in double precision."""
    model = ScoreCalibratedClassifier(method=method, scores=scores, random_state=0)
    assert_exact(model.fit(DATA.X, DATA.y), FRESH, tolerance=1e-11)


@pytest.mark.parametrize("model", [LogisticRegression(), RidgeClassifier()])
@pytest.mark.parametrize("method", ["platt", "isotonic", "structured"])
def test_score_calibration_of_classes_agrees(method, model):
    X, y, fresh = several(3)
    assert_exact(ScoreCalibratedClassifier(model, method=method).fit(X, y), fresh, tolerance=1e-11)


def test_calibrators_far_out_agree():
    """Beyond the scores that isotonic regression and bins have seen, and where exp overflows."""
    for method in CALIBRATORS:
        model = ScoreCalibratedClassifier(method=method).fit(DATA.X, DATA.y)
        assert_exact(model, FRESH * 1e3, tolerance=1e-11)


def test_platt_scaling_with_other_links():
    model = ScoreCalibratedClassifier(method=PlattScaling(Logit(3.0, 1.0))).fit(DATA.X, DATA.y)
    assert_exact(model, FRESH)
    model = ScoreCalibratedClassifier(method=PlattScaling(Probit(2.0, -1.0))).fit(DATA.X, DATA.y)
    assert_parity(model, FRESH)
    model = ScoreCalibratedClassifier(method=PlattScaling("cauchit")).fit(DATA.X, DATA.y)
    with pytest.raises(ExportError, match="cauchit link has no ONNX form"):
        to_onnx(model, 60)


@pytest.mark.parametrize("method", ["isotonic", "histogram"])
def test_a_flat_calibrator_agrees(method):
    model = ScoreCalibratedClassifier(method=method).fit(DATA.X, DATA.y)
    kind = CALIBRATORS[method]
    flat = kind() if method == "isotonic" else kind(n_bins=1)
    model.curve_ = flat.fit([1.0, 1.0, 2.0, 2.0], [0, 1, 1, 0])
    _, found = run(to_onnx(model, 60, dtype="float64"), FRESH)
    np.testing.assert_array_equal(found, model.predict_proba(FRESH))
    assert np.all(found == 0.5)


@pytest.mark.parametrize("K", [3, 20])
@pytest.mark.parametrize("method", SEVERAL_CALIBRATORS)
def test_calibrators_of_classes_agree(method, K):
    X, y, fresh = several(K)
    scores = X @ classifier_of(K).coef_.T + classifier_of(K).intercept_
    options = {"ridge": 0.1} if method == "matrix" else {}
    curve = SEVERAL_CALIBRATORS[method](**options).fit(scores, y)
    assert_exact(clone_with(K, curve), fresh)


@pytest.mark.parametrize("kind", [*CALIBRATORS.values(), *SEVERAL_CALIBRATORS.values()])
def test_every_calibrator_has_an_onnx_form(kind):
    assert type(kind()) in CURVES


def test_an_own_calibrator_is_refused_by_name():
    class Doubled(PlattScaling):
        """It may predict otherwise than its parent."""

    model = ScoreCalibratedClassifier(method=Doubled()).fit(DATA.X, DATA.y)
    with pytest.raises(ExportError, match=r"A Doubled has no ONNX form.*CURVES"):
        to_onnx(model, 60)


# -- checksum ----------------------------------------------------------------------------------


@cache
def sealed_bytes():
    return to_onnx(AngularCalibratedClassifier().fit(DATA.X, DATA.y), DATA.X).SerializeToString()


def test_an_onnx_file_as_it_was_written_is_verified(tmp_path):
    import onnx

    (tmp_path / "m.onnx").write_bytes(sealed_bytes())
    assert verified_onnx(tmp_path / "m.onnx") == verified_onnx(sealed_bytes()) == sealed_bytes()
    again = onnx.load_from_string(sealed_bytes()).SerializeToString()
    assert verified_onnx(again) == sealed_bytes()
    onnx.checker.check_model(onnx.load_from_string(sealed_bytes()))


def test_a_flipped_bit_anywhere_in_an_onnx_file_is_refused():
    """ANGCAL_FLIPS=10000 asks for more; every byte is covered, so that none is let through."""
    whole, rng = sealed_bytes(), np.random.default_rng(0)
    for _ in range(int(os.environ.get("ANGCAL_FLIPS", "500"))):
        place = int(rng.integers(len(whole)))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        for content in (damaged, whole[:place]):
            with pytest.raises(ExportError, match="damaged"):
                verified_onnx(bytes(content))


def test_an_onnx_model_of_others_has_no_checksum():
    import onnx

    model = onnx.load_from_string(sealed_bytes())
    del model.metadata_props[:]
    with pytest.raises(ExportError, match="no checksum"):
        verified_onnx(model.SerializeToString())


# -- intervals ---------------------------------------------------------------------------------


def _with_ends(model, X, dtype="float64", **options):
    """(probabilities, low, high) in onnxruntime."""
    found = to_onnx(model, X, dtype=dtype, **options)
    session = onnxruntime.InferenceSession(found.SerializeToString())
    assert [output.name for output in session.get_outputs()] == [
        *("label", "probabilities", "low", "high")
    ]
    return session.run(None, {"X": X.astype(dtype)})[1:]


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize(
    "model",
    [
        AngularCalibratedClassifier(),
        AngularCalibratedClassifier(link=Logit(3.0, 1.0)),
        AngularLogisticRegressionCV(Cs=5),
        make_pipeline(StandardScaler(), AngularCalibratedClassifier()),
    ],
    ids=["labels", "link", "path", "pipeline"],
)
@pytest.mark.parametrize("kind", ["curve", "row"])
def test_intervals_are_a_table(model, confidence, kind):
    model = model.fit(DATA.X, DATA.y)
    last = model[-1] if hasattr(model, "steps") else model
    rows = model[:-1].transform(FRESH) if hasattr(model, "steps") else FRESH
    for dtype, tolerance in (("float64", TOLERANCE), ("float32", 2e-6)):
        _, low, high = _with_ends(model, FRESH, dtype, interval=confidence, interval_kind=kind)
        expected = last.predict_interval(rows, kind, confidence)
        np.testing.assert_allclose(np.hstack([low, high]), expected, atol=tolerance)


def test_intervals_follow_the_prevalence_and_go_on_beyond_the_table():
    model = AngularCalibratedClassifier().fit(DATA.X, DATA.y)
    _, low, high = _with_ends(model, 30.0 * FRESH, interval=0.9)
    expected = model.predict_interval(30.0 * FRESH)
    assert np.abs(model.decision_function(30.0 * FRESH)).max() > 8.0 * model.scale_.norm
    np.testing.assert_allclose(np.hstack([low, high]), expected, atol=TOLERANCE)
    rare = model.with_prevalence(0.02)
    p, low, high = _with_ends(rare, FRESH, interval=0.9)
    np.testing.assert_allclose(np.hstack([low, high]), rare.predict_interval(FRESH), atol=1e-6)
    assert np.all((low[:, 0] <= p[:, 1]) & (p[:, 1] <= high[:, 0]))
    for each in (model, rare):
        _, low, high = _with_ends(each, FRESH, interval=0.9, interval_kind="row")
        expected = each.predict_interval(FRESH, "row")
        np.testing.assert_allclose(np.hstack([low, high]), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: AngularCalibratedClassifier().fit(*several(3)[:2]), "3 classes"),
        (
            lambda: AngularLogisticRegressionCV(Cs=5, average="penalties").fit(DATA.X, DATA.y),
            "mixes the laws of several models, each with a score of its own",
        ),
        (lambda: ScoreCalibratedClassifier().fit(DATA.X, DATA.y), "without an angle"),
    ],
)
def test_intervals_that_are_no_table_are_refused(make, why):
    with pytest.raises(ExportError, match=why):
        to_onnx(make(), 30, interval=0.9)


def test_rows_of_other_links_and_kinds_that_do_not_exist_are_refused():
    model = AngularCalibratedClassifier(link="probit").fit(DATA.X, DATA.y)
    with pytest.raises(ExportError, match="written for the logistic link, not for probit"):
        to_onnx(model, 30, interval=0.9, interval_kind="row")
    with pytest.raises(ValueError, match="kind='both' must be 'curve'"):
        to_onnx(model, 30, interval=0.9, interval_kind="both")


def test_a_level_that_is_none_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        to_onnx(AngularCalibratedClassifier().fit(DATA.X, DATA.y), FRESH, interval=90)
