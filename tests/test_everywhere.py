"""Groups, intervals and another prevalence: every call, storage and number of classes, and loaded.

Each storage has to give what an array gives, before and after a model is saved and loaded.
"""

import inspect
import tempfile

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GroupKFold, TunedThresholdClassifierCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    plan,
    with_prevalence,
    with_prevalence_from,
)
from angcal.persistence import load, save

CS = [1e-4, 0.003, 0.1, 3.0, 100.0]
MODELS = {
    "one": lambda: AngularCalibratedClassifier(LogisticRegression(C=0.1, tol=1e-9, max_iter=999)),
    "averaged": lambda: AngularLogisticRegressionCV(Cs=CS, tol=1e-6, average="penalties"),
}
CALLS = {
    "probabilities": lambda model, X: model.predict_proba(X),
    "curve": lambda model, X: model.predict_interval(X, kind="curve", confidence=0.8),
    "row": lambda model, X: model.predict_interval(X, kind="row", confidence=0.8),
    "prevalence": lambda model, X: model.with_prevalence(_shares(model)).predict_proba(X),
    "from rows": lambda model, X: model.with_prevalence_from(X).predict_proba(X),
}


@pytest.fixture(autouse=True)
def _array_api(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


def _shares(model):
    K = len(model.classes_)
    return 0.05 if K == 2 else np.arange(1.0, K + 1.0) / (K * (K + 1.0) / 2.0)


def _draw(K, seed=0, n=120, d=30, size=4):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(n // size), size))
    X = (rng.normal(size=(n, d)) + rng.normal(size=(n // size, d))[groups]) / np.sqrt(2.0)
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    W = 3.0 * rng.normal(size=(d, K)) / np.sqrt(d)
    return X, np.argmax(X @ W + rng.gumbel(size=(n, K)), axis=1), groups


def _as(storage, X):
    if storage == "sparse":
        return sparse.csr_matrix(X)
    if storage == "tensor":
        return pytest.importorskip("torch").tensor(X)
    if storage == "blocks":
        return [X[:50], X[50:51], X[51:]]
    if storage == "memory map":
        with tempfile.NamedTemporaryFile() as file:
            np.save(file, X)
            file.flush()
            return np.load(file.name, mmap_mode="r")
    if storage == "dask":
        return pytest.importorskip("dask.array").from_array(X, chunks=(50, X.shape[1]))
    return X


def _fitted(name, storage, X, y, groups):
    """A local model, with its predictions to be asked for arrays."""
    model = MODELS[name]()
    if storage == "pipeline":
        return make_pipeline(StandardScaler(), model).fit(X, y, **{_step(model): groups})[-1]
    if storage == "dask":
        from angcal import dask

        kind, own = getattr(dask, type(model).__name__), model.get_params(deep=False)
        distributed = kind(**{name: own[name] for name in own if name in kind().get_params()})
        return distributed.fit(_as(storage, X), y, groups=groups).to_local()
    with sklearn.config_context(array_api_dispatch=storage == "tensor"):
        return model.fit(_as(storage, X), y, groups=groups)


def _step(model):
    return f"{type(model).__name__.lower()}__groups"


def _asked(call, model, storage, X):
    if storage != "tensor":
        return CALLS[call](model, X)
    with sklearn.config_context(array_api_dispatch=True):
        return np.asarray(CALLS[call](model, _as(storage, X)))


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("storage", ["sparse", "tensor", "blocks", "dask"])
def test_every_storage_answers_as_an_array_does(storage, name, K, tmp_path, monkeypatch):
    if storage in FAR:
        # Rows that are read anew leave groups out by one Newton step; so do arrays without rounds.
        monkeypatch.setattr(plan, "GROUP_TOLERANCE", np.inf)
    X, y, groups = _draw(K)
    expected = _fitted(name, "array", X, y, groups)
    alone = MODELS[name]().fit(X, y)
    found = _fitted(name, storage, X, y, groups)
    save(found, tmp_path / "model.skops")
    loaded = load(tmp_path / "model.skops")
    new = _draw(K, seed=1)[0]
    for call, ask in CALLS.items():
        right = ask(expected, new)
        # Widths rest on couplings, which rows that are elsewhere sample by random signs, and those
        # of more classes on 512 draws, whose axes turn with the last digits of the posterior.
        near = (1e-2 if K == 2 else 3e-2) if call in ("curve", "row") else 2e-3
        np.testing.assert_allclose(_asked(call, found, storage, new), right, atol=near)
        np.testing.assert_allclose(ask(loaded, new), right, atol=near, err_msg=call)
    # And groups matter: the same rows without them are another model.
    assert np.abs(CALLS["probabilities"](alone, new) - expected.predict_proba(new)).max() > 4e-3


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_groups_travel_through_a_pipeline(name, K, tmp_path):
    X, y, groups = _draw(K)
    scaled = StandardScaler().fit_transform(X)
    expected = MODELS[name]().fit(scaled, y, groups=groups)
    found = _fitted(name, "pipeline", X, y, groups)
    for call, ask in CALLS.items():
        np.testing.assert_allclose(ask(found, scaled), ask(expected, scaled), err_msg=call)


@pytest.mark.parametrize("storage", ["blocks", "dask"])
def test_groups_may_span_blocks(storage):
    """Rows of a group in any order: as if each group were in one block."""
    X, y, groups = _draw(3)
    order = np.argsort(groups, kind="stable")
    mixed = _fitted("one", storage, X, y, groups)
    ordered = _fitted("one", storage, X[order], y[order], groups[order])
    new = _draw(3, seed=1)[0]
    np.testing.assert_allclose(mixed.predict_proba(new), ordered.predict_proba(new), atol=1e-7)


@pytest.mark.parametrize("K", [2, 3, 10])
@pytest.mark.parametrize("storage", ["array", "sparse", "tensor"])
def test_a_pipeline_answers_the_same_once_loaded(storage, K, tmp_path):
    """Groups, both intervals and both prevalences behind a scaler that keeps zeros."""
    X, y, groups = _draw(K, n=240)
    new = _draw(K, seed=1)[0]
    scale = np.abs(X).max(axis=0)
    expected = MODELS["one"]().fit(X / scale, y, groups=groups)
    with sklearn.config_context(array_api_dispatch=storage == "tensor"):
        pipe = make_pipeline(MaxAbsScaler(), MODELS["one"]())
        pipe.fit(_as(storage, X), y, angularcalibratedclassifier__groups=groups)
    save(pipe, tmp_path / "pipe.skops")
    for each in (pipe, load(tmp_path / "pipe.skops")):
        tensors = storage == "tensor" and each is pipe  # files hold arrays
        with sklearn.config_context(array_api_dispatch=tensors):
            rows = _as(storage, new) if storage != "tensor" or tensors else new
            given = each[:-1].transform(rows)
            rare = with_prevalence(each, _shares(expected)).predict_proba(rows)
            moved = with_prevalence_from(each, rows).predict_proba(rows)
            ends = [each[-1].predict_interval(given, kind=kind) for kind in ("curve", "row")]
        right = [expected.predict_interval(new / scale, kind=kind) for kind in ("curve", "row")]
        for found, wanted in zip(ends, right, strict=True):
            assert np.shape(found) == ((120, 2) if K == 2 else (120, K, 2))
            np.testing.assert_allclose(np.asarray(found), wanted, atol=3e-2)
        wanted = CALLS["prevalence"](expected, new / scale)
        np.testing.assert_allclose(np.asarray(rare), wanted, atol=2e-3)
        wanted = CALLS["from rows"](expected, new / scale)
        np.testing.assert_allclose(np.asarray(moved), wanted, atol=5e-3)


def test_groups_are_routed_by_scikit_learn():
    """``cross_validate`` hands each training set its groups, and its splitter the same ones."""
    X, y, groups = _draw(2)
    with sklearn.config_context(enable_metadata_routing=True):
        model = MODELS["one"]().set_fit_request(groups=True)
        pipe = make_pipeline(StandardScaler(), model)
        options = {"cv": GroupKFold(3), "params": {"groups": groups}, "return_estimator": True}
        found = cross_validate(pipe, X, y, return_indices=True, **options)
        tuned = TunedThresholdClassifierCV(pipe, cv=GroupKFold(3)).fit(X, y, groups=groups)
    for fitted, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        told = fitted[-1].observables_.groups
        assert told.count == len(np.unique(groups[train]))
    assert tuned.estimator_[-1].observables_.groups.count == len(np.unique(groups))
    assert set(tuned.predict(X)) <= {0, 1}


# -- what there is, storage by storage -------------------------------------------------------

STORAGES = ["array", "sparse", "tensor", "memory map", "blocks", "dask"]
FAR = {"memory map", "blocks", "dask"}
IN_BLOCKS = "X comes in blocks, which takes LogisticRegression with its ridge penalty"
ON_DEVICE = "cannot be fitted on a device; use LogisticRegression"
# What is not there: where, and what is said instead.
REFUSED = {
    "averaged over folds": (FAR, "average='folds' needs rows in memory"),
    "another penalty": ({"blocks", "dask", "tensor"}, f"{IN_BLOCKS}|{ON_DEVICE}"),
    "another loss": ({"blocks", "dask", "tensor"}, f"{IN_BLOCKS}|{ON_DEVICE}"),
    "a pipeline": ({"blocks", "dask", "tensor"}, f"{IN_BLOCKS}|{ON_DEVICE}"),
}
RIDGE = LogisticRegression(C=0.1)
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, 120)
ELASTIC = LogisticRegression(C=0.1, solver="saga", l1_ratio=0.5, max_iter=99999, tol=1e-8)
if "penalty='deprecated'" not in str(inspect.signature(LogisticRegression)):
    ELASTIC.set_params(penalty="elasticnet")  # before scikit-learn 1.8
FROZEN = FrozenEstimator(RIDGE.fit(*_draw(2)[:2]))
POOL = _draw(2, seed=2, n=240)[0]
# (estimator, options of the classifier, options of fit); "pool" is stored as X is.
ONE = {
    "one penalty": (RIDGE, {}, {}),
    "weights": (RIDGE, {}, {"sample_weight": WEIGHTS}),
    "weights of classes": (LogisticRegression(C=0.1, class_weight="balanced"), {}, {}),
    "groups": (RIDGE, {}, {"groups": np.arange(120) // 4}),
    "copies": (RIDGE, {}, {"groups": "copies"}),
    "a known link": (RIDGE, {"link": Logit(2.0)}, {}),
    "a covariance": (RIDGE, {"covariance": np.eye(30)}, {}),
    "a pool": (RIDGE, {"pool": POOL, "angle": "observable"}, {}),
    "sampled leverages": (RIDGE, {"observables": "randomised"}, {}),
    "trained elsewhere": (FROZEN, {}, {}),
    "another penalty": (ELASTIC, {}, {}),
    "another loss": (RidgeClassifier(), {}, {}),
    "a pipeline": (make_pipeline(StandardScaler(with_mean=False), RIDGE), {}, {}),
}
MANY = {
    "penalties": ({}, {}),
    "weighed penalties": ({"class_weight": "balanced"}, {"sample_weight": WEIGHTS}),
    "groups of penalties": ({}, {"groups": np.arange(120) // 4}),
    "averaged over penalties": ({"average": "penalties"}, {}),
    "averaged over folds": ({"average": "folds"}, {}),
    "penalties and a pool": ({"pool": POOL, "spectrum": None}, {}),
}


def _class(storage, kind):
    if storage != "dask":
        return kind
    pytest.importorskip("dask.array")
    from angcal import dask

    return getattr(dask, kind.__name__)


def _model_of(feature, storage, X, y):
    if feature in ONE:
        estimator, options, given = ONE[feature]
        kind, first = _class(storage, AngularCalibratedClassifier), (estimator,)
    else:
        (options, given), first = MANY[feature], ()
        kind = _class(storage, AngularLogisticRegressionCV)
        options = {"Cs": CS, "tol": 1e-6} | options
    own = {name: value for name, value in options.items() if name in kind().get_params()}
    if "pool" in own:
        own["pool"] = _as(storage, own["pool"])
    with sklearn.config_context(array_api_dispatch=storage == "tensor"):
        return kind(*first, **own).fit(_as(storage, X), y, **given)


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("storage", STORAGES[1:])
@pytest.mark.parametrize("feature", [*ONE, *MANY])
def test_what_arrays_have_every_storage_has_or_refuses(feature, storage, K, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "MAPPED_BYTES", 0)
    if K == 4 and feature in ("a known link", "trained elsewhere", "a pool", "another loss"):
        pytest.skip("two classes")
    X, y, _ = _draw(K)
    where, said = REFUSED.get(feature, (set(), ""))
    if storage in where:
        with pytest.raises((TypeError, ValueError), match=said):
            _model_of(feature, storage, X, y)
        return
    new = _draw(K, seed=1)[0]
    expected = _model_of(feature, "array", X, y).predict_proba(new)
    found = _model_of(feature, storage, X, y)
    if storage == "dask":
        found = found.to_local()
    # Tensors, and whoever is told to, sample their leverages.
    near = 0.05 if storage == "tensor" or "sampled" in feature else 5e-3
    np.testing.assert_allclose(_asked("probabilities", found, storage, new), expected, atol=near)


def _rare(n, seed):
    """A third of the columns are active in one row of twelve."""
    rng = np.random.default_rng(seed)
    active = np.where(np.arange(24) % 3 > 0, 1.0, rng.random((n, 24)) < 1 / 12)
    return 0.4 + active * rng.normal(size=(n, 24)) * np.linspace(2.0, 0.5, 24)


@pytest.mark.filterwarnings("ignore:The pool's features:angcal.PoolWarning")
@pytest.mark.parametrize(
    ("K", "average", "with_pool"),
    [(2, None, False), (2, "penalties", True), (3, None, True), (3, "penalties", False)],
)
@pytest.mark.parametrize("storage", ["memory map", "blocks", "dask", "sparse blocks", "a tensor"])
def test_rare_columns_and_a_pool_make_one_model_everywhere(
    storage, K, average, with_pool, monkeypatch
):
    """Rarity and the exponents of a pool, on a grid that each makes by itself but tensors."""
    monkeypatch.setattr(plan, "MAPPED_BYTES", 0)
    X, rng = _rare(180, 0), np.random.default_rng(1)
    y = np.argmax(X @ rng.normal(size=(24, K)) + 2.0 * rng.gumbel(size=(180, K)), axis=1)
    new, pool = _rare(50, 2), _rare(400, 3)
    options = {"tol": 1e-7, "observables": "exact", "average": average}
    pools = {"pool": pool} if with_pool else {}
    expected = AngularLogisticRegressionCV(5, **options).fit(X, y, **pools)
    if storage == "a tensor":
        if with_pool:
            pytest.skip("large tensors are fitted with p = 1")
        monkeypatch.setattr(plan, "PRODUCT_ENTRIES", 1000)
        options["observables"] = "auto"
    rows = _as(storage.removeprefix("a "), X)
    if storage == "sparse blocks":
        rows = [sparse.csr_matrix(X[:70]), sparse.csr_matrix(X[70:])]
    kind = _class(storage, AngularLogisticRegressionCV)
    if with_pool and storage != "sparse blocks":
        pools = {"pool": _as(storage, pool)}
    with sklearn.config_context(array_api_dispatch=storage == "a tensor"):
        Cs = expected.Cs_ if storage == "a tensor" else 5
        found = kind(Cs, **options).fit(rows, y, **pools)
    near = 2e-3 if storage == "a tensor" else 1e-5
    assert found.rarity_ == expected.rarity_ > 0.0
    assert found.spectrum_reason_ == expected.spectrum_reason_
    np.testing.assert_array_equal(found.exponents_, expected.exponents_)
    np.testing.assert_array_equal(found.rarities_, expected.rarities_)
    np.testing.assert_allclose(found.exponent_shares_, expected.exponent_shares_, atol=near)
    np.testing.assert_allclose(found.C_, expected.C_, rtol=near)
    scale = np.abs(expected.coef_).max()
    np.testing.assert_allclose(np.asarray(found.coef_), expected.coef_, atol=near * scale)
    p = _asked("probabilities", found, storage.removeprefix("a "), new)
    np.testing.assert_allclose(p, expected.predict_proba(new), atol=near)
