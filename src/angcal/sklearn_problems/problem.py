"""What an estimator minimized: `Problem`, the registry by type, and bare linear weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import NotFittedError

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
from angcal.penalties import NoPenalty, Penalty

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

    Parameters
    ----------
    loss : Loss or str
        One of "logistic", "probit", "squared", "squared_hinge", "huberised_hinge" and
        "exponential", or an instance of a :class:`~angcal.losses.Loss`.

    Returns
    -------
    Loss
        The loss.

    See Also
    --------
    Problem : Takes a loss.

    Examples
    --------
    >>> as_loss("logistic")
    Logistic()
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _NAMED_LOSSES:
        return _NAMED_LOSSES[loss]
    names = ", ".join(repr(name) for name in _NAMED_LOSSES)
    message = f"loss={loss!r} is neither one of {names} nor an instance of angcal.losses.Loss."
    raise ValueError(message) if isinstance(loss, str) else TypeError(message)


@dataclass(frozen=True)
class Problem:
    """What an estimator minimises, in the scaling of J = (1/N) Σ ω_i ℓ_i + g(w) + ½ q₀ b².

    Attributes
    ----------
    loss : Loss
        ℓ.
    penalty : Penalty, or function (n, N) -> Penalty
        g. A function where its strength depends on the number of rows n or on the total weight N.
    fit_intercept : bool
        Whether there is a b.
    intercept_strength : float, or function (n, N) -> float
        q₀; zero for a free intercept.
    class_weight : dict, "balanced" or None
        As scikit-learn takes it; a dict is keyed by the entries of ``classes_``.
    balances : {"weight", "rows"}
        What "balanced" makes equal between the classes: total sample weight or number of rows.

    See Also
    --------
    problem_of : Returns it for a fitted estimator.

    Examples
    --------
    >>> from angcal import Logistic, Ridge
    >>> Problem(Logistic(), lambda n, N: Ridge(1 / N)).fit_intercept
    True
    """

    loss: Loss
    penalty: Penalty | Callable[[int, float], Penalty] = field(default_factory=NoPenalty)
    fit_intercept: bool = True
    intercept_strength: float | Callable[[int, float], float] = 0.0
    class_weight: Mapping[Any, float] | str | None = None
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
        if not isinstance(self.penalty, Penalty):
            raise TypeError(
                f"penalty={self.penalty!r} is not a Penalty; pass for example Ridge(0.1), in the "
                "scaling of the mean loss, or NoPenalty()."
            )
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
    if not np.isfinite(row).all():
        raise ValueError(f"{name} contains NaN or infinite entries.")
    return row


def one_number(value: Any, name: str) -> float:
    """Return the single finite number in `value`."""
    number = np.ravel(np.asarray(value, dtype=np.float64))
    if number.size != 1:
        raise ValueError(f"{name} has {number.size} entries; a single number is needed.")
    if not np.isfinite(number[0]):
        raise ValueError(f"{name}={number[0]} must be finite.")
    return float(number[0])
