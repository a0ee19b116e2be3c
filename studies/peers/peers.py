"""Calibrators of other packages, each given what it needs: a quarter of the n labels, or folds.

betacal 1.1, venn-abers 1.5, netcal 1.4 and probmetrics 1.3 were read for this. All take P(y = 1) of
a fitted model, or the pair (P(y = 0), P(y = 1)), together with labels that the model has not seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from angcal._typing import Floats
from angcal.arrays import dense
from studies import rivals
from studies.peers.methods import (
    FOLDS,
    OWN,
    SCIKIT_LEARN,
    Base,
    Fitted,
    Method,
    Training,
    chosen_C,
    on_base,
    probabilities,
)
from studies.peers.remembered import Remembered

Rival = Callable[[Any, NDArray[np.int64], Any], Floats]
"""Rows, labels and new rows to P(y = 1) of these."""
Map = Callable[[Floats], Floats]
"""Probabilities of a model to calibrated ones: P(y = 1), or of more classes a column each."""


@dataclass(frozen=True)
class Calibrator:
    """A calibrator of another package: probabilities and labels of a holdout to a map.

    Parameters
    ----------
    name, package : str
    fit : callable
    costly : bool, default=False
        Whether it is left to the first splits of small tasks, and to tuned models.
    """

    name: str
    package: str
    fit: Callable[[Floats, NDArray[np.int64]], Map]
    costly: bool = False


def pair(p: Floats) -> Floats:
    """Columns P(y = 0), P(y = 1); those of more classes as they are."""
    return np.column_stack([1.0 - p, p]) if p.ndim == 1 else p


def _betacal(p: Floats, y: NDArray[np.int64]) -> Map:
    fitted = import_module("betacal").BetaCalibration(parameters="abm").fit(p, y)
    return fitted.predict


def _venn_abers(p: Floats, y: NDArray[np.int64]) -> Map:
    fitted = import_module("venn_abers").VennAbers()
    fitted.fit(pair(p), y)
    return lambda new: fitted.predict_proba(pair(new))[0][:, 1]


def _netcal(p: Floats, y: NDArray[np.int64], module: str, name: str) -> Map:
    single_threaded_torch()
    fitted = getattr(import_module(module), name)()
    # ENIR shows its progress and cannot be told not to.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        fitted.fit(p, y)
    return fitted.transform


def probmetrics(p: Floats, y: NDArray[np.int64], name: str) -> Map:
    """A calibrator of probmetrics, for any number of classes."""
    single_threaded_torch()
    fitted = import_module("probmetrics.calibrators").get_calibrator(name)
    fitted.fit(pair(p), y)

    def calibrate(new: Floats) -> Floats:
        found = np.asarray(fitted.predict_proba(pair(new)), dtype=float)
        return found[:, 1] if new.ndim == 1 else found

    return calibrate


def single_threaded_torch() -> None:
    """One thread, as the other methods have; the limits of threadpoolctl may come too early."""
    import_module("torch").set_num_threads(1)


CALIBRATORS = (
    Calibrator("betacal", "betacal", _betacal),
    Calibrator("venn-abers", "venn_abers", _venn_abers),
    *(
        Calibrator(f"netcal {label}", module, partial(_netcal, module=module, name=name), costly)
        for label, module, name, costly in (
            ("beta", "netcal.scaling", "BetaCalibration", False),
            ("temperature", "netcal.scaling", "TemperatureScaling", False),
            ("histogram", "netcal.binning", "HistogramBinning", False),
            ("logistic", "netcal.scaling", "LogisticCalibration", True),
            ("isotonic", "netcal.binning", "IsotonicRegression", True),
            ("BBQ", "netcal.binning", "BBQ", True),
            ("ENIR", "netcal.binning", "ENIR", True),
        )
    ),
    # "logistic" is the package's own advice, "ts-mix" its advice for the log-loss. Its "platt",
    # "isotonic", "beta" and "ivap" are scikit-learn's, betacal's and venn-abers' own; "cir" needs
    # one package more.
    *(
        Calibrator(
            f"probmetrics {name}",
            "probmetrics.calibrators",
            partial(probmetrics, name=name),
            costly,
        )
        for name, costly in (
            ("logistic", False),
            ("ts-mix", False),
            ("logistic-mix", True),
            ("quadratic-scaling", True),
        )
    ),
)


def _on_holdout(training: Training, calibrator: Calibrator, base: Base) -> Fitted:
    model = training.reduced_model(base)
    _, held = training.parts
    predict = probabilities(model)
    calibrate = calibrator.fit(predict(training.X[held]), training.y[held])
    return Fitted(lambda X: calibrate(predict(X)), chosen_C(model))


def _cross_venn_abers(training: Training, base: Base) -> Fitted:
    """The package's own cross-fitting; it passes rows through a data frame, which must be dense."""
    fitted = import_module("venn_abers").VennAbersCalibrator(
        estimator=Remembered(training.model(base), training.memory),
        inductive=False,
        n_splits=FOLDS,
        random_state=training.seed,
    )
    fitted.fit(dense(training.X), training.y)
    return Fitted(lambda X: np.asarray(fitted.predict_proba(dense(X)))[:, 1])


def _holdout_methods(base: Base) -> list[Method]:
    return [
        on_base(
            calibrator.name,
            partial(_on_holdout, calibrator=calibrator),
            base,
            1,
            reduced=base,
            package=calibrator.package,
            costly=calibrator.costly,
        )
        for calibrator in CALIBRATORS
        if base == "tuned" or not calibrator.costly
    ]


def _cross_venn_abers_method(base: Base) -> Method:
    """It fits a model to all rows as well, which its predictions do not use."""
    about = {"package": "venn_abers", "costly": base == "tuned", "averages": True}
    return on_base("venn-abers, cross", _cross_venn_abers, base, FOLDS + 1, **about)


def _by_rival(training: Training, rival: Rival) -> Fitted:
    return Fitted(lambda X: rival(training.X, training.y, X))


def _rival(name: str, rival: Rival, fits: int, package: str = "") -> Method:
    fit = partial(_by_rival, rival=rival)
    return Method(name, fit, plain_fits=fits, package=package, costly=True)


EVIDENCE, BBAI = "ridge by Laplace evidence", "bbai"
RIVALS = (
    _rival(EVIDENCE, rivals.evidence, 20),
    _rival(BBAI, rivals.by_bbai, 0, "bbai"),
    _rival("shrunken LDA", rivals.shrunken_lda, 1),
)
"""What they fit; of bbai and TabPFN, whose fits are of another kind, none are counted."""
SLOW_RIVALS = (
    # Seven C by five folds, the scaling of each by five more; three ℓ₁ ratios.
    _rival("linear SVM, Platt scaling, tuned", rivals.linear_svm, 7 * 5 * 6 + 6),
    _rival("elastic net, LogisticRegressionCV", rivals.elastic_net, 7 * 3 * 5 + 1),
    _rival("TabPFN 1, 100 components", rivals.by_tabpfn, 0, "tabpfn"),
)
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *OWN,
        *SCIKIT_LEARN,
        *(_cross_venn_abers_method(base) for base in ("C=1", "tuned")),
        *(method for base in ("C=1", "tuned") for method in _holdout_methods(base)),
        *RIVALS,
        *SLOW_RIVALS,
    )
}
"""Everything that is compared, by name."""


def missing_packages(methods: Iterable[Method]) -> dict[str, str]:
    """Packages that methods need and that cannot be imported, with the reasons."""
    packages = {method.package: method for method in methods}
    reasons = {package: method.missing() for package, method in packages.items()}
    return {package.split(".")[0]: reason for package, reason in reasons.items() if reason}
