"""The hostile generator, small: `make hostile` is the long run."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from functools import partial

import hypothesis
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from angcal import AngleWarning, AngularCalibratedClassifier, AngularLogisticRegressionCV
from studies.hostile.cases import CHOICES, Case, cases, draw
from studies.hostile.files import MEMORY, in_child
from studies.hostile.judge import Outcome, _refusal, judge


@hypothesis.settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
)
@hypothesis.given(cases())
def test_no_case_fails(case):
    outcome = judge(case)
    assert not outcome.failed, outcome


# Found by the long run, shrunk, and mended since.
FOUND = (
    Case(n=7, d=2, n_classes=4, design="jittered copies", base="bare", seed=18110),
    Case(n=40, n_classes=6, design="jittered copies", model="penalties", seed=1799),
    Case(n=60, d=20, n_classes=4, design="heavy", model="folds", signal=5.0, seed=1300465362),
    Case(n=60, d=20, n_classes=4, model="folds", signal=20.0, seed=16923),
    Case(n=50, d=40, design="lowrank", model="path", signal=0.5, seed=1936963994),
    Case(
        n=50,
        d=20,
        n_classes=4,
        design="heavy",
        model="path",
        signal=0.0,
        rare=True,
        seed=1927543818,
    ),
    Case(
        n=50,
        d=2,
        n_classes=4,
        design="binary",
        model="path",
        signal=0.5,
        rare=True,
        seed=1773764761,
    ),
    Case(n=100, d=3, n_classes=4, design="elliptical", model="path", signal=20.0, seed=1237121828),
    Case(n=200, d=150, design="huge"),
    Case(n=60, d=80, n_classes=4, design="huge", container="fortran"),
    Case(n=12, d=20, design="constant rows", base="weak", weights="large", seed=2),
    Case(n=40, d=1, model="path", weights="one huge", rare=True, signal=0.0, seed=7388),
    Case(d=1, design="binary", model="folds", rare=True, weights="one huge"),
    Case(n=20, d=150, design="huge", model="path", rare=True, weights="one huge"),
    Case(n=12, d=40, model="penalties", pool="shifted", signal=0.0, seed=475181360),
    Case(design="heavy", pool="same", signal=0.5, seed=65384),
    Case(
        n=150,
        d=2,
        n_classes=6,
        design="jittered copies",
        model="penalties",
        signal=20.0,
        rare=True,
        seed=19,
    ),
    Case(
        n=150,
        d=3,
        n_classes=6,
        design="jittered copies",
        model="folds",
        signal=20.0,
        rare=True,
        seed=2489,
    ),
    Case(
        n=150, d=3, n_classes=6, design="jittered copies", model="penalties", signal=20.0, seed=636
    ),
    Case(n=20, d=1, design="copies", signal=0.0, rare=True, seed=14329672),
    Case(n=150, d=150, design="huge", base="hinge"),
    Case(
        n=100,
        d=150,
        n_classes=4,
        design="nearly lowrank",
        model="penalties",
        signal=0.0,
        seed=100000,
    ),
    Case(n=30, d=20, design="counts", signal=0.0, seed=152996),
    Case(n=20, d=150, n_classes=3, design="jittered copies", model="path", seed=1323),
    Case(d=5, n_classes=4, design="huge", container="float32", seed=12092),
    Case(
        n=20,
        d=5,
        n_classes=3,
        design="jittered copies",
        model="folds",
        rare=True,
        signal=20.0,
        seed=2658,
    ),
    Case(n=60, d=2, n_classes=3, model="path", signal=20.0, seed=1032755),
    Case(n=200, d=1, design="elliptical", model="path", rare=True, signal=20.0, seed=1185),
    Case(n=20, d=3, n_classes=3, design="jittered copies", model="penalties", seed=630583),
    Case(d=1, design="elliptical", model="path", n=200, rare=True, seed=1185, signal=20.0),
    Case(d=3, design="lowrank", model="path", n=40, n_classes=3, seed=172),
    Case(d=2, model="penalties", n=20, n_classes=3, rare=True, seed=13409600, signal=5.0),
    Case(d=20, design="elliptical", model="path", n=200, rare=True, seed=398955098, signal=20.0),
    Case(d=80, design="separable", model="path", n=40, n_classes=4, rare=True, seed=6509210),
    Case(d=150, design="lowrank", model="path", n=30, n_classes=3, seed=44049675, signal=20.0),
    Case(base="liblinear", d=40, n=30, rare=True, seed=78098, signal=0.0),
    Case(d=3, design="jittered copies", model="penalties", n=20, n_classes=3, seed=630583),
    Case(d=40, link="true", model="folds", n=20, rare=True, seed=545),
    Case(d=20, model="penalties", n=40, seed=4294967295, signal=20.0),
    Case(d=40, model="path", n=40, seed=5077, signal=0.5),
    Case(d=20, model="folds", n=40, seed=1812032, signal=20.0),
    Case(
        d=40,
        design="counts",
        model="path",
        n=7,
        n_classes=6,
        seed=296,
        signal=20.0,
        weights="one huge",
    ),
    Case(model="path", n=7, n_classes=3, rare=True, seed=444944, weights="one huge"),
    Case(covariance="estimator", model="path", pool="few", seed=11826, signal=5.0),
    Case(d=20, design="separable", model="path", n=30, n_classes=3, seed=1186401),
    Case(
        design="constant rows",
        model="penalties",
        n=12,
        n_classes=4,
        rare=True,
        seed=8306,
        weights="one huge",
    ),
    Case(d=20, design="one column of copies", n=20, rare=True, seed=578),
    Case(d=10, model="penalties", n_classes=3, seed=47967, signal=20.0),
    Case(d=80, model="folds", n=20, n_classes=3, seed=3748453, signal=0.0),
    Case(
        base="liblinear",
        covariance="skew",
        d=1,
        design="tiny",
        n=30,
        rare=True,
        signal=0.0,
        seed=2841157,
    ),
    Case(covariance="identity", d=150, design="tiny", model="penalties", n=150, signal=0.0),
)


@pytest.mark.parametrize("case", FOUND, ids=lambda case: f"{case.design}-{case.weights}")
def test_what_was_found_stays_mended(case):
    outcome = judge(case)
    assert not outcome.failed, outcome


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_can_be_drawn(name):
    for choice in CHOICES[name]:
        data = draw(Case(**{name: choice}))
        assert data.truth.shape == (len(data.fresh), 2)
        np.testing.assert_allclose(data.truth.sum(axis=1), 1.0)


def test_a_case_is_a_function_of_its_names():
    case = Case(design="jittered copies", pool="same", weights="random")
    first, second = draw(case), draw(case)
    for field in ("X", "y", "weights", "pool", "fresh"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))


def test_what_is_no_clear_error():
    assert _refusal(np.linalg.LinAlgError("Singular matrix")).failed
    assert _refusal(ValueError("")).failed
    assert _refusal(TypeError("'<' not supported between instances")).failed
    assert not _refusal(ValueError("pool has 3 columns, but X has 5.")).failed
    assert Outcome("harm").failed
    assert not Outcome("warned").failed


def _read(path):
    return {"valid": len(path.read_bytes())}


def _write(path):
    path.with_suffix(".new").write_text("written")
    return {}


def _run(path):
    os.system("true")
    return {}


def _crash(path):
    os.kill(os.getpid(), signal.SIGKILL)


def _swell(path):
    return {"valid": len(bytes(2 * MEMORY))}


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory")
@pytest.mark.parametrize(
    ("work", "own", "outcome"),
    [
        (_read, True, "valid"),
        (_read, False, "reached"),
        (_write, True, "reached"),
        (_run, True, "reached"),
        (_crash, True, "death"),
        (_swell, True, "error"),
    ],
)
def test_what_a_forged_file_does_is_seen(work, own, outcome, tmp_path):
    """Each is tried in a child process; ``own`` is the file that it was given to open."""
    path, other = tmp_path / "m.skops", tmp_path / "other"
    path.write_bytes(b"a file")
    other.write_bytes(b"another")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads
        found = in_child(partial(work, path if own else other), watch=path)
    assert outcome in found, found
    assert not path.with_suffix(".new").exists() or path.with_suffix(".new").stat().st_size == 0


@pytest.mark.parametrize("seed", [7, 11, 12, 34, 39])
def test_a_huge_weight_among_several_classes(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(26, 1)), rng.integers(0, 3, 26)
    weights = np.where(np.arange(26) == 0, 1e12, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        model = AngularCalibratedClassifier(LogisticRegression(max_iter=300))
        p = model.fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("value", [1.0, 0.1, 1e6 + 0.1])
def test_rows_that_are_all_alike_have_the_prevalence_whatever_their_weights(value, n_classes):
    """What weighted means leave of constant columns is rounding, and no signal."""
    for seed in range(29, 40):
        rng = np.random.default_rng(seed)
        weights, y = rng.uniform(0.5, 2.0, 40), np.arange(40) % n_classes
        X = np.full((40, 20), value)
        with pytest.warns(AngleWarning, match="No angle"):
            model = AngularLogisticRegressionCV(Cs=4).fit(X, y, sample_weight=weights)
        shares = np.bincount(y, weights) / weights.sum()
        np.testing.assert_allclose(model.predict_proba(X[:1])[0], shares, atol=0.02)
