"""What an estimator minimized: `Problem`, the registry by type, and bare linear weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from inspect import signature
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_class_weight

from angcal._typing import Floats, Matrix
from angcal.losses import (
    Exponential,
    HuberisedHinge,
    Logistic,
    Loss,
    ProbitLikelihood,
    Squared,
    SquaredHinge,
)
from angcal.penalties import ElasticNet, NoPenalty, Penalty, Ridge, require_penalty

_NAMED_LOSSES: dict[str, Loss] = {
    "logistic": Logistic(),
    "probit": ProbitLikelihood(),
    "squared": Squared(),
    "squared_hinge": SquaredHinge(),
    "huberised_hinge": HuberisedHinge(),
    "exponential": Exponential(),
}


def as_loss(loss: Loss | str) -> Loss:
    """ℓ_y(u) by name, or the loss itself.

    Examples
    --------
    >>> as_loss("logistic")
    Logistic()
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _NAMED_LOSSES:  # type: ignore[redundant-expr]
        return _NAMED_LOSSES[loss]
    names = ", ".join(repr(name) for name in _NAMED_LOSSES)
    message = f"loss={loss!r} is neither one of {names} nor an instance of angcal.losses.Loss."
    is_name = isinstance(loss, str)
    raise ValueError(message) if is_name else TypeError(message)


@dataclass(frozen=True)
class Problem:
    """What an estimator minimizes, in the scaling of J = (1/N) Σ ω_i ℓ_i + g(w) + ½ q₀ b².

    Examples
    --------
    >>> from angcal import Logistic, Ridge
    >>> Problem(Logistic(), lambda n, N: Ridge(1 / N)).fit_intercept
    True
    """

    loss: Loss  # ℓ
    # g; a function where its strength depends on the number
    # of rows n or on the total weight N.
    penalty: Penalty | Callable[[int, float], Penalty] = field(default_factory=NoPenalty)
    fit_intercept: bool = True  # Whether there is a b
    # q₀; zero for a free intercept
    intercept_strength: float | Callable[[int, float], float] = 0.0
    # As scikit-learn takes it; a dict is keyed by the entries of
    # ``classes_``
    class_weight: Mapping[Any, float] | str | None = None
    # What "balanced" makes equal between the classes: total sample weight or
    # number of rows
    balances: Literal["weight", "rows"] = "weight"


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Score u = xᵀw + b with bare weights that were trained elsewhere: a torch head, a paper.

    Parameters
    ----------
    coef : array of shape (d,) or (1, d)
        w. A positive score votes for ``classes[1]``.
    intercept : float or None, default=0.0
        b, taken as fitted and unpenalized. None says that the head was trained without one.
    loss : Loss or str, default="logistic"
        What it was trained on; names as in :func:`as_loss`.
    penalty : Penalty, default=NoPenalty()
        g(w) next to the *mean* loss. ``torch.optim.SGD(weight_decay=λ)`` on a mean-reduced loss
        is ``Ridge(λ)``; keep the bias out of that parameter group, since torch decays it too.
    classes : sequence of two labels, default=(0, 1)
        The negative and the positive label.

    See Also
    --------
    AngularCalibratedClassifier : Takes a head in place of an estimator.

    Examples
    --------
    >>> from angcal.penalties import Ridge
    >>> head = LinearHead([1.0, -2.0], intercept=0.5, loss="logistic", penalty=Ridge(0.1))
    >>> head.decision_function(np.array([[1.0, 1.0], [2.0, 0.0]]))
    array([-0.5,  2.5])
    """

    coef: Any
    intercept: float | None = 0.0
    loss: Loss | str = "logistic"
    penalty: Penalty = field(default_factory=NoPenalty)
    classes: Sequence[Any] | np.ndarray | None = None

    def __post_init__(self) -> None:
        # A frozen dataclass sets its own normalized fields this way.
        object.__setattr__(self, "coef", one_row(self.coef, "coef"))
        if self.intercept is not None:
            object.__setattr__(self, "intercept", one_number(self.intercept, "intercept"))
        object.__setattr__(self, "loss", as_loss(self.loss))
        require_penalty(self.penalty)
        classes = np.array([0, 1]) if self.classes is None else np.asarray(self.classes)
        if classes.shape != (2,) or classes[0] == classes[1]:
            raise ValueError(f"classes={self.classes!r} must be two different labels.")
        object.__setattr__(self, "classes", classes)

    @property
    def coef_(self) -> Floats:
        """w as scikit-learn shapes it, (1, d)."""
        return self.coef[None, :]

    @property
    def intercept_(self) -> Floats:
        """b as scikit-learn shapes it, (1,)."""
        return np.array([self.intercept or 0.0])

    @property
    def classes_(self) -> np.ndarray:
        """The negative and the positive label."""
        return np.asarray(self.classes)

    def decision_function(self, X: Matrix) -> Floats:
        """u_i = x_iᵀw + b.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Rows.

        Returns
        -------
        (n,) array
            Scores.
        """
        return np.asarray(X @ self.coef, dtype=np.float64) + (self.intercept or 0.0)


@singledispatch
def problem_of(estimator: Any) -> Problem:
    """J's ingredients (ℓ, g, q₀ and class weights) for an estimator: an open registry by type.

    ``problem_of.register(MyClassifier)`` adds one; subclasses inherit their parent's entry.

    Parameters
    ----------
    estimator : estimator or LinearHead
        A linear classifier of a registered type.

    Returns
    -------
    Problem
        What its ``fit`` minimizes.

    See Also
    --------
    LinearHead : Bare weights that were trained elsewhere.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> problem_of(LogisticRegression()).loss
    Logistic()
    """
    name = type(estimator).__name__
    known = ", ".join(
        sorted(cls.__name__ for cls in problem_of.registry if cls not in (object, LinearHead))
    )
    hint = (
        f" This {name} was fitted by search: pass its best_estimator_."
        if hasattr(estimator, "best_estimator_")
        else ""
    )
    raise TypeError(
        f"Cannot read the problem that a {name} solved; supported are {known}.{hint} For linear "
        "weights trained elsewhere pass LinearHead(coef, intercept, loss, penalty); for a linear "
        "classifier of your own register it with angcal.sklearn_problems.problem_of."
    )


@problem_of.register(LinearHead)
def _linear_head(estimator: LinearHead) -> Problem:
    return Problem(
        loss=as_loss(estimator.loss),
        penalty=estimator.penalty,
        fit_intercept=estimator.intercept is not None,
    )


def require_fitted(estimator: Any, attribute: str) -> None:
    """Raise NotFittedError unless the estimator has the attribute."""
    if not hasattr(estimator, attribute):
        raise NotFittedError(f"This {type(estimator).__name__} is not fitted yet; call fit first.")


def one_row(values: Any, name: str) -> Floats:
    """Return `values` of shape (d,) or (1, d) as d finite doubles."""
    row = np.array(values, dtype=np.float64)
    if row.ndim == 2 and row.shape[0] == 1:
        row = row[0]
    if row.ndim != 1 or len(row) == 0:
        raise ValueError(f"{name} has shape {row.shape}; (d,) or (1, d) is needed.")
    return require_finite(row, name)


def require_finite(weights: Floats, name: str) -> Floats:
    """The weights themselves, unless one of them is no number."""
    if not np.isfinite(weights).all():
        raise ValueError(
            f"{name} contains NaN or infinite entries: the fit of the model went wrong. Scale X to "
            "be about 1, or strengthen the model's penalty."
        )
    return weights


def one_number(value: Any, name: str) -> float:
    """Return the single finite number in `value`."""
    number = np.ravel(np.asarray(value, dtype=np.float64))
    if number.size != 1:
        raise ValueError(f"{name} has {number.size} entries; a single number is needed.")
    if not np.isfinite(number[0]):
        raise ValueError(f"{name}={number[0]} must be finite.")
    return float(number[0])


# Since scikit-learn 1.7 LogisticRegression and LinearSVC balance the classes' total sample weight;
# before, their number of rows. compute_class_weight gained the parameter in the same change.
BALANCES_WEIGHT = "sample_weight" in signature(compute_class_weight).parameters


@problem_of.register(LogisticRegression)
def _logistic_regression(estimator: Any) -> Problem:
    return _logistic(
        estimator, estimator.C, estimator.l1_ratio, scaling=estimator.intercept_scaling
    )


@problem_of.register(LogisticRegressionCV)
def _logistic_regression_cv(estimator: Any) -> Problem:
    if not estimator.refit:
        raise ValueError(
            "LogisticRegressionCV(refit=False) averages the folds' coefficients, which minimize "
            "no objective; fit it with refit=True."
        )
    require_fitted(estimator, "C_")
    # One entry for binary problems: an array, or a number with use_legacy_attributes=False.
    C, l1_ratio = np.ravel(estimator.C_)[0], np.ravel(estimator.l1_ratio_)[0]
    # The final refit leaves intercept_scaling out, so liblinear runs it at its default of 1.
    return _logistic(estimator, C, l1_ratio, scaling=1.0)


@problem_of.register(RidgeClassifier)
def _ridge_classifier(estimator: Any) -> Problem:
    if estimator.positive:
        raise ValueError(
            "RidgeClassifier(positive=True) constrains the coefficients' signs, which no penalty "
            "of angcal describes; fit it with positive=False."
        )
    return _ridge(estimator, estimator.alpha)


@problem_of.register(RidgeClassifierCV)
def _ridge_classifier_cv(estimator: Any) -> Problem:
    require_fitted(estimator, "alpha_")
    return _ridge(estimator, estimator.alpha_)


@problem_of.register(LinearSVC)
def _linear_svc(estimator: Any) -> Problem:
    if estimator.loss == "hinge":
        raise ValueError(
            "LinearSVC(loss='hinge') cannot be read: the hinge has no second derivative. Fit it "
            "with loss='squared_hinge'."
        )
    if estimator.multi_class != "ovr":
        raise ValueError(
            f"LinearSVC(multi_class={estimator.multi_class!r}) solves a joint problem even for "
            "two classes; fit it with multi_class='ovr'."
        )
    l1_ratio = 1.0 if estimator.penalty == "l1" else 0.0
    scale = float(estimator.intercept_scaling)
    return Problem(
        loss=SquaredHinge(),
        penalty=lambda n, N: _elastic(1.0 / (N * estimator.C), l1_ratio),
        fit_intercept=estimator.fit_intercept,
        intercept_strength=_liblinear_intercept(estimator, estimator.C, l1_ratio, scale),
        class_weight=estimator.class_weight,
        balances="weight" if BALANCES_WEIGHT else "rows",
    )


_SGD_LOSSES: dict[str, Loss] = {
    "log_loss": Logistic(),
    "squared_hinge": SquaredHinge(),
    "modified_huber": HuberisedHinge(delta=2.0, scale=4.0),
    "squared_error": Squared(),  # scikit-learn's is ½(u − t)² here, unlike in its ridge
}


@problem_of.register(SGDClassifier)
def _sgd_classifier(estimator: Any) -> Problem:
    _require_readable_sgd(estimator)
    l1_ratio = {"l2": 0.0, "l1": 1.0}.get(estimator.penalty, estimator.l1_ratio)
    # Every step decays w by α whatever the row's weight, so the penalty stands next to
    # (1/n) Σ ωℓ and not next to (1/N) Σ ωℓ.
    alpha = 0.0 if estimator.penalty is None else float(estimator.alpha)
    return Problem(
        loss=_SGD_LOSSES[estimator.loss],
        penalty=lambda n, N: _elastic(alpha * n / N, l1_ratio),
        fit_intercept=estimator.fit_intercept,
        class_weight=estimator.class_weight,
        balances="rows",
    )


def _require_readable_sgd(estimator: Any) -> None:
    if estimator.loss not in _SGD_LOSSES:
        readable = ", ".join(repr(name) for name in _SGD_LOSSES)
        why = (
            "has no second derivative"
            if estimator.loss in ("hinge", "perceptron")
            else "is a regression loss that angcal does not carry"
        )
        raise ValueError(
            f"SGDClassifier(loss={estimator.loss!r}) cannot be read: that loss {why}. "
            f"Readable losses are {readable}."
        )
    if estimator.early_stopping:
        raise ValueError(
            "SGDClassifier(early_stopping=True) holds out rows it does not name, so its problem "
            "is not known; fit it with early_stopping=False."
        )
    if estimator.learning_rate in ("pa1", "pa2"):
        raise ValueError(
            f"SGDClassifier(learning_rate={estimator.learning_rate!r}) takes passive-aggressive "
            "steps, which minimize no fixed objective; use 'optimal' or 'adaptive'."
        )


def _logistic(estimator: Any, C: float, l1_ratio: float | None, scaling: float) -> Problem:
    # scikit-learn < 1.8 took multi_class, and softmax over (−w, w) is not the logistic loss of w.
    if getattr(estimator, "multi_class", None) == "multinomial":
        raise ValueError(
            f"{type(estimator).__name__}(multi_class='multinomial') penalizes both classes' "
            "weights; leave multi_class at its default."
        )
    penalty = getattr(estimator, "penalty", "deprecated")
    if penalty is None:
        C = np.inf
    ratio = {"l1": 1.0, "l2": 0.0, None: 0.0}.get(penalty, l1_ratio or 0.0)
    liblinear = estimator.solver == "liblinear"
    return Problem(
        loss=Logistic(),
        penalty=lambda n, N: _elastic(1.0 / (N * C), ratio),
        fit_intercept=estimator.fit_intercept,
        intercept_strength=_liblinear_intercept(estimator, C, ratio, scaling) if liblinear else 0.0,
        class_weight=estimator.class_weight,
        balances="weight" if BALANCES_WEIGHT else "rows",
    )


def _ridge(estimator: Any, alpha: float) -> Problem:
    # Σω(u − t)² + α‖w‖² is twice Σω·½(u − t)² + ½α‖w‖².
    return Problem(
        loss=Squared(),
        penalty=lambda n, N: _elastic(float(alpha) / N, 0.0),
        fit_intercept=estimator.fit_intercept,
        class_weight=estimator.class_weight,
        balances="rows",
    )


def _liblinear_intercept(
    estimator: Any, C: float, l1_ratio: float, scaling: float
) -> float | Callable[[int, float], float]:
    """q₀ = 1/(N·C·s²): liblinear's ½(b/s)² next to C·Σωℓ."""
    if not estimator.fit_intercept:
        return 0.0
    if l1_ratio > 0:
        raise ValueError(
            f"{type(estimator).__name__} with an ℓ₁ penalty was fitted by liblinear, which puts "
            "the ℓ₁ penalty on the intercept too; angcal has no such term. Fit it with "
            "fit_intercept=False (append a column of ones to X for the same model) or, for a "
            "logistic regression, with solver='saga'."
        )
    return lambda n, N: 1.0 / (N * C * scaling**2)


def _elastic(strength: float, l1_ratio: float) -> Penalty:
    if strength == 0:
        return NoPenalty()
    if not np.isfinite(strength):
        raise ValueError(
            f"the penalty of the model is {strength} for the rows' total weight; take a larger C "
            "or a smaller alpha, and weights of about 1."
        )
    return Ridge(strength) if l1_ratio == 0 else ElasticNet(strength, l1_ratio)
