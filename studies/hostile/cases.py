"""Hostile fits as Hypothesis draws them: a case is a handful of names and a seed.

Rows follow x = design(seed), labels a logistic or softmax model whose probabilities are known, so
that a fit can be judged on fresh rows of the same law. A case is *fair* where nothing it says about
the data is a lie (a wrong covariance, a shifted pool, one huge weight): only fair cases are held to
be no worse than plain.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import softmax
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    ScoreCalibratedClassifier,
)
from angcal._typing import Floats

CALIBRATORS = ("platt", "temperature", "beta")
CHOICES: dict[str, tuple[str, ...]] = {
    "model": ("angular", "path", "penalties", "folds", *CALIBRATORS),
    "base": ("default", "strong", "weak", "liblinear", "ovr", "ridge", "hinge", "bare", "none"),
    "design": (
        *("gaussian", "lowrank", "nearly lowrank", "binary", "counts", "heavy", "elliptical"),
        *("copies", "jittered copies", "constant column", "constant rows", "one column of copies"),
        *("shifted", "tiny", "huge", "mixed scales", "separable"),
    ),
    "container": (
        *("array", "fortran", "float32", "list", "frame", "csr", "csc", "csr_array", "object"),
        *("read-only", "strided", "int8", "float16", "coo", "with nan", "with inf", "text", "1d"),
    ),
    "labels": (
        *("int", "bool", "text", "None", "NA", "float", "big", "negative", "uint8", "bytes"),
        *("object", "fraction", "with None", "column", "one class"),
    ),
    "weights": ("none", "ones", "random", "zeros", "tiny", "large", "one huge", "negative", "nan"),
    "pool": (
        *("none", "same", "few", "one row", "constant", "nearly constant", "shifted", "wrong"),
        *("nan", "csr", "blocks"),
    ),
    "covariance": ("none", "true", "identity", "singular", "skew", "negative", "nan", "estimator"),
    "link": ("none", "true", "probit", "cloglog", "clipped-linear", "odd"),
    "angle": ("auto", "observable", "loo", "half", "one", "beyond", "odd"),
}
FAIR = {
    "container": {"array", "fortran", "list", "frame", "csr", "csc", "csr_array", "read-only"}
    | {"object", "strided", "coo"},
    "labels": set(CHOICES["labels"]) - {"fraction", "with None", "one class"},
    "weights": {"none", "ones", "random"},
    "pool": {"none", "same", "csr", "blocks"},
    "covariance": {"none", "true", "estimator"},
    "link": {"none", "true"},
    "angle": {"auto", "observable", "loo"},
}
FRESH = 2000


@dataclass(frozen=True)
class Case:
    """Names of CHOICES, sizes and a seed; see :func:`cases`."""

    model: str = "angular"
    base: str = "default"
    design: str = "gaussian"
    container: str = "array"
    labels: str = "int"
    weights: str = "none"
    pool: str = "none"
    covariance: str = "none"
    link: str = "none"
    angle: str = "auto"
    n: int = 60
    d: int = 5
    n_classes: int = 2
    signal: float = 2.0
    rare: bool = False
    seed: int = 0

    @property
    def fair(self) -> bool:
        """Whether nothing that it says about the data is a lie."""
        return all(getattr(self, name) in names for name, names in FAIR.items())

    @property
    def logistic(self) -> bool:
        """Whether the scores of the linear model are log-odds by themselves."""
        own = self.model in ("path", "penalties", "folds")
        return own or self.base not in ("ridge", "hinge", "ovr")

    def as_dict(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)


def _mostly_mild(name: str) -> st.SearchStrategy[str]:
    """The first choice, to which failures shrink, five times as often as all others together."""
    first, *others = CHOICES[name]
    return st.sampled_from([first] * (5 * len(others)) + others)


def cases() -> st.SearchStrategy[Case]:
    """Cases of all kinds; they shrink to a plain fit of two classes."""
    always = ("model", "base", "design")
    named = {name: st.sampled_from(CHOICES[name]) for name in always}
    named |= {name: _mostly_mild(name) for name in CHOICES if name not in always}
    return st.builds(
        Case,
        **named,
        n=st.sampled_from([60, 100, 200, 150, 40, 30, 20, 12, 7, 4, 2, 1]),
        d=st.sampled_from([5, 1, 2, 3, 10, 20, 40, 80, 150]),
        n_classes=st.sampled_from([2, 2, 2, 3, 4, 6]),
        signal=st.sampled_from([2.0, 0.0, 0.5, 5.0, 20.0]),
        rare=st.booleans(),
        seed=st.integers(0, 2**32 - 1),
    )


# -- rows and labels ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Data:
    """Training rows, labels, and fresh rows with their true probabilities (m, K)."""

    X: Any
    y: Any
    names: Any
    weights: Any
    pool: Any
    covariance: Any
    fresh: Any
    truth: Floats
    link: Logit


def draw(case: Case) -> Data:
    """The data of a case; the same for the same case."""
    rng = np.random.default_rng([case.seed, 20])
    n, d, K = case.n, case.d, case.n_classes
    rows = _rows(case, n + FRESH, rng)
    unit = rows - rows.mean(axis=0)
    spread = unit.std(axis=0)
    unit = unit / np.where(spread > 0, spread, 1.0)
    directions = rng.normal(size=(d, K))
    scores = case.signal * unit @ directions / np.sqrt(d)
    offsets = np.zeros(K)
    offsets[0] = 2.0 if case.rare else 0.0
    if case.design == "separable":
        scores = scores * 50.0
    truth = softmax(scores + offsets, axis=1)
    index = scores[:, 1] - scores[:, 0]
    link = Logit(max(float(index.std()), 1e-3), float(index.mean()) - float(offsets[0]))
    codes = (truth.cumsum(axis=1) < rng.random((len(rows), 1))).sum(axis=1).clip(max=K - 1)
    X, codes = _with_copies(case, rows[:n], codes[:n], rng)
    names = _names(case, K)
    if K == 2 and sorted(names.tolist())[0] != names[0]:
        link = Logit(link.scale, -link.offset)  # that of the name that comes last
    y = names[np.zeros(n, dtype=int) if case.labels == "one class" else codes]
    if case.labels == "with None" and n > 1:
        y = y.astype(object)
        y[0] = None
    if case.labels == "column":
        y = y[:, None]
    return Data(
        *(_contained(case, X), y, names, _weights(case, codes, rng), _pool(case, rows, rng)),
        *(_covariance(case, rows), rows[n:], truth[n:], link),
    )


def _rows(case: Case, m: int, rng: np.random.Generator) -> Floats:
    d = case.d
    rows = rng.normal(size=(m, d))
    rank = max(d // 4, 1)
    if "lowrank" in case.design:
        noise = 1e-4 * rows if case.design.startswith("nearly") else 0.0
        rows = rows[:, :rank] @ rng.normal(size=(rank, d)) + noise
    if case.design == "heavy":
        rows = rng.standard_t(2.1, size=(m, d))
    if case.design == "elliptical":
        rows *= np.sqrt(3.0 / rng.chisquare(3.0, m))[:, None]
    if case.design == "binary":
        rows = (rows > 1.0).astype(float)
    if case.design == "counts":
        rows = rng.poisson(0.7, size=(m, d)).astype(float)
    if case.design == "one column of copies":
        rows[:, :] = rows[:, :1]
    if case.design == "constant column":
        rows[:, 0] = 3.0
    if case.design == "constant rows":
        rows[:] = 1.0
    factors = {"shifted": 1.0, "tiny": 1e-30, "huge": 1e30}
    rows = rows * factors.get(case.design, 1.0) + (1e3 if case.design == "shifted" else 0.0)
    if case.design == "mixed scales":
        rows *= 10.0 ** rng.integers(-12, 12, d)
    return rows


def _with_copies(
    case: Case, X: Floats, codes: np.ndarray, rng: np.random.Generator
) -> tuple[Floats, np.ndarray]:
    if "copies" not in case.design or case.design == "one column of copies":
        return X, codes
    source = np.arange(len(X)) // 3
    jitter = 1e-6 * rng.normal(size=X.shape) if case.design.startswith("jittered") else 0.0
    return X[source] + jitter, codes[source]


def _contained(case: Case, X: Floats) -> Any:
    kind = case.container
    if kind in ("with nan", "with inf"):
        X = X.copy()
        X[0, 0] = np.nan if kind == "with nan" else np.inf
    if kind == "read-only":
        X = X.copy()
        X.flags.writeable = False
    with np.errstate(all="ignore"):  # numbers that a type cannot hold are the case's point
        makers: dict[str, Any] = {
            "fortran": np.asfortranarray,
            "float32": lambda rows: rows.astype(np.float32),
            "float16": lambda rows: rows.astype(np.float16),
            "int8": lambda rows: rows.astype(np.int64).astype(np.int8),
            "list": lambda rows: rows.tolist(),
            "frame": lambda rows: pd.DataFrame(
                rows, columns=[f"x{i}" for i in range(rows.shape[1])]
            ),
            "csr": sparse.csr_matrix,
            "csc": sparse.csc_matrix,
            "coo": sparse.coo_matrix,
            "csr_array": sparse.csr_array,
            "object": lambda rows: rows.astype(object),
            "strided": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
            "text": lambda rows: rows.astype(str).astype(object),
            "1d": lambda rows: rows[:, 0],
        }
        return makers.get(kind, lambda rows: rows)(X)


def _names(case: Case, K: int) -> Any:
    numbers = np.arange(K)
    makers: dict[str, Any] = {
        "int": lambda: numbers,
        "bool": lambda: numbers > 0 if K == 2 else numbers,
        "text": lambda: np.array([f"class {k}" for k in numbers]),
        "None": lambda: np.array(["None", "null", "nan", "", "?", "NA"][:K]),
        "NA": lambda: np.array(["NA", "=1+1", "\x1b[31m", "ü", " ", "-1"][:K], dtype=object),
        "float": lambda: numbers.astype(float),
        "big": lambda: 2**53 + numbers,
        "negative": lambda: -numbers,
        "uint8": lambda: numbers.astype(np.uint8),
        "bytes": lambda: np.array([f"{k}".encode() for k in numbers]),
        "object": lambda: numbers.astype(object),
        "fraction": lambda: numbers / 7.0,
    }
    return makers.get(case.labels, makers["int"])()


def _weights(case: Case, codes: np.ndarray, rng: np.random.Generator) -> Any:
    n = len(codes)
    ones = np.ones(n)
    first = (np.arange(n) == 0).astype(float)
    made: dict[str, Any] = {
        "ones": ones,
        "random": rng.uniform(0.5, 2.0, n),
        "zeros": (rng.random(n) < 0.7).astype(float),
        "tiny": ones * 1e-200,
        "large": ones * 1e8,
        "one huge": ones + 1e12 * first,
        "negative": ones - 2.0 * first,
        "nan": np.where(first > 0, np.nan, 1.0),
    }
    return made.get(case.weights)


def _pool(case: Case, rows: Floats, rng: np.random.Generator) -> Any:
    fresh, d = rows[-600:], case.d
    made: dict[str, Any] = {
        "same": lambda: fresh,
        "few": lambda: fresh[: max(d // 2, 2)],
        "one row": lambda: fresh[:1],
        "constant": lambda: np.repeat(fresh[:1], 7, axis=0),
        "nearly constant": lambda: fresh[:1] * (1.0 + 1e-15 * rng.normal(size=(30, d))),
        "shifted": lambda: fresh + 1e3 * np.abs(fresh).max(),
        "wrong": lambda: np.column_stack([fresh, fresh]),
        "nan": lambda: np.where(np.arange(len(fresh))[:, None] == 3, np.nan, fresh),
        "csr": lambda: sparse.csr_matrix(fresh),
        "blocks": lambda: [fresh[:200], fresh[200:]],
    }
    return made[case.pool]() if case.pool in made else None


def _covariance(case: Case, rows: Floats) -> Any:
    d = case.d
    true = np.cov(rows.T).reshape(d, d)
    made: dict[str, Any] = {
        "true": lambda: true,
        "identity": lambda: np.eye(d),
        "singular": lambda: np.zeros((d, d)),
        "skew": lambda: true + np.triu(np.ones((d, d)), 1),
        "negative": lambda: -np.eye(d),
        "nan": lambda: np.full((d, d), np.nan),
        "estimator": LedoitWolf,
    }
    return made[case.covariance]() if case.covariance in made else None


# -- models ------------------------------------------------------------------------------------


def build(case: Case, data: Data) -> Any:
    """The estimator of a case, not fitted."""
    if case.model in CALIBRATORS:
        return ScoreCalibratedClassifier(_base(case), method=case.model, random_state=0)
    links: dict[str, Any] = {"none": None, "true": data.link, "odd": 3}
    angles: dict[str, Any] = {"half": 0.5, "one": 1.0, "beyond": 1.5, "odd": "sideways"}
    options = {
        "link": links.get(case.link, case.link) if case.n_classes == 2 else None,
        "angle": angles.get(case.angle, case.angle),
        "covariance": data.covariance,
        "pool": data.pool,
    }
    if case.model == "angular":
        return AngularCalibratedClassifier(_base(case), **options)
    average = None if case.model == "path" else case.model
    return AngularLogisticRegressionCV(Cs=4, average=average, **options)


def _base(case: Case) -> Any:
    made: dict[str, Any] = {
        "strong": LogisticRegression(C=1e-4, max_iter=2000),
        "weak": LogisticRegression(C=1e4, max_iter=5000),
        "liblinear": LogisticRegression(solver="liblinear", max_iter=2000),
        "ridge": RidgeClassifier(),
        "hinge": LinearSVC(max_iter=2000),
        "bare": LogisticRegression(fit_intercept=False, max_iter=2000),
        "none": LogisticRegression(C=np.inf, max_iter=2000),
        "ovr": LinearRegression(),  # no classifier, which is to be said
    }
    return made.get(case.base)
