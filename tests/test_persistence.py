"""Model files: the same probabilities to the last bit, and no trust in what is not known."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import warnings
import zipfile
from functools import cache, partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    CallableLink,
    ElasticNet,
    LinearHead,
    Logit,
    MEstimator,
    PoolWarning,
    Quadratic,
    Ridge,
    ScoreCalibratedClassifier,
    persistence,
)
from angcal.baselines import CALIBRATORS, SEVERAL_CALIBRATORS
from angcal.links import Link
from angcal.links.multiclass import Softmax
from angcal.losses import Loss
from angcal.penalties import Penalty
from angcal.persistence import FORMAT, TRUSTED, PersistenceError, about, inspect, load, save
from angcal.simulation import simulate, simulate_multiclass

sys.path.insert(0, str(Path(__file__).parent))
from studies.hostile.forging import rewritten

skops_io = pytest.importorskip("skops.io")
pd = pytest.importorskip("pandas")

from angcal.tables import fit_table  # noqa: E402

# Whether an average pays on these rows is no matter of files.
pytestmark = pytest.mark.filterwarnings("ignore:An average over folds does not pay")

DATA = simulate(150, 40, link=Logit(scale=3), random_state=0)
X, Y = DATA.X, DATA.y.astype(int)
NEW = simulate(50, 40, link=Logit(scale=3), random_state=1).X
CONSTANT = np.where(np.arange(150) < 2, 1, 0)  # too few of a class for an angle
THREE = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)


def head():
    base = LogisticRegression().fit(X, Y)
    return LinearHead(base.coef_, base.intercept_, penalty=Ridge(1 / 150))


def one(*arguments, **options):
    return AngularCalibratedClassifier(*arguments, **options).fit(X, Y)


def path_of_five(**options):
    return AngularLogisticRegressionCV(Cs=5).fit(X, Y, **options)


def average_of_five(average):
    return AngularLogisticRegressionCV(Cs=5, average=average).fit(X, Y)


def path_of_three(average=None):
    return AngularLogisticRegressionCV(Cs=[0.1, 1.0], average=average).fit(X, THREE)


def many(n=400, d=40, K=20):
    data = simulate_multiclass(n, d, n_indices=K, random_state=0)
    return AngularCalibratedClassifier().fit(data.X, data.y)


def known_softmax():
    link = Softmax(3, covariance=np.eye(3))
    return AngularCalibratedClassifier(link=link).fit(X, THREE)


def no_signal():
    with pytest.warns(AngleWarning):
        return AngularCalibratedClassifier().fit(np.zeros_like(X), THREE)


def scored(method):
    return ScoreCalibratedClassifier(method=method).fit(X, Y)


SGD = SGDClassifier(loss="log_loss", alpha=0.05, max_iter=5000, tol=1e-8, random_state=0)
SCALED = make_pipeline(StandardScaler(), LogisticRegression())
REDUCED = make_pipeline(StandardScaler(), PCA(10), AngularCalibratedClassifier())
# Every public estimator in many forms, fitted when a test asks for it.
MODELS = {
    "default": one,
    "probit": lambda: one(link="probit"),
    "known link": lambda: one(link=Logit(3.0)),
    "text classes": lambda: AngularCalibratedClassifier().fit(X, np.where(Y == 1, "yes", "no")),
    "frozen": lambda: one(FrozenEstimator(LogisticRegression().fit(X, Y))),
    "head": lambda: one(head(), polish=True),
    "ridge": lambda: one(RidgeClassifier()),
    "squared hinge": lambda: one(LinearSVC(dual=False)),
    "sgd": lambda: one(SGD, polish=True),
    "sparse rows": lambda: AngularCalibratedClassifier().fit(sparse.csr_matrix(X), Y),
    "pipeline inside": lambda: one(SCALED),
    "pipeline outside": lambda: REDUCED.fit(X, Y),
    "three classes": lambda: AngularCalibratedClassifier().fit(X, THREE),
    "one against the rest": lambda: AngularCalibratedClassifier(RidgeClassifier()).fit(X, THREE),
    "own heads": lambda: one_vs_rest(LogisticRegression()),
    "known softmax": known_softmax,
    "no signal": no_signal,
    "twenty classes": many,
    "classes on a path": path_of_three,
    "classes over a path": lambda: path_of_three("penalties"),
    "classes over folds": lambda: path_of_three("folds"),
    "path": path_of_five,
    "average over a path": lambda: average_of_five("penalties"),
    "average over folds": lambda: average_of_five("folds"),
    "path with pool": lambda: path_of_five(pool=NEW),
    "elastic net": lambda: MEstimator("huberised_hinge", ElasticNet(0.05, 0.5)).fit(X, Y),
    "quadratic csr": lambda: quadratic(sparse.csr_matrix),
    "quadratic csc": lambda: quadratic(sparse.csc_array),
    "quadratic dense": lambda: quadratic(np.asarray),
    "calibrated m": lambda: one(MEstimator("squared", Ridge(0.1))),
    "holdout": lambda: ScoreCalibratedClassifier(scores="holdout", random_state=0).fit(X, Y),
    "platt of classes": lambda: ScoreCalibratedClassifier().fit(X, THREE),
    "heads by a matrix": lambda: ScoreCalibratedClassifier(
        RidgeClassifier(), method="structured"
    ).fit(X, THREE),
} | {method: partial(scored, method) for method in SEVERAL_CALIBRATORS}


def one_vs_rest(base):
    return AngularCalibratedClassifier(OneVsRestClassifier(base)).fit(X, THREE)


def quadratic(kind):
    return MEstimator(penalty=Quadratic(kind(np.eye(40)))).fit(X, Y)


@cache
def model_of(name):
    return MODELS[name]()


def answers(model, rows=NEW):
    ask = getattr(model, "predict_proba", None) or model.decision_function
    return ask(rows)


@pytest.mark.parametrize("suffix", [".skops", ".angcal"])
@pytest.mark.parametrize("name", MODELS)
def test_round_trip_is_exact(name, suffix, tmp_path):
    model, path = model_of(name), tmp_path / f"m{suffix}"
    save(model, path)
    back = load(path)
    assert type(back) is type(model)
    np.testing.assert_array_equal(answers(back), answers(model))
    assert back.predict(NEW).tolist() == model.predict(NEW).tolist()
    assert back.classes_.tolist() == model.classes_.tolist()


def test_a_model_that_fell_back_to_the_prevalence(tmp_path):
    with pytest.warns(UserWarning, match="No angle"):
        model = AngularCalibratedClassifier().fit(X, CONSTANT)
    save(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(answers(load(tmp_path / "m.skops")), answers(model))


def test_what_was_found_comes_back(tmp_path):
    model = model_of("path")
    save(model, tmp_path / "m.skops")
    back = load(tmp_path / "m.skops")
    assert back.angle_ == model.angle_
    assert back.link_ == model.link_
    assert back.get_params() == model.get_params()
    np.testing.assert_array_equal(back.path_.log_loss, model.path_.log_loss)


def test_what_was_found_for_classes_comes_back(tmp_path):
    model = model_of("three classes")
    save(model, tmp_path / "m.skops")
    back = load(tmp_path / "m.skops")
    np.testing.assert_array_equal(back.angle_.cosine, model.angle_.cosine)
    np.testing.assert_array_equal(back.link_.offset, model.link_.offset)
    np.testing.assert_array_equal(back.curve_.slopes, model.curve_.slopes)
    assert vars(back.calibration_) == vars(model.calibration_)


# -- what is left out --------------------------------------------------------------------------

LEFT_OUT = ("observables_", "loo_proba_", "plain_loo_proba_")


@pytest.mark.parametrize("name", ["default", "three classes", "average over folds"])
def test_observables_are_left_out_and_say_so(name, tmp_path):
    model = model_of(name)
    save(model, tmp_path / "m.skops")
    back = load(tmp_path / "m.skops")
    for attribute in LEFT_OUT:
        assert hasattr(model, attribute)  # saving takes nothing from the model itself
        assert not hasattr(back, attribute)
        with pytest.raises(AttributeError, match=rf"^{attribute} .*keep_observables=True"):
            getattr(back, attribute)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense_'$"):
        _ = back.nonsense_


def test_what_never_was_is_not_said_to_be_left_out(tmp_path):
    save(model_of("holdout"), tmp_path / "m.skops")
    for model in (AngularCalibratedClassifier(), load(tmp_path / "m.skops")):
        with pytest.raises(AttributeError, match=r"has no attribute 'observables_'$"):
            _ = model.observables_


@pytest.mark.parametrize("again", [pickle.dumps, None], ids=["pickled", "saved"])
def test_a_loaded_model_goes_on(tmp_path, again):
    """Through another file or pickle, and a new fit has everything again."""
    save(model_of("default"), tmp_path / "m.skops")
    back = load(tmp_path / "m.skops")
    if again is None:
        save(back, tmp_path / "n.skops", keep_observables=True)
        back = load(tmp_path / "n.skops")
    else:
        back = pickle.loads(again(back))
    with pytest.raises(AttributeError, match="keep_observables"):
        _ = back.loo_proba_
    np.testing.assert_array_equal(back.fit(X, Y).loo_proba_, model_of("default").loo_proba_)
    assert "loo_scores" in dir(back.observables_)


@pytest.mark.parametrize("kind", [AngularCalibratedClassifier, AngularLogisticRegressionCV])
def test_a_refit_says_what_the_file_did_not_hold(kind, tmp_path):
    pool = np.random.default_rng(1).normal(size=(40, X.shape[1])) * X.std(axis=0)
    model = kind(pool=pool, covariance=np.cov(X.T)).fit(X, Y)
    save(model, tmp_path / "m.skops")
    save(load(tmp_path / "m.skops"), tmp_path / "n.skops")  # another file does not forget it
    back = load(tmp_path / "n.skops")
    for again in (back, clone(back)):
        with pytest.warns(PoolWarning, match=r"does not hold its covariance and pool.*set_params"):
            again.fit(X, Y)
    with pytest.warns(PoolWarning, match="does not hold its covariance, and"):
        back.fit(X, Y, pool=pool)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PoolWarning)
        found = back.set_params(pool=pool, covariance=np.cov(X.T)).fit(X, Y)
        load(tmp_path / "m.skops").predict_proba(X)  # predictions need neither
        one().fit(X, Y)
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("name", ["default", "path", "three classes", "own heads", "platt"])
def test_observables_are_kept_on_request(name, tmp_path):
    model = model_of(name)
    save(model, tmp_path / "m.skops", keep_observables=True)
    back = load(tmp_path / "m.skops")
    both = (each.observables_ for each in (back, model))
    lists = [found if isinstance(found, list) else [found] for found in both]
    for found, expected in zip(*lists, strict=True):
        np.testing.assert_array_equal(found.loo_scores, expected.loo_scores)
    for attribute in LEFT_OUT[1:]:
        if hasattr(model, attribute):
            np.testing.assert_array_equal(getattr(back, attribute), getattr(model, attribute))


def test_a_picture_of_a_loaded_model_says_what_it_lacks(tmp_path):
    displays = pytest.importorskip("angcal.displays")
    save(model_of("default"), tmp_path / "m.skops")
    back = load(tmp_path / "m.skops")
    with pytest.raises(AttributeError, match="keep_observables"):
        displays.SmoothedLinkDisplay.from_estimator(back)


def size_of(model, path):
    save(model, path)
    return path.stat().st_size


def test_a_file_does_not_grow_with_the_rows(tmp_path):
    """K = 20, n = 2000: less than a megabyte but for its weights, as at n = 500."""
    few, model = many(n=500), many(n=2000)
    size = size_of(model, tmp_path / "m.skops")
    weights = model.coef_.nbytes + model.estimator_.coef_.nbytes
    assert size - weights < 1_000_000
    assert abs(size - size_of(few, tmp_path / "f.skops")) < 2_000
    save(model, tmp_path / "k.skops", keep_observables=True)
    assert (tmp_path / "k.skops").stat().st_size > 2_000_000


@pytest.mark.parametrize("average", [None, "penalties", "folds"])
def test_a_file_of_a_path_does_not_grow_with_the_rows(average, tmp_path):
    sizes = []
    for n in (300, 3000):
        data = simulate(n, 20, link=Logit(3.0), random_state=0)
        model = AngularLogisticRegressionCV(Cs=[0.1, 1.0], average=average).fit(data.X, data.y)
        sizes.append(size_of(model, tmp_path / "m.skops"))
    assert sizes[1] < 1.2 * sizes[0]  # it may shrink: fewer penalties are worth a share


POOL = simulate(60, 40, link=Logit(3.0), random_state=7).X
HOLDOUT = simulate(20, 40, link=Logit(3.0), random_state=8)
COVARIANCE = POOL.T @ POOL / 60


WITH_DATA = {
    "pool": AngularCalibratedClassifier(pool=POOL),
    "sparse pool": AngularCalibratedClassifier(pool=sparse.csr_array(POOL)),
    "sign": AngularCalibratedClassifier(sign_holdout=(HOLDOUT.X, HOLDOUT.y), pool=POOL),
    "covariance": AngularCalibratedClassifier(covariance=COVARIANCE),
    "path": AngularLogisticRegressionCV(Cs=2, pool=POOL),
    "folds": AngularLogisticRegressionCV(Cs=2, pool=POOL, average="folds"),
    "pipeline inside": AngularCalibratedClassifier(SCALED, pool=POOL),
    "pipeline": make_pipeline("passthrough", AngularCalibratedClassifier(pool=POOL)),
    "not fitted": AngularCalibratedClassifier(pool=POOL),
}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", WITH_DATA)
def test_rows_of_data_are_not_in_the_file(name, keep, tmp_path):
    model, fitted = clone(WITH_DATA[name]), name != "not fitted"
    if fitted:
        model.fit(X, Y)
    path = tmp_path / "m.skops"
    save(model, path, keep_observables=keep)
    with zipfile.ZipFile(path) as archive:
        content = b"".join(archive.read(member) for member in archive.namelist())
    # Rows of each array, and one number of them as text.
    for data in (POOL, HOLDOUT.X, COVARIANCE):
        assert all(row[:4].tobytes() not in content for row in data)
        assert repr(float(data[0, 0])).encode() not in content
    back = load(path)
    given = {key: value for key, value in back.get_params().items() if value is not None}
    assert not any(key.split("__")[-1] in ("pool", "sign_holdout", "covariance") for key in given)
    if fitted:
        np.testing.assert_array_equal(answers(back), answers(model))


def test_a_covariance_estimator_is_kept(tmp_path):
    model = AngularCalibratedClassifier(covariance=LedoitWolf(), pool=POOL).fit(X, Y)
    save(model, tmp_path / "m.skops")
    assert isinstance(load(tmp_path / "m.skops").covariance, LedoitWolf)


def test_data_that_no_file_could_hold_is_no_obstacle(tmp_path):
    model = AngularCalibratedClassifier(pool=lambda: iter([POOL])).fit(X, Y)
    save(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(answers(load(tmp_path / "m.skops")), answers(model))


def test_pickles_and_clones_are_whole():
    model = AngularCalibratedClassifier(pool=POOL).fit(X, Y)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.pool, POOL)
    np.testing.assert_array_equal(back.loo_proba_, model.loo_proba_)
    assert clone(model).pool is POOL


# -- tables ------------------------------------------------------------------------------------


def mixed_frame():
    frame = pd.DataFrame(X[:, :20], columns=[f"x{j}" for j in range(20)])
    frame["kind"] = np.array(["a", "b", None], dtype=object)[np.arange(150) % 3]
    frame["flag"] = np.arange(150) % 4 == 0
    frame.loc[3, "x0"] = np.nan
    return frame


@pytest.mark.parametrize("suffix", [".skops", ".angcal"])
def test_fitted_table(tmp_path, suffix):
    """A Pipeline with a ColumnTransformer of imputers, scalers, encoders and own transformers."""
    frame = mixed_frame()
    fitted = fit_table(frame, np.where(Y == 1, "yes", "no"), Cs=4)
    save(fitted.model, tmp_path / f"m{suffix}")
    back = load(tmp_path / f"m{suffix}")
    np.testing.assert_array_equal(back.predict_proba(frame), fitted.model.predict_proba(frame))
    new = frame.iloc[:5].assign(kind="never seen", x1=np.nan)
    np.testing.assert_array_equal(back.predict_proba(new), fitted.model.predict_proba(new))


def test_sparse_table(tmp_path):
    thin = sparse.csr_matrix(np.where(np.abs(X) > X.std(), X, 0.0))
    frame = pd.DataFrame.sparse.from_spmatrix(thin, columns=[f"f{j}" for j in range(40)])
    fitted = fit_table(frame, Y, Cs=4)
    save(fitted.model, tmp_path / "m.skops")
    back = load(tmp_path / "m.skops")
    np.testing.assert_array_equal(back.predict_proba(frame), fitted.model.predict_proba(frame))


def test_column_transformer_inside_the_calibrator(tmp_path):
    frame = mixed_frame().drop(columns="x0").assign(kind=["a", "b"] * 75)
    columns = make_column_transformer(
        (OneHotEncoder(), ["kind"]), (StandardScaler(), ["x1", "x2"]), remainder="passthrough"
    )
    base = make_pipeline(columns, LogisticRegression())
    model = AngularCalibratedClassifier(base).fit(frame, Y)
    save(model, tmp_path / "m.skops")
    back = load(tmp_path / "m.skops")
    np.testing.assert_array_equal(back.predict_proba(frame), model.predict_proba(frame))


# -- what is said about a model ----------------------------------------------------------------


def test_about(tmp_path):
    save(model_of("default"), tmp_path / "m.skops", about={"target": "y", "columns": ["ä", "b"]})
    told = about(tmp_path / "m.skops")
    assert told["target"] == "y"
    assert told["columns"] == ["ä", "b"]
    assert set(told["versions"]) == {"angcal", "scikit-learn"}


def test_about_must_be_json(tmp_path):
    with pytest.raises(PersistenceError, match="JSON"):
        save(model_of("default"), tmp_path / "m.skops", about={"model": object()})
    assert list(tmp_path.iterdir()) == []


# -- what is refused ---------------------------------------------------------------------------


def refused(path, *words, reader=load):
    with pytest.raises(PersistenceError) as caught:
        reader(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "m.skops"
    save(model_of("path"), path, about={"target": "y"})
    return path.read_bytes()


@pytest.fixture
def saved(original, tmp_path):
    (tmp_path / "m.skops").write_bytes(original)
    return tmp_path / "m.skops"


def with_version(package, version):
    return lambda told: {**told, "versions": {**told["versions"], package: version}}


def other(version, step):
    """The version with one of its three numbers raised."""
    numbers = [int(part) for part in version.split(".")[:3]]
    numbers[step] += 1
    return ".".join(map(str, numbers))


@pytest.mark.parametrize("package", ["angcal", "scikit-learn"])
@pytest.mark.parametrize("step", [0, 1, 2], ids=["major", "minor", "newer patch"])
def test_other_versions(saved, package, step):
    version = other(about(saved)["versions"][package], step)
    rewritten(saved, "angcal.json", with_version(package, version))
    refused(saved, f"{package} {version}", "fit the model again")
    assert about(saved)["versions"][package] == version  # one may still look


def test_older_patch_is_read(saved, monkeypatch):
    here = persistence._versions()
    newer = {name: other(version, 2) for name, version in here.items()}
    monkeypatch.setattr(persistence, "_versions", lambda: newer)
    np.testing.assert_array_equal(answers(load(saved)), answers(model_of("path")))


@pytest.mark.parametrize("version", ["", "?", "one.two", None])
def test_versions_that_are_none(saved, version):
    refused(rewritten(saved, "angcal.json", with_version("angcal", version)), "angcal")


@pytest.mark.parametrize("reader", [load, about])
def test_other_format(saved, reader):
    rewritten(saved, "angcal.json", lambda told: {**told, "format": FORMAT + 1})
    refused(saved, f"file format {FORMAT + 1}", "update angcal", reader=reader)


@pytest.mark.parametrize("reader", [load, about])
def test_older_format(saved, reader):
    """Its types may be gone, so the sentence comes before anything is looked at."""
    rewritten(saved, "schema.json", lambda schema: renamed(schema, "angcal.angle.Angle", "old.X"))
    rewritten(saved, "angcal.json", lambda told: {**told, "format": 1})
    refused(saved, "file format 1", "fit the model again with this version", reader=reader)


@pytest.mark.parametrize("told", [[], {}, {"format": "1"}, {"format": FORMAT}, "text"])
def test_angcal_part_that_is_none(saved, told):
    refused(rewritten(saved, "angcal.json", lambda _: told), "damaged")


@pytest.mark.parametrize("reader", [load, about])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9, 0.999])
def test_cut_off(saved, share, reader):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    refused(saved, "damaged or cut off", reader=reader)


def test_damaged_anywhere(saved):
    """A byte that is wrong is noticed, or lies where nothing depends on it."""
    whole, expected = saved.read_bytes(), answers(model_of("path"))
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        saved.write_bytes(damaged)
        try:
            found = answers(load(saved))
        except PersistenceError:
            continue
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("reader", [load, about])
@pytest.mark.parametrize(
    "content",
    [b"", b"a,b\n1,2\n", pickle.dumps({"a": 1}), b"PK", b"PK\x03\x04 and then nothing"],
    ids=["empty", "text", "pickle", "two letters", "half a header"],
)
def test_not_a_model_file(tmp_path, content, reader):
    path = tmp_path / "m.skops"
    path.write_bytes(content)
    refused(path, reader=reader)


def test_pickle_is_never_opened(tmp_path):
    """A pickle that would leave a mark leaves none."""

    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "mark"), "w")

    (tmp_path / "m.skops").write_bytes(pickle.dumps(Bomb()))
    refused(tmp_path / "m.skops", "not a model file")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("reader", [load, about])
def test_missing_and_folder(tmp_path, reader):
    refused(tmp_path / "none.skops", "does not exist", reader=reader)
    refused(tmp_path, "is a folder", reader=reader)


def test_a_zip_archive_of_something_else(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones(3))
    refused(tmp_path / "t.npz", "not written by angcal.persistence.save")


def test_plain_skops_file(tmp_path):
    skops_io.dump(model_of("default"), tmp_path / "m.skops")
    refused(tmp_path / "m.skops", "not written by angcal.persistence.save")


def renamed(schema, old, new):
    """The schema with one type called by another name, wherever it stands."""
    if isinstance(schema, list):
        return [renamed(entry, old, new) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: renamed(value, old, new) for key, value in schema.items()}
    if f"{changed.get('__module__')}.{changed.get('__class__')}" == old:
        changed["__module__"], changed["__class__"] = new.rsplit(".", 1)
    return changed


@pytest.mark.parametrize(
    "foreign",
    ["subprocess.Popen", "os.system", "builtins.eval", "angcal.links.families.CallableLink"],
)
def test_types_that_are_not_trusted(saved, foreign):
    rewritten(saved, "schema.json", lambda schema: renamed(schema, "angcal.angle.Angle", foreign))
    refused(saved, foreign, "does not trust")
    assert inspect(saved)["foreign"] == [foreign]  # one may still look


def test_modules_of_others_are_not_imported(saved, tmp_path, monkeypatch):
    (tmp_path / "angcal_evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    rewritten(
        saved,
        "schema.json",
        lambda schema: renamed(schema, "angcal.angle.Angle", "angcal_evil.Angle"),
    )
    refused(saved, "angcal_evil.Angle")
    assert "angcal_evil" not in sys.modules


@pytest.mark.parametrize(
    "model",
    [
        AngularCalibratedClassifier(link=CallableLink(lambda t: 1 / (1 + np.exp(-t)))),
        make_pipeline(FunctionTransformer(np.linalg.det), LogisticRegression()),
        io.StringIO("no model at all"),
    ],
    ids=["own link", "function", "file"],
)
def test_what_could_not_be_loaded_is_not_saved(tmp_path, model):
    with pytest.raises(PersistenceError, match="cannot be saved"):
        save(model, tmp_path / "m.skops")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("protocol", [0, 1, 99, None])
def test_other_protocols_of_skops(saved, protocol):
    """An older one would be read by older rules, whoever claims it."""
    rewritten(saved, "schema.json", lambda schema: {**schema, "protocol": protocol})
    refused(saved, "another version of skops")


@pytest.mark.parametrize("schema", [[], "text", None, {}])
def test_schema_that_is_none(saved, schema):
    refused(rewritten(saved, "schema.json", lambda _: schema))


def test_every_trusted_type_exists():
    for name in TRUSTED:
        if name.startswith("angcal."):
            module, _, kind = name.rpartition(".")
            assert isinstance(getattr(import_module(module), kind), type)


def subclasses(parent):
    for child in parent.__subclasses__():
        yield child
        yield from subclasses(child)


@pytest.mark.parametrize("parent", [Link, Loss, Penalty])
def test_every_link_loss_and_penalty_is_trusted(parent):
    for kind in subclasses(parent):
        public = not kind.__name__.startswith("_") and kind.__module__.startswith("angcal.")
        if public and not kind.__abstractmethods__ and kind is not CallableLink:
            assert f"{kind.__module__}.{kind.__name__}" in TRUSTED


@pytest.mark.parametrize("kind", [*CALIBRATORS.values(), *SEVERAL_CALIBRATORS.values()])
def test_every_calibrator_is_trusted(kind):
    made = type(kind())
    assert f"{made.__module__}.{made.__name__}" in TRUSTED


def test_missing_package_is_named(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(ImportError, match=r"pip install 'angcal\[cli\]'"):
        load(saved)


# -- writing -----------------------------------------------------------------------------------


def test_an_older_file_stays_when_writing_fails(saved, monkeypatch):
    before = saved.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device", str(saved))

    monkeypatch.setattr("angcal.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(model_of("default"), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


# -- other processes ---------------------------------------------------------------------------

ELSEWHERE = """
import pickle, sys
import numpy as np
from angcal.persistence import load
folder = sys.argv[1]
rows = np.load(f"{folder}/rows.npy")
with open(f"{folder}/m.pickle", "rb") as file:
    models = [load(f"{folder}/m.skops"), pickle.load(file)]
np.save(f"{folder}/p.npy", [model.predict_proba(rows) for model in models])
"""


def test_the_same_probabilities_in_another_process(tmp_path):
    """From skops and from pickle; not bit by bit, as a product may be added up in another order."""
    model = model_of("path")
    save(model, tmp_path / "m.skops")
    (tmp_path / "m.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "rows.npy", NEW)
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(tmp_path)], check=True)
    for found in np.load(tmp_path / "p.npy"):
        np.testing.assert_allclose(found, model.predict_proba(NEW), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_pickles_are_exact(name):
    back = pickle.loads(pickle.dumps(model_of(name)))
    np.testing.assert_array_equal(answers(back), answers(model_of(name)))


def test_names_of_files_may_be_text(tmp_path):
    model = MEstimator().fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    save(model, str(tmp_path / "model.skops"))
    np.testing.assert_array_equal(load(str(tmp_path / "model.skops")).coef_, model.coef_)
