"""What is compared: each method fits the same n labeled rows, and says what that cost.

A method is charged for every linear model that it fits, and for the labels that it keeps from the
model and spends on calibration alone. LogisticRegressionCV with 20 penalties and 5 folds fits
20·5 + 1 = 101 models; calibrated by 5 folds, 5·101 = 505, and 101 more for a model of all rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold, train_test_split

from angcal._typing import Floats, Matrix
from angcal.estimators import AngularCalibratedClassifier, AngularLogisticRegressionCV
from studies.peers.remembered import Memory, Remembered

FOLDS = 5
NO_FOLDS = "the rarest class has one row, and folds need two"
HOLDOUT_SHARE = 0.25
MAX_ITER = 1000
TUNED, DEFAULT = "angcal tuned", "angcal"
AVERAGED, IN_FOLDS = "angcal tuned, averaged", "angcal tuned, in folds"
PATH_SHARE, FOLD_SHARE = 0.5, 0.4
"""Of the penalties of cross-validated peers, what a path has, and what each of the folds has."""
Base = str
"""The linear model: "C=1", "C=0.01", ..., or "tuned"."""
Predict = Callable[[Matrix], Floats]
"""Rows to P(y = 1); with more classes than two to the (n, K) probabilities of all."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted method, and the C of its linear model."""

    predict: Predict
    C: float = 1.0


@dataclass(frozen=True)
class Folds:
    """Five folds of the rows it is given, or as many as their rarest class has rows."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many."""
        rarest = FOLDS if y is None else int(np.unique(y, return_counts=True)[1].min())
        if rarest < 2:
            raise ValueError(NO_FOLDS)
        return min(FOLDS, rarest)

    def split(self, X: Any, y: Any, groups: Any = None) -> Any:
        """(training rows, rows left out) of each."""
        return StratifiedKFold(self.get_n_splits(X, y)).split(X, y)


@dataclass(frozen=True, eq=False)
class Training:
    """The n labeled rows of a trial; what several methods fit to the same rows is fitted once.

    Parameters
    ----------
    X, y : scaled rows, and their classes 0, 1, …
    seed : int
        Draws the holdout, and the folds that are drawn.
    n_penalties : int
        Values of C among which tuned methods choose.
    memory : Memory
        What was fitted for other methods.
    """

    X: Matrix
    y: NDArray[np.int64]
    seed: int
    n_penalties: int
    memory: Memory = field(default_factory=Memory)

    @cached_property
    def parts(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Numbers of the rows for the model, and of the quarter that is held out."""
        return train_test_split(
            np.arange(len(self.y)), test_size=HOLDOUT_SHARE, stratify=self.y, random_state=self.seed
        )

    def reduced_model(self, base: Base) -> Any:
        """A model of all rows but the holdout."""
        kept, _ = self.parts
        return self.memory.fitted(self.model(base), self.X[kept], self.y[kept])

    def model(self, base: Base) -> Any:
        """An unfitted logistic regression, C given or chosen by cross-validated log-loss."""
        if base != "tuned":
            return LogisticRegression(C=float(base.removeprefix("C=")), max_iter=MAX_ITER)
        # Asked for by name where scikit-learn has them, as their defaults are about to change.
        options = {"l1_ratios": (0,), "use_legacy_attributes": False}
        known = signature(LogisticRegressionCV).parameters
        return LogisticRegressionCV(
            Cs=self.n_penalties,
            cv=Folds(),
            scoring="neg_log_loss",
            max_iter=MAX_ITER,
            **(options if "use_legacy_attributes" in known else {}),
        )


@dataclass(frozen=True)
class Method:
    """A way from n labeled rows to probabilities.

    Parameters
    ----------
    name : str
    fit : callable
        Training rows to a fitted method.
    plain_fits : int
        Linear models fitted under one penalty each, with C = 1 throughout.
    searches : int, default=0
        Cross-validated choices of C, each of which fits 5 models a penalty and one more.
    paths : float, default=0
        Choices of C from one fit a penalty; a part of one where it has a part of the penalties.
    reduced : str or None, default=None
        The shared model that it calibrates with the quarter of the labels kept from that model.
    package : str, default=""
        What has to be importable besides angcal's own dependencies.
    costly : bool, default=False
        Whether it is left to the first splits of small tasks.
    averages : bool, default=False
        Whether its probabilities are averages over several models, all of them to be deployed.
    """

    name: str
    fit: Callable[[Training], Fitted]
    plain_fits: int = 0
    searches: int = 0
    paths: float = 0.0
    reduced: Base | None = None
    package: str = ""
    costly: bool = False
    averages: bool = False

    def fits(self, n_penalties: int) -> int:
        """Linear models fitted."""
        searched = self.searches * (FOLDS * n_penalties + 1)
        return self.plain_fits + searched + round(self.paths * n_penalties)

    def labels_spent(self, n: int) -> int:
        """Labels that the linear model never sees, as scikit-learn rounds them."""
        return int(np.ceil(HOLDOUT_SHARE * n)) if self.reduced else 0

    def missing(self) -> str:
        """Why its package cannot be imported, or nothing."""
        if not self.package:
            return ""
        # What a package has to say about its own dependencies is no concern of a comparison.
        with warnings.catch_warnings(action="ignore"):
            try:
                import_module(self.package)
            except ImportError as error:
                return str(error)
        return ""


# -- methods of angcal and scikit-learn --------------------------------------------------------


def probabilities(model: Any) -> Predict:
    """Those of a fitted classifier whose classes are 0, 1, …; of two classes that of class 1."""

    def predict(X: Matrix) -> Floats:
        P = np.asarray(model.predict_proba(X))
        return P[:, 1] if P.shape[1] == 2 else P

    return predict


def chosen_C(model: Any) -> float:
    """C of a fitted LogisticRegression or LogisticRegressionCV, remembered or not."""
    model = getattr(model, "model_", model)
    return float(np.ravel(model.C_ if hasattr(model, "C_") else model.C)[0])


def angcal(training: Training, base: Base = "C=1") -> Fitted:
    """Angular calibration of one fit."""
    model = AngularCalibratedClassifier(training.model(base)).fit(training.X, training.y)
    return Fitted(probabilities(model), chosen_C(model.estimator_))


def _angcal_tuned(
    training: Training, share: float = PATH_SHARE, average: str | None = None
) -> Fitted:
    penalties = round(share * training.n_penalties)
    model = AngularLogisticRegressionCV(penalties, average=average).fit(training.X, training.y)
    return Fitted(probabilities(model), model.C_)


def logistic(training: Training, base: Base) -> Fitted:
    """The linear model's own probabilities."""
    model = training.memory.fitted(training.model(base), training.X, training.y)
    return Fitted(probabilities(model), chosen_C(model))


def _cross_calibrated(training: Training, method: str, ensemble: bool, base: Base) -> Fitted:
    base_model = Remembered(training.model(base), training.memory)
    model = CalibratedClassifierCV(base_model, method=method, cv=Folds(), ensemble=ensemble)
    model.fit(training.X, training.y)
    return Fitted(probabilities(model), chosen_C(model.calibrated_classifiers_[0].estimator))


def on_base(name: str, fit: Callable[..., Fitted], base: Base, fits: int, **more: Any) -> Method:
    """A method that fits a linear model so many times, each with a search where it is tuned."""
    tuned = base == "tuned"
    paid: dict[str, Any] = {"searches" if tuned else "plain_fits": fits}
    return Method(name + (", tuned" if tuned else ""), partial(fit, base=base), **paid, **more)


def cross_methods(base: Base) -> list[Method]:
    """scikit-learn's calibrators by folds."""
    return [
        on_base(
            f"CV {method}" + ("" if ensemble else ", one model"),
            partial(_cross_calibrated, method=method, ensemble=ensemble),
            base,
            FOLDS + (not ensemble),
            costly=base == "tuned",
            averages=ensemble,
        )
        for method in ("sigmoid", "isotonic", "temperature")
        for ensemble in (True, False)
    ]


OWN = (
    Method(TUNED, _angcal_tuned, paths=PATH_SHARE),
    Method(DEFAULT, angcal, plain_fits=1),
    # Where the peers that average tuned models are.
    Method(
        AVERAGED,
        partial(_angcal_tuned, average="penalties"),
        paths=PATH_SHARE,
        costly=True,
        averages=True,
    ),
    Method(
        IN_FOLDS,
        partial(_angcal_tuned, share=FOLD_SHARE, average="folds"),
        paths=FOLD_SHARE * (FOLDS + 1),
        costly=True,
        averages=True,
    ),
)
OWN_NAMES = tuple(method.name for method in OWN)
SCIKIT_LEARN = (
    Method("logistic", partial(logistic, base="C=1"), plain_fits=1),
    Method("logistic tuned", partial(logistic, base="tuned"), searches=1),
    *cross_methods("C=1"),
    *cross_methods("tuned"),
)
