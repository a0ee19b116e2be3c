"""Other shares of the classes: Bayes' rule, EM and its error, everywhere that a model predicts."""

from __future__ import annotations

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
import sklearn
from scipy import sparse, stats
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    ScoreCalibratedClassifier,
    with_prevalence,
    with_prevalence_from,
)
from angcal.estimators.prevalence import LeftOut, estimated_prevalence, likeliest_shares
from angcal.leverages.groups import Groups
from angcal.metrics import log_loss
from angcal.simulation import simulate_multiclass

NORM = 2.0


def offset_for(share):
    """β with E σ(2Z + β) = share."""
    z, w = np.polynomial.hermite_e.hermegauss(60)
    return brentq(lambda b: w @ expit(NORM * z + b) / w.sum() - share, -20.0, 20.0)


def draw(rng, n, d, trained, share=None):
    """Rows of a logistic model of this prevalence, classes drawn to another share if given."""
    if share is None:
        X = rng.normal(size=(n, d))
        return X, (rng.random(n) < expit(NORM * X[:, 0] + offset_for(trained))).astype(int)
    positive = rng.binomial(n, share)
    wanted, rows = {0: n - positive, 1: positive}, {0: [], 1: []}
    while any(sum(map(len, rows[k])) < wanted[k] for k in rows):
        X, y = draw(rng, 4 * n, d, trained)
        for k in rows:
            rows[k].append(X[y == k])
    parts = [np.vstack(rows[k])[: wanted[k]] for k in (0, 1)]
    return np.vstack(parts), np.repeat([0, 1], [wanted[0], wanted[1]])


@cache
def two(trained=0.5, n=400, d=20):
    X, y = draw(np.random.default_rng(0), n, d, trained)
    return AngularCalibratedClassifier(LogisticRegression(C=0.1)).fit(X, y), X, y


@cache
def three():
    data = simulate_multiclass(500, 20, n_indices=3, random_state=0)
    model = AngularCalibratedClassifier(LogisticRegression(C=0.1))
    return model.fit(data.X[:400], np.array(["a", "b", "c"])[data.y[:400]]), data.X[400:]


# -- known shares ------------------------------------------------------------------------------


def test_two_classes_shift_their_log_odds():
    clf, X, y = two()
    rare = clf.with_prevalence(0.02)
    moved = logit(0.02) - logit(y.mean())
    expected = expit(clf.decision_function(X) + moved)
    np.testing.assert_allclose(rare.predict_proba(X)[:, 1], expected, rtol=1e-10)
    np.testing.assert_array_equal(rare.predict(X), (expected > 0.5).astype(int))
    np.testing.assert_allclose(np.exp(rare.predict_log_proba(X)), rare.predict_proba(X))
    np.testing.assert_allclose(rare.decision_function(X), clf.decision_function(X) + moved)
    assert rare.prevalence_.source == "given"
    assert rare.prevalence_.standard_error is None
    np.testing.assert_allclose(rare.prevalence_.trained, [1 - y.mean(), y.mean()])


def test_the_original_and_its_own_shares_stay():
    clf, X, y = two()
    before = clf.predict_proba(X)
    np.testing.assert_allclose(clf.with_prevalence(y.mean()).predict_proba(X), before, rtol=1e-12)
    rare = clf.with_prevalence(0.02)
    np.testing.assert_array_equal(clf.predict_proba(X), before)
    assert not hasattr(clf, "prevalence_")
    # Shares replace each other: what was trained does not move.
    there_and_back = rare.with_prevalence(0.7)
    np.testing.assert_array_equal(
        there_and_back.predict_proba(X), clf.with_prevalence(0.7).predict_proba(X)
    )
    first, second = clf.with_prevalence_from(X), rare.with_prevalence_from(X)
    np.testing.assert_array_equal(first.prevalence_.shares, second.prevalence_.shares)
    assert not hasattr(clone(rare), "prevalence_")
    assert not hasattr(clone(rare).fit(X, y), "prevalence_")
    assert not hasattr(pickle.loads(pickle.dumps(rare)).fit(X, y), "prevalence_")


def test_three_classes_by_vector_and_by_name():
    clf, X = three()
    shares = np.array([0.1, 0.3, 0.6])
    tilted = clf.predict_proba(X) * shares / (clf.class_counts_ / clf.class_counts_.sum())
    expected = tilted / tilted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.with_prevalence(shares).predict_proba(X), expected, rtol=1e-12)
    named = clf.with_prevalence({"c": 0.6, "a": 0.1, "b": 0.3})
    np.testing.assert_allclose(named.predict_proba(X), expected, rtol=1e-12)
    np.testing.assert_array_equal(named.predict(X), np.array(["a", "b", "c"])[expected.argmax(1)])


def test_weights_count_as_rows_do():
    _, X, y = two()
    weights = np.where(y == 1, 3.0, 1.0)
    clf = AngularCalibratedClassifier(LogisticRegression(C=0.1)).fit(X, y, weights)
    share = 3 * y.mean() / (3 * y.mean() + 1 - y.mean())
    np.testing.assert_allclose(clf.with_prevalence(0.1).prevalence_.trained[1], share)
    np.testing.assert_allclose(clf.class_counts_.sum(), weights.sum() ** 2 / np.sum(weights**2))
    # A class weight moves the boundary, not the probabilities, whose shares are the labels' own.
    balanced = LogisticRegression(C=0.1, class_weight={0: 1, 1: 5})
    tilted = AngularCalibratedClassifier(balanced).fit(X, y)
    np.testing.assert_allclose(tilted.class_counts_, np.bincount(y))


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        (0.0, "strictly between 0 and 1"),
        (1.0, "strictly between 0 and 1"),
        (-0.2, "strictly between 0 and 1"),
        (float("nan"), "strictly between 0 and 1"),
        (10, "0.1 for 10 %"),
        ([90, 10], "in place of percent or counts"),
        ([0.5, 0.4], "sums to 0.9"),
        ([0.2, 0.3, 0.5], "shape (3,)"),
        ({0: 0.5, 2: 0.5}, "unknown: [2], missing: [1]"),
        ({1: 0.5}, "missing: [0]"),
        ("often", "must be a number"),
    ],
)
def test_shares_that_are_none_are_refused(shares, words):
    with pytest.raises(ValueError) as refusal:
        two()[0].with_prevalence(shares)
    assert words in str(refusal.value)


def test_a_number_may_be_an_array_of_no_dimension():
    found = two()[0].with_prevalence(np.array(0.1)).prevalence_.shares
    np.testing.assert_allclose(found, [0.9, 0.1])


def test_one_number_is_not_enough_for_three_classes():
    with pytest.raises(ValueError, match=r"one number, and there are 3 classes"):
        three()[0].with_prevalence(0.5)


# -- estimated ones ----------------------------------------------------------------------------


def test_em_finds_the_maximum_of_the_likelihood():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 0.5], size=300)
    ratios = p / np.array([0.3, 0.7])
    found = likeliest_shares(ratios, np.array([0.3, 0.7]))
    slope = lambda t: np.sum((ratios[:, 1] - ratios[:, 0]) / (ratios @ [1 - t, t]))  # noqa: E731
    assert found[1] == pytest.approx(brentq(slope, 1e-9, 1 - 1e-9), abs=1e-6)
    # Of K classes no direction goes up, and where a share is positive none is flat.
    ratios = rng.dirichlet(np.full(6, 0.3), size=500) * 6
    ratios[:, 5] *= 0.2
    shares = likeliest_shares(ratios, np.full(6, 1 / 6))
    gains = np.mean(ratios / (ratios @ shares)[:, None], axis=0)
    assert gains.max() < 1 + 1e-10
    np.testing.assert_allclose(gains[shares > 1e-6], 1.0, atol=1e-6)


def test_error_is_the_inverse_curvature_of_the_likelihood():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([0.4, 0.5, 0.6], size=800)
    counts = np.array([100.0, 150.0, 250.0])
    found = estimated_prevalence(p, counts)
    trained = counts / counts.sum()
    ratios, h = p / trained, 1e-4

    def value(a, b):
        shares = np.array([a, b, 1 - a - b])
        return np.log(ratios @ shares).sum() + trained @ np.log(shares)

    a, b, _ = found.shares
    assert abs(value(a + h, b) - value(a - h, b)) / (2 * h) < 1e-2
    assert abs(value(a, b + h) - value(a, b - h)) / (2 * h) < 1e-2
    aa = (value(a + h, b) - 2 * value(a, b) + value(a - h, b)) / h**2
    bb = (value(a, b + h) - 2 * value(a, b) + value(a, b - h)) / h**2
    ab = (value(a + h, b + h) - value(a + h, b - h) - value(a - h, b + h) + value(a - h, b - h)) / (
        4 * h**2
    )
    covariance = -np.linalg.inv([[aa, ab], [ab, bb]])
    last = covariance.sum()
    expected = np.sqrt([covariance[0, 0], covariance[1, 1], last])
    np.testing.assert_allclose(found.standard_error, expected, rtol=1e-4)
    likeliest = likeliest_shares(ratios, trained)
    statistic = 2 * np.log(ratios @ likeliest).sum() / (1 + 800 / 500)
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-6)
    assert (found.n_rows, found.source) == (800, "estimated")


def test_a_model_that_is_sure_counts():
    p = np.repeat([[1.0, 0.0], [0.0, 1.0]], [30, 70], axis=0)
    found = estimated_prevalence(p, np.array([500.0, 500.0]))
    # With the one row of the training population, half of each class.
    shares = np.array([30.5, 70.5]) / 101
    np.testing.assert_allclose(found.shares, shares, atol=1e-9)
    np.testing.assert_allclose(found.standard_error, np.sqrt(shares.prod() / 101), rtol=1e-6)


def test_a_class_that_is_not_there_is_not_ruled_out():
    p = np.tile([0.999, 0.001], (50, 1)) + np.linspace(0, 1e-4, 50)[:, None] * [-1, 1]
    found = estimated_prevalence(p, np.array([500.0, 500.0]))
    # Fifty rows that are sure, and half a row of the other class.
    assert found.shares[1] == pytest.approx(0.5 / 51, rel=0.01)
    assert found.p_value < 1e-6


@pytest.mark.parametrize(("trained", "share"), [(0.5, 0.05), (0.1, 0.5)])
def test_error_is_the_spread_over_draws(trained, share):
    """200 draws of 1500 rows: the spread is known to 1/√400 = 5 %, four of which are 20 %."""
    clf, _, _ = two(trained, n=1500, d=10)
    rng = np.random.default_rng(1)
    found = []
    for _ in range(200):
        X, _ = draw(rng, 1500, 10, trained, share)
        prevalence = estimated_prevalence(clf.predict_proba(X), clf.class_counts_)
        found.append((prevalence.shares[1], prevalence.standard_error[1], prevalence.p_value))
    shares, errors, p_values = np.array(found).T
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(shares.std(ddof=1), rel=0.2)
    assert p_values.max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("d", [20, 400])
def test_errors_know_what_few_training_labels_leave_open(d):
    """60 models: the mean square of the errors in units of their own is known to √(2/60) = 0.18."""
    rng, own, alone = np.random.default_rng(3), [], []
    for _ in range(60):
        X, y = draw(rng, 300, d, 0.2)
        base = LogisticRegression(C=0.01)
        clf = AngularCalibratedClassifier(base).fit(X, y)
        target, _ = draw(rng, 600, d, 0.2, 0.5)
        with warnings.catch_warnings(action="ignore"):
            known = clf.with_prevalence_from(target).prevalence_
            rows = estimated_prevalence(clf.predict_proba(target), clf.class_counts_)
        own.append((known.shares[1] - 0.5) / known.standard_error[1])
        alone.append((rows.shares[1] - 0.5) / rows.standard_error[1])
    assert 1.0 - 4 * 0.18 < np.mean(np.square(own)) < 1.0 + 4 * 0.18
    assert np.mean(np.square(alone)) > 2.0


def test_shares_that_few_labels_hardly_tell_are_said():
    rng = np.random.default_rng(0)
    X, y = draw(rng, 200, 500, 0.15)
    clf = AngularCalibratedClassifier(LogisticRegression(C=0.01)).fit(X, y)
    target = draw(rng, 300, 500, 0.15, 0.6)[0]
    with pytest.warns(AngleWarning, match="Too few labels to tell .* that of class 1 is 0.* ± 0"):
        copy = clf.with_prevalence_from(target)
    # Of a copy as of the original; a file has no training rows, and the target's part alone.
    with warnings.catch_warnings(action="ignore"):
        again = copy.with_prevalence_from(target).prevalence_
        loaded = pickle.loads(pickle.dumps(clf)).with_prevalence_from(target).prevalence_
    np.testing.assert_array_equal(again.standard_error, copy.prevalence_.standard_error)
    assert loaded.training_error is None
    assert loaded.standard_error[1] < 0.7 * again.standard_error[1]


def test_few_rows_of_the_target_are_said_to_be_the_few_ones():
    clf, _, _ = two(0.5, n=1500, d=10)
    target = draw(np.random.default_rng(0), 12, 10, 0.5)[0]
    with pytest.warns(AngleWarning, match="Too few rows of X_target to tell"):
        clf.with_prevalence_from(target)


def test_a_class_of_few_labels_is_named():
    rng = np.random.default_rng(0)
    X, y = draw(rng, 200, 3, 0.05, 0.03)
    with warnings.catch_warnings(action="ignore"):
        clf = AngularCalibratedClassifier().fit(X, np.array(["well", "ill"])[y])
    with pytest.warns(AngleWarning, match="Too few labels to tell .*: class ill has"):
        clf.with_prevalence_from(X)


def test_one_row_of_a_class_tells_nothing_of_its_spread():
    p, codes = np.random.default_rng(0).dirichlet([1.0, 1.0], size=10), np.arange(10) == 3
    left_out = LeftOut(p, codes.astype(int), np.ones(10))
    assert np.all(np.isinf(left_out.gain_covariance(np.array([0.5, 0.5]))))
    found = estimated_prevalence(p, np.array([9.0, 1.0]), left_out)
    assert np.all(np.isinf(found.standard_error))


def test_rows_of_one_group_leave_as_much_open_as_one():
    rng = np.random.default_rng(0)
    p, codes = rng.dirichlet([1.0, 1.0], size=30), np.arange(30) % 2
    shares = np.array([0.3, 0.7])
    single = LeftOut(p, codes, np.ones(30)).gain_covariance(shares)
    rows = np.repeat(np.arange(30), 3)
    copied = LeftOut(p[rows], codes[rows], np.ones(90), Groups(rows)).gain_covariance(shares)
    # Of m rows of a class m/(m − 1), of which there are three times as many.
    np.testing.assert_allclose(copied * (44 / 45) * (15 / 14), single, rtol=1e-12)


def test_without_a_shift_p_values_are_uniform():
    """Each with a model of its own, whose own chance is part of the test."""
    rng, found = np.random.default_rng(2), []
    for _ in range(120):
        X, y = draw(rng, 300, 5, 0.3)
        platt = ScoreCalibratedClassifier(LogisticRegression()).fit(X, y)
        target, _ = draw(rng, 300, 5, 0.3)
        found.append(platt.with_prevalence_from(target).prevalence_.p_value)
    assert stats.kstest(found, "uniform").pvalue > 0.01


@pytest.mark.parametrize(("trained", "share"), [(0.5, 0.02), (0.02, 0.5)])
def test_as_good_as_a_refit(trained, share):
    """Log-loss on 40,000 rows of the target, within 1 % of a fit to 20,000 of its labels."""
    rng = np.random.default_rng(3)
    fits = {}
    for name, labels in (("source", None), ("target", share)):
        X, y = draw(rng, 20_000, 5, trained, labels)
        fits[name] = AngularCalibratedClassifier(LogisticRegression()).fit(X, y)
    X, y = draw(rng, 40_000, 5, trained, share)
    unlabeled, _ = draw(rng, 20_000, 5, trained, share)
    refitted = log_loss(y, fits["target"].predict_proba(X)[:, 1])
    for copy in (
        fits["source"].with_prevalence(share),
        fits["source"].with_prevalence_from(unlabeled),
    ):
        assert log_loss(y, copy.predict_proba(X)[:, 1]) < 1.01 * refitted
    assert log_loss(y, fits["source"].predict_proba(X)[:, 1]) > 1.2 * refitted


@pytest.mark.parametrize(
    ("rows", "words"), [(slice(0, 9), "has 9 rows"), (np.zeros(20, int), "same probabilities")]
)
def test_rows_that_say_nothing_are_refused(rows, words):
    clf, X, _ = two()
    with pytest.raises(ValueError, match=words):
        clf.with_prevalence_from(X[rows])


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        AngularCalibratedClassifier().with_prevalence(0.2)
    with pytest.raises(TypeError, match="ends in a LogisticRegression"):
        with_prevalence(LogisticRegression(), 0.2)
    X, y = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    search = GridSearchCV(AngularCalibratedClassifier(), {"confidence": [0.9, 0.95]}, cv=2)
    with warnings.catch_warnings(action="ignore"):
        search.fit(X, y)
    with pytest.raises(TypeError, match="pass its best_estimator_"):
        with_prevalence(search, 0.2)
    assert with_prevalence(search.best_estimator_, 0.2).prevalence_.shares[1] == 0.2


# -- everywhere --------------------------------------------------------------------------------


def kinds():
    X = two()[1]
    yield "sparse", AngularCalibratedClassifier(), sparse.csr_array(X)
    yield "inner pipeline", AngularCalibratedClassifier(make_pipeline(StandardScaler(), MODEL)), X
    yield "isotonic", ScoreCalibratedClassifier(MODEL, method="isotonic"), X
    yield "platt", ScoreCalibratedClassifier(MODEL, scores="holdout", random_state=0), X
    for average in (None, "penalties", "folds"):
        yield f"path {average}", AngularLogisticRegressionCV(Cs=4, average=average), X


MODEL = LogisticRegression(C=0.1)
every_kind = pytest.mark.parametrize("kind", [name for name, _, _ in kinds()])


@cache
def fitted(kind):
    y = two()[2]
    model, X = next((model, X) for name, model, X in kinds() if name == kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y), X


def by_rule(p, counts, share):
    """P(y = 1) by hand."""
    odds = p[:, 1] / p[:, 0] * share / (1 - share) * counts[0] / counts[1]
    return odds / (1 + odds)


@every_kind
def test_every_kind_of_classifier(kind, tmp_path):
    clf, X = fitted(kind)
    rare = clf.with_prevalence(0.1)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = by_rule(clf.predict_proba(X), clf.class_counts_, 0.1)
    some = np.isfinite(expected)
    np.testing.assert_allclose(rare.predict_proba(X)[some, 1], expected[some], rtol=1e-9)
    from_rows = clf.with_prevalence_from(X)
    assert from_rows.prevalence_.shares[1] == pytest.approx(0.5, abs=0.2)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(from_rows)).predict_proba(X), from_rows.predict_proba(X)
    )


@every_kind
def test_every_kind_is_saved_and_exported(kind, tmp_path):
    pytest.importorskip("skops")
    from angcal.persistence import load, save

    clf, X = fitted(kind)
    copy = clf.with_prevalence_from(X[:100])
    save(copy, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(X), copy.predict_proba(X))
    assert again.prevalence_.p_value == copy.prevalence_.p_value
    np.testing.assert_array_equal(
        again.with_prevalence(0.3).predict_proba(X), clf.with_prevalence(0.3).predict_proba(X)
    )
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    from angcal.export import to_onnx

    rows = np.asarray(X.todense() if sparse.issparse(X) else X, dtype=np.float64)
    for model in (copy, clf.with_prevalence(0.02)):
        written = to_onnx(model, rows, dtype="float64").SerializeToString()
        session = runtime.InferenceSession(written, providers=["CPUExecutionProvider"])
        label, p = session.run(["label", "probabilities"], {"X": rows})
        np.testing.assert_allclose(p, model.predict_proba(rows), atol=1e-6)
        clear = np.abs(p[:, 1] - 0.5) > 1e-6
        np.testing.assert_array_equal(label[clear], model.predict(rows)[clear])


def test_three_classes_are_exported():
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    from angcal.export import to_onnx

    clf, X = three()
    copy = clf.with_prevalence([0.05, 0.15, 0.8])
    written = to_onnx(copy, X, dtype="float64").SerializeToString()
    session = runtime.InferenceSession(written, providers=["CPUExecutionProvider"])
    label, p = session.run(["label", "probabilities"], {"X": X})
    np.testing.assert_allclose(p, copy.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(label, copy.predict(X))


def test_at_the_end_of_a_pipeline():
    _, X, y = two()
    pipe = make_pipeline(StandardScaler(), AngularCalibratedClassifier(MODEL)).fit(X, y)
    before = pipe.predict_proba(X)
    rare = with_prevalence(pipe, 0.1)
    expected = by_rule(before, pipe[-1].class_counts_, 0.1)
    np.testing.assert_allclose(rare.predict_proba(X)[:, 1], expected, rtol=1e-9)
    from_rows = with_prevalence_from(pipe, X)
    np.testing.assert_array_equal(
        from_rows[-1].prevalence_.shares,
        pipe[-1].with_prevalence_from(pipe[0].transform(X)).prevalence_.shares,
    )
    np.testing.assert_array_equal(pipe.predict_proba(X), before)


def test_tensors_stay_tensors(monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    clf, X, _ = two()
    with sklearn.config_context(array_api_dispatch=True):
        rows = torch.asarray(X, dtype=torch.float32)
        copy = clf.with_prevalence_from(rows)
        p = copy.predict_proba(rows)
        assert isinstance(p, torch.Tensor)
        assert p.dtype == torch.float32
        assert isinstance(copy.predict(rows), torch.Tensor)
        many, Z = three()
        shares = [0.2, 0.2, 0.6]
        found = many.with_prevalence(shares).predict_proba(torch.asarray(Z)).numpy()
    host = clf.with_prevalence_from(X)
    np.testing.assert_allclose(copy.prevalence_.shares, host.prevalence_.shares, atol=1e-5)
    np.testing.assert_allclose(p.numpy(), host.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(found, many.with_prevalence(shares).predict_proba(Z), atol=1e-9)


def test_dask_rows_are_predicted_when_asked():
    dask = pytest.importorskip("dask.array")
    clf, X, _ = two()
    rows = dask.from_array(X, chunks=(100, 20))
    copy = clf.with_prevalence_from(rows)
    host = clf.with_prevalence_from(X)
    np.testing.assert_allclose(copy.prevalence_.shares, host.prevalence_.shares, atol=1e-9)
    found = clf.with_prevalence(0.1).predict_proba(rows).compute()
    np.testing.assert_allclose(found, clf.with_prevalence(0.1).predict_proba(X), rtol=1e-12)
