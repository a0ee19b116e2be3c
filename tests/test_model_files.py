"""Model files of strangers: refused in a sentence or harmless, and damaged ones never different."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import StackingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.cli import main
from angcal.model_files import container
from angcal.persistence import PersistenceError, inspect, load, save
from angcal.simulation import simulate

sys.path.insert(0, str(Path(__file__).parent))
from studies.hostile.forging import forged, members, npy, rewritten, seal, zipped

skops_io = pytest.importorskip("skops.io")

DATA = simulate(80, 8, link="logit", random_state=0)
# The first two levels tell the class, but for every fifth row.
LEVELS = np.array(["a", "b", "c"], dtype=object)[
    np.where(np.arange(80) % 5, DATA.y.astype(int), 2)
][:, None]
SUFFIXES = (".skops", ".angcal")
KEY = b"a secret of more than sixteen bytes"


@cache
def model_of(name):
    X, y = DATA.X, DATA.y.astype(int)
    three = y + (X[:, 0] > 0)
    if name == "classes":
        return AngularCalibratedClassifier().fit(X, three)
    if name == "path":
        return AngularLogisticRegressionCV(Cs=3, average="penalties").fit(X, y)
    if name == "levels":
        encoder = make_column_transformer((OneHotEncoder(min_frequency=2), [0]))
        return make_pipeline(encoder, AngularCalibratedClassifier()).fit(LEVELS, y)
    return make_pipeline(StandardScaler(), AngularCalibratedClassifier()).fit(X, y)


NAMES = ("default", "classes", "path", "levels")


def rows_for(name):
    return LEVELS if name == "levels" else DATA.X


@cache
def saved_bytes(name, suffix):
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"m{suffix}"
        save(model_of(name), path)
        return path.read_bytes()


@pytest.fixture
def saved(tmp_path, request):
    name, suffix = getattr(request, "param", ("default", ".skops"))
    path = tmp_path / f"m{suffix}"
    path.write_bytes(saved_bytes(name, suffix))
    return path


def refused(path, *words, **options):
    with pytest.raises(PersistenceError) as caught:
        load(path, **options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


both = pytest.mark.parametrize("saved", [("default", s) for s in SUFFIXES], indirect=True)


# -- damage ------------------------------------------------------------------------------------


def flipped(whole, rng):
    """One bit, or everything from some place on, is not as it was."""
    place = int(rng.integers(len(whole)))
    if rng.random() < 0.1:
        return whole[:place]
    damaged = bytearray(whole)
    damaged[place] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_flipped_bits_are_refused_or_change_nothing(suffix, tmp_path):
    """The variable ANGCAL_FLIPS asks for more; make flips runs 10,000 of each kind."""
    whole, expected = saved_bytes("default", suffix), model_of("default").predict_proba(DATA.X)
    path, rng, outcomes = tmp_path / f"m{suffix}", np.random.default_rng(0), {"refused": 0}
    for _ in range(int(os.environ.get("ANGCAL_FLIPS", "200"))):
        path.write_bytes(flipped(whole, rng))
        try:
            found = load(path).predict_proba(DATA.X)
        except PersistenceError:
            outcomes["refused"] += 1
            continue
        np.testing.assert_array_equal(found, expected)
        outcomes["same"] = outcomes.get("same", 0) + 1
    print(suffix, outcomes)
    assert outcomes["refused"] > 0.8 * sum(outcomes.values())


# -- checksum and signature --------------------------------------------------------------------


@both
def test_the_checksum_is_that_of_the_content(saved):
    parts = members(saved)
    told = json.loads(parts["angcal.json"])
    assert inspect(saved)["sha256"] == hashlib.sha256(parts["angcal.json"]).hexdigest()
    assert set(told["parts"]) == set(parts) - {"angcal.json", "seal.json"}


@both
@pytest.mark.parametrize("place", ["angcal.json", "array", "tree"])
def test_what_was_changed_without_a_new_checksum(saved, place):
    parts = members(saved)
    name = {
        "array": next(n for n in parts if n.endswith(".npy")),
        "tree": next(n for n in parts if n in ("schema.json", "model.json")),
    }.get(place, place)
    parts[name] = parts[name].replace(b"1", b"2") + b" "
    saved.write_bytes(zipped(parts))
    refused(saved, "checksum")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_signature_is_verified(suffix, tmp_path):
    path, key, other = tmp_path / f"m{suffix}", tmp_path / "key", tmp_path / "other"
    key.write_bytes(KEY)
    other.write_bytes(KEY[::-1])
    save(model_of("default"), path, key=key)
    load(path, key=key)
    assert inspect(path)["signature"] == "not verified"
    assert inspect(path, key=key)["signature"] == "verified"
    refused(path, "not signed with the key", key=other)
    stolen = members(path)
    rewritten(path, "angcal.json", lambda told: {**told, "about": {"by": "me"}})
    refused(path, "is not signed", key=key)
    forged_parts = {**members(path), "seal.json": members(path)["seal.json"]}
    seal_of = json.loads(forged_parts["seal.json"])
    seal_of["hmac"] = json.loads(stolen["seal.json"])["hmac"]
    path.write_bytes(zipped({**forged_parts, "seal.json": json.dumps(seal_of).encode()}))
    refused(path, "not signed with the key", key=key)


def test_a_key_that_is_none(tmp_path, saved):
    short = tmp_path / "short"
    short.write_bytes(b"1234")
    with pytest.raises(PersistenceError, match="at least 16"):
        save(model_of("default"), tmp_path / "m.angcal", key=short)
    with pytest.raises(PersistenceError, match="cannot be read"):
        save(model_of("default"), tmp_path / "m.angcal", key=tmp_path / "none")
    assert not (tmp_path / "m.angcal").exists()


def test_equal_models_give_equal_plain_files(tmp_path):
    for name in ("a.angcal", "b.npz"):
        save(model_of("path"), tmp_path / name)
    assert (tmp_path / "a.angcal").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_plain_file_needs_no_skops(tmp_path):
    path = tmp_path / "m.angcal"
    path.write_bytes(saved_bytes("classes", ".angcal"))
    code = "import sys, pickle; sys.modules['skops'] = None; from angcal.persistence import load\n"
    code += "pickle.loads = pickle.load = pickle.Unpickler = None\n"
    code += f"print(type(load({str(path)!r})).__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "AngularCalibratedClassifier"


def test_arrays_of_a_plain_file_can_be_read_by_numpy(tmp_path):
    path = tmp_path / "m.npz"
    save(model_of("path"), path)
    weights = model_of("path").coef_
    with np.load(path, allow_pickle=False) as arrays:
        found = [arrays[name] for name in arrays.files if name.isdigit()]
    assert any(array.shape == weights.shape and (array == weights).all() for array in found)


# -- files made to harm ------------------------------------------------------------------------


def skops_file(path, model):
    """A file with everything right but the model."""
    with zipfile.ZipFile(io.BytesIO(skops_io.dumps(model))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["angcal.json"] = members(path)["angcal.json"]
    path.write_bytes(zipped(seal(parts)))
    return path


def file_reader():
    """A public classifier that opens the file which it is told to."""
    dummy = make_pipeline(DummyClassifier(strategy="constant", constant="/etc/hostname"))
    reader = make_pipeline(CountVectorizer(input="filename"), LogisticRegression())
    return StackingClassifier([("path", dummy)], reader)


FOREIGN = {
    "file reader": file_reader(),
    "file reader inside": make_pipeline(file_reader(), AngularCalibratedClassifier()),
    "vectorizer": make_pipeline(CountVectorizer(input="filename"), AngularCalibratedClassifier()),
    "a number": 3,
    "a list": [AngularCalibratedClassifier()],
    "scikit-learn's own": LogisticRegression(),
    "a pipeline without calibration": make_pipeline(StandardScaler(), LogisticRegression()),
    "a function": make_pipeline(FunctionTransformer(np.linalg.det), AngularCalibratedClassifier()),
    "a folder to write to": make_pipeline(AngularCalibratedClassifier(), memory="/tmp/there"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_models_of_others_are_refused(name, saved, tmp_path):
    refused(skops_file(saved, FOREIGN[name]))
    for suffix in SUFFIXES:
        with pytest.raises(PersistenceError, match="cannot be saved"):
            save(FOREIGN[name], tmp_path / f"other{suffix}")


def replaced(tree, name, change):
    """The plain tree with one attribute changed, wherever it stands."""
    if isinstance(tree, list):
        return [replaced(part, name, change) for part in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: change(part) if key == name else replaced(part, name, change)
        for key, part in tree.items()
    }


ATTRIBUTES = {
    "weights that are a text": ("coef_", "no"),
    "sparse weights out of range": (
        "coef_",
        {"sparse": "csr_matrix", "parts": [[1.0], [2**30], [0, 1]], "shape": [1, 8]},
    ),
    "no curve": ("curve_", None),
    "one class": ("classes_", [1]),
    "equal classes": ("classes_", [1, 1]),
    "too many classes": ("classes_", [1, 2, 3]),
    "too many columns": ("n_features_in_", 10**12),
    "infinite intercept": ("intercept_", {"float": "inf"}),
    "nested without end": ("intercept_", [[[[[[[[[[[[]]]]]]]]]]]]),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_that_no_fit_gives(name, tmp_path):
    attribute, value = ATTRIBUTES[name]
    path = tmp_path / "m.angcal"
    path.write_bytes(saved_bytes("path", ".angcal"))
    rewritten(path, "model.json", lambda tree: replaced(tree, attribute, lambda _: value))
    if name == "no curve":
        assert load(path)  # the average needs none
        return
    refused(path, "trusts")


@pytest.mark.parametrize("saved", [("path", s) for s in SUFFIXES], indirect=True)
@pytest.mark.parametrize("change", ["nan", "shape", "longer", "object", "claim", "cut"])
def test_arrays_that_no_fit_gives(change, saved):
    weights, parts = model_of("path").coef_, members(saved)
    name = next(n for n in parts if n.endswith(".npy") and parts[n] == npy(weights))
    claim = parts[name].replace(b"(1, 8)", b"(9999999, 9999)").replace(b" " * 12 + b"\n", b"\n")
    parts[name] = {
        "nan": npy(weights * np.nan),
        "shape": npy(weights[:, :-1]),
        "longer": npy(np.vstack([weights] * 3)),
        "object": npy(weights.astype(object)),  # a pickle inside
        "claim": claim,
        "cut": parts[name][:-5],
    }[change]
    saved.write_bytes(zipped(seal(parts)))
    refused(saved)


def test_an_encoder_that_numbers_columns_out_of_range(tmp_path):
    """It would make a sparse matrix that ends the process when it is multiplied."""
    path = tmp_path / "m.angcal"
    path.write_bytes(saved_bytes("levels", ".angcal"))
    rewritten(path, "model.json", lambda tree: replaced(tree, "_n_features_outs", lambda _: [1]))
    refused(path, "OneHotEncoder")


@pytest.mark.parametrize(
    "name", ["../../evil.npy", "/etc/evil.npy", "a\\b.npy", "evil.py", "a.npy/"]
)
@both
def test_names_that_are_paths(saved, name):
    parts = {**members(saved), name: b"evil"}
    saved.write_bytes(zipped(seal(parts)))
    refused(saved)
    assert list(saved.parent.iterdir()) == [saved]


@both
def test_parts_that_nobody_named(saved):
    saved.write_bytes(zipped({**members(saved), "more.npy": npy(np.ones(3))}))
    refused(saved, "checksum")


def test_two_parts_of_one_name(saved):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("schema.json", "{}")
    refused(saved)


def test_pickles_inside_are_not_opened(saved, tmp_path):
    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "mark"), "w")

    parts = members(saved)
    name = next(n for n in parts if n.endswith(".npy"))
    for content in (pickle.dumps(Bomb()), npy(np.array([Bomb()], dtype=object))):
        saved.write_bytes(zipped(seal({**parts, name: content})))
        refused(saved)
    assert not (tmp_path / "mark").exists()


def test_a_pipe_and_a_device_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.skops")
    refused(tmp_path / "pipe.skops", "is no file")
    with pytest.raises(PersistenceError, match="is no file"):
        load("/dev/zero")


# -- limits ------------------------------------------------------------------------------------

CHILD = """
import resource, sys
from angcal.persistence import PersistenceError, load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        load(path)
    except PersistenceError as error:
        print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def lying(data, size, claim):
    """An archive in which a part claims to be smaller than it is."""
    return data.replace(size.to_bytes(4, "little"), claim.to_bytes(4, "little"))


def test_bombs_take_no_memory(saved, tmp_path):
    """Small files that unpack to much: refused within 100 MiB."""
    parts, size = members(saved), 250 * 2**20
    large = zipped({**parts, "0.npy": bytes(size)})
    bombs = {
        "array": large,
        "lying": lying(large, size, 1000),
        "json": zipped({**parts, "angcal.json": b"[" * 40 * 2**20}),
        "many": zipped(parts | {f"{j}.npy": b"" for j in range(container.MOST_PARTS)}),
        "nested": zipped({**parts, "angcal.json": b"[" * 200_000}),
    }
    del large
    paths = []
    for name, data in bombs.items():
        assert len(data) < 3 * 2**20
        paths.append(tmp_path / f"{name}.skops")
        paths[-1].write_bytes(data)
    found = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, paths)], capture_output=True, text=True, check=True
    )
    *messages, used = found.stdout.strip().splitlines()
    assert all(str(path) in text for path, text in zip(paths, messages, strict=True))
    assert int(used) < 100


def test_a_model_that_is_too_large_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "LARGEST_FILE", 10_000)
    with pytest.raises(PersistenceError, match="MiB are allowed"):
        save(model_of("path"), tmp_path / "m.angcal")
    assert list(tmp_path.iterdir()) == []


# -- random forgeries --------------------------------------------------------------------------

ATTACK = """
import sys
sys.path.insert(0, sys.argv[1])
import test_model_files
test_model_files.attack_many(*sys.argv[2:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_forged_files_are_refused_or_valid(suffix, tmp_path):
    """In a child process with limits: whatever a file says, no crash and no odd probabilities."""
    count = os.environ.get("ANGCAL_FORGERIES", "60")
    arguments = [str(Path(__file__).parent), str(tmp_path), suffix, count]
    found = subprocess.run(
        [sys.executable, "-c", ATTACK, *arguments], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-200:] + found.stderr[-2000:]
    print(suffix, found.stdout.splitlines()[-1])


def attack_many(folder, suffix, count):
    import resource

    import skops.io  # noqa: F401 (it loads all of scikit-learn, and PyTorch where that is)

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 4 * 2**30,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    outcomes = []
    for seed in range(int(count)):
        print("seed", seed, flush=True)
        outcomes.append(attack(seed, Path(folder) / f"m{suffix}", suffix))
    print({outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))})


def attack(seed, path, suffix):
    name = NAMES[seed % len(NAMES)]
    path.write_bytes(saved_bytes(name, suffix))
    path.write_bytes(forged(members(path), np.random.default_rng([seed, 1])))
    try:
        model = load(path)
    except PersistenceError:
        return "refused"
    try:
        p = model.predict_proba(rows_for(name))
    except ValueError as error:
        # A model for other columns or levels than these rows have is a model all the same.
        return f"other rows: {str(error)[:60]}"
    assert np.all((p >= 0) & (p <= 1 + 1e-12))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    return "valid"


# -- the command line --------------------------------------------------------------------------


@both
def test_inspect_on_the_command_line(saved, capsys):
    assert main(["inspect", str(saved)]) == 0
    shown = capsys.readouterr().out
    assert inspect(saved)["sha256"] in shown
    assert "AngularCalibratedClassifier" in shown
    assert main(["inspect", str(saved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signature"] == "none"


def test_inspect_names_what_is_not_trusted(saved, capsys):
    skops_file(saved, file_reader())
    assert main(["inspect", str(saved)]) == 0
    assert "StackingClassifier" in capsys.readouterr().out.split("NOT TRUSTED")[1]


def test_inspect_imports_nothing(saved, tmp_path, monkeypatch, capsys):
    (tmp_path / "angcal_evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)

    def evil(schema):
        return {**schema, "__module__": "angcal_evil", "__class__": "Evil"}

    rewritten(saved, "schema.json", evil)
    assert main(["inspect", str(saved)]) == 0
    assert "angcal_evil.Evil" in capsys.readouterr().out
    refused(saved, "angcal_evil.Evil")
    assert "angcal_evil" not in sys.modules
