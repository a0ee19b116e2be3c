r"""Other shares of the classes than in training: p'_k(x) ∝ p_k(x)·π'_k/π_k.

This holds where rows of a class look as they did in training and only the classes' shares have
moved. The new shares are known, or found from rows without labels: the probabilities that a model
has for them are a likelihood of the shares (`likeliest_shares`).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import chi2

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import namespace_of, placed_like
from angcal.leverages.groups import Groups
from angcal.notices import AngleWarning, warn

HARDLY_KNOWN = 0.1
"""Standard error of a share beyond which the prevalence itself had better be given."""
FEWEST_OF_A_CLASS = 15
"""Labels of a class that tell the error of a share: of 60 models with 10 positives a fifth were off
by more than three errors."""


@dataclass(frozen=True, eq=False)
class Prevalence:
    """The shares of the classes where a model predicts, and how they are known.

    Attributes
    ----------
    shares : (K,) array
        π', in the order of ``classes_``.
    trained : (K,) array
        π, the (weighted) shares of the training labels.
    standard_error : (K,) array or None
        Of estimated shares: by the observed information of the rows that they come from, and by
        ``training_error``. None where shares were given.
    training_error : (K,) array or None
        The part of it that the training rows leave open of the model. None where they are not at
        hand, and that part is missing: of a model that was loaded from a file or pickled, of one
        fitted to blocks or a tensor, and of classical calibrators.
    p_value : float or None
        Of the likelihood-ratio test of π' = π; None where shares were given.
    n_rows : int or None
        Rows that the shares were estimated from.
    source : {"given", "estimated"}

    See Also
    --------
    with_prevalence, with_prevalence_from : Models that predict for other shares.

    Examples
    --------
    >>> rare = Prevalence(np.array([0.9, 0.1]), np.array([0.5, 0.5]))
    >>> rare.apply(np.array([[0.5, 0.5]]))
    array([[0.9, 0.1]])
    """

    shares: Floats
    trained: Floats
    standard_error: Floats | None = None
    training_error: Floats | None = None
    p_value: float | None = None
    n_rows: int | None = None
    source: str = "given"

    @property
    def factors(self) -> Floats:
        """(K,) array π'/π, what probabilities are multiplied by before they are divided again."""
        return self.shares / self.trained

    def apply(self, probabilities: Any) -> Any:
        """Probabilities for these shares, p_k·(π'_k/π_k) divided by their sum.

        Parameters
        ----------
        probabilities : (n, K) array or tensor
            Those for the shares of the training labels.

        Returns
        -------
        (n, K) array or tensor
            Where the probabilities are.
        """
        tilted = probabilities * placed_like(self.factors, probabilities)
        return tilted / namespace_of(tilted).sum(tilted, axis=1, keepdims=True)


def given_prevalence(prevalence: Any, classes: np.ndarray, counts: Floats) -> Prevalence:
    """Known shares, checked: of the second of two classes, of each class, or from class to share.

    `counts` are those of the training labels.
    """
    names = classes.tolist()
    if isinstance(prevalence, Mapping):
        unknown = [name for name in prevalence if name not in names]
        missing = [name for name in names if name not in prevalence]
        if unknown or missing:
            raise ValueError(
                f"prevalence must have one share for each of the classes {names}; unknown: "
                f"{unknown}, missing: {missing}."
            )
        shares = _numbers([prevalence[name] for name in names])
    elif isinstance(prevalence, Real) or np.ndim(prevalence) == 0:
        if len(names) != 2:
            raise ValueError(
                f"prevalence={prevalence!r} is one number, and there are {len(names)} classes; "
                f"give one share for each of {names}."
            )
        share = float(_numbers(prevalence))
        shares = np.array([1.0 - share, share])
    else:
        shares = _numbers(prevalence)
    if shares.shape != (len(names),):
        raise ValueError(
            f"prevalence has the shape {shares.shape}; give one share for each of the "
            f"{len(names)} classes {names}."
        )
    if np.any(shares > 1.0):
        raise ValueError(
            f"prevalence={prevalence!r} must lie strictly between 0 and 1: give shares in place of "
            "percent or counts, 0.1 for 10 %."
        )
    if not np.all((shares > 0.0) & (shares < 1.0)):
        raise ValueError(
            f"prevalence={prevalence!r} must lie strictly between 0 and 1. A class that cannot "
            "occur has no share to learn: drop its column of predict_proba instead."
        )
    if abs(float(shares.sum()) - 1.0) > 1e-6:
        raise ValueError(
            f"prevalence={prevalence!r} sums to {shares.sum():.6g}; shares of all classes sum to 1."
        )
    return Prevalence(shares / shares.sum(), counts / counts.sum())


def _numbers(values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"prevalence={values!r} must be a number, one for each class, or a mapping from class "
            "to share."
        ) from error


# -- from rows without labels -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The training rows as a model left them out: (n, K) probabilities, (n,) classes and weights.

    Rows of a group are not independent.
    """

    probabilities: Floats
    codes: np.ndarray
    weights: Floats
    groups: Groups | None = None

    @property
    def shares(self) -> Floats:
        """(K,) those of the classes."""
        return np.bincount(self.codes, self.weights) / self.weights.sum()

    def gain_covariance(self, shares: Floats) -> Floats:
        r"""(K, K) covariance of Σ_j θ_j mean_j(r/m), r = p/π, m = Σ_k θ_k r_k, mean_j over class j.

        It would be 1 for each k if the model's laws of the classes were the true ones.
        """
        ratios = self.probabilities / self.shares
        gains = ratios / (ratios @ shares)[:, None]
        own = np.eye(len(shares))[self.codes] * self.weights[:, None]
        parts = own / own.sum(axis=0)
        # As of a variance from m rows, m/(m − 1); one row of a class tells nothing of its spread.
        alone = 1.0 - np.sum(parts**2, axis=0)
        if alone.min() < 1e-6:
            return np.full((len(shares), len(shares)), np.inf)
        share = (parts * shares / np.sqrt(alone)).sum(axis=1)
        moves = share[:, None] * (gains - (parts.T @ gains)[self.codes])
        if self.groups is not None:
            moves = self.groups.sums(moves)
        return np.asarray(moves.T @ moves)


def estimated_prevalence(
    probabilities: Floats, counts: Floats, left_out: LeftOut | None = None
) -> Prevalence:
    r"""The likeliest shares of rows without labels, their error, and a test of a shift.

    With r_ik = p_k(x_i)/π_k, which is P(x_i | k) up to a factor of the row, the rows have the
    log-likelihood ℓ(θ) = Σ_i log Σ_k θ_k r_ik, and ℓ(π) = 0. The shares maximize ℓ(θ) + Σ_k π_k log
    θ_k, as if one row of the training population, with its label, were among them: a share of 0
    would rule a class out for good, which n rows cannot. Under no shift 2ℓ(θ̂) would be χ² with
    K − 1 degrees of freedom if the model were known. It was fitted so that its mean probability
    is π on N rows of the same kind as these n, whose own chance multiplies the variance of θ̂ − π
    by 1 + n/N; so 2ℓ(θ̂)/(1 + n/N) is compared.

    Parameters
    ----------
    probabilities : (n, K) array
        Of the rows, for the shares of the training labels.
    counts : (K,) array
        Of the training labels; they sum to N.
    left_out : LeftOut, optional
        The training rows, for the errors of the shares.

    References
    ----------
    Saerens, Latinne, Decaestecker (2002), Adjusting the outputs of a classifier to new a priori
    probabilities, Neural Computation 14.
    """
    n, K = probabilities.shape
    if n < plan.FEWEST_ROWS:
        raise ValueError(
            f"X_target has {n} rows; give at least {plan.FEWEST_ROWS}, or the prevalence itself: "
            "with_prevalence."
        )
    if np.ptp(probabilities, axis=0).max() < 1e-12:
        raise ValueError(
            f"all {n} rows of X_target have the same probabilities, which say nothing about the "
            "shares of the classes; give other rows, or the prevalence itself: with_prevalence."
        )
    trained = counts / counts.sum()
    ratios = probabilities / trained
    gain = float(np.log(ratios @ likeliest_shares(ratios, trained)).sum())
    p_value = float(chi2.sf(max(2.0 * gain, 0.0) / (1.0 + n / counts.sum()), K - 1))
    shares = likeliest_shares(ratios, trained, labeled=trained)
    variances, open_variances = np.diag(_within(ratios, shares, trained)), None
    if left_out is not None:
        # Near an end the likelihood is steep there alone, and half-way to training it is not.
        middle = np.sqrt(shares * trained)
        places = shares, middle / middle.sum()
        open_variances = np.max([_left_open(left_out, ratios, at) for at in places], axis=0)
        variances = variances + open_variances
    return Prevalence(
        shares,
        trained,
        standard_error=np.sqrt(np.maximum(variances, 0.0)),
        training_error=None if open_variances is None else np.sqrt(open_variances),
        p_value=p_value,
        n_rows=n,
        source="estimated",
    )


def warn_if_hardly_known(found: Prevalence, counts: Floats, classes: np.ndarray) -> None:
    """Say so where estimated shares may be far off, and whether labels or rows are too few."""
    error = found.standard_error
    if error is None:
        return
    worst, rarest = int(np.flatnonzero(error == error.max())[-1]), int(np.argmin(counts))
    own = 0.0 if found.training_error is None else float(found.training_error[worst])
    few = "labels" if 2.0 * own**2 > error[worst] ** 2 else "rows of X_target"
    why = f"that of class {classes[worst]!s} is {found.shares[worst]:.2g} ± {error[worst]:.2g}"
    if counts[rarest] < FEWEST_OF_A_CLASS:
        few, why = "labels", f"class {classes[rarest]!s} has {counts[rarest]:.3g}"
    elif error[worst] <= HARDLY_KNOWN:
        return
    warn(
        f"Too few {few} to tell the shares of the classes in X_target: {why}. Give the prevalence "
        "itself where it is known: with_prevalence.",
        AngleWarning,
    )


def likeliest_shares(ratios: Floats, start: Floats, labeled: Floats | float = 0.0) -> Floats:
    """θ of the largest Σ_i log Σ_k θ_k r_ik + Σ_k a_k log θ_k on the simplex, by EM.

    EM multiplies θ_k by g_k = (Σ_i r_ik/m_i + a_k/θ_k)/N, m_i = Σ_k θ_k r_ik, N = n + Σ_k a_k. The
    objective is concave and no more than N·(max_k g_k − 1) below its maximum; the iteration
    ends where that is 1e-8, 10⁻⁴ of a standard error. Two steps of EM are continued as far as they
    point in one direction (Varadhan and Roland's SQUAREM), unless the likelihood falls.

    Parameters
    ----------
    ratios : (n, K) array
        r.
    start : (K,) array
        Positive shares.
    labeled : (K,) array, default=0
        a, rows whose class is known.

    Examples
    --------
    >>> likeliest_shares(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0]]), np.full(2, 0.5)).round(6)
    array([0.333333, 0.666667])
    """
    known = np.broadcast_to(np.asarray(labeled, dtype=np.float64), start.shape)
    total, shares = len(ratios) + float(known.sum()), start

    def gains(shares: Floats) -> Floats:
        return np.asarray(ratios.T @ (1.0 / (ratios @ shares)) + known / shares) / total

    def value(shares: Floats) -> float:
        return float(np.log(ratios @ shares).sum() + known @ np.log(shares))

    for _ in range(10_000):
        gain = gains(shares)
        if total * (gain.max() - 1.0) < 1e-8:
            break
        first = shares * gain
        second = first * gains(first)
        step, bend = first - shares, second - 2.0 * first + shares
        length = np.linalg.norm(step) / max(float(np.linalg.norm(bend)), 1e-300)
        # Never to zero, from where EM does not return.
        far = np.maximum(shares + 2.0 * length * step + length**2 * bend, 1e-3 * second)
        far /= far.sum()
        shares = far if value(far) >= value(second) else second
    return shares / shares.sum()


def _within(ratios: Floats, shares: Floats, labeled: Floats) -> Floats:
    """A⁻¹ − A⁻¹11ᵀA⁻¹/(1ᵀA⁻¹1), A_kl = Σ_i r_ik r_il/m_i² + 1{k = l}a_k/θ_k².

    A is the curvature of the objective of `likeliest_shares`, inverted within the simplex.
    """
    relative = ratios / (ratios @ shares)[:, None]
    try:
        inverse = np.linalg.inv(relative.T @ relative + np.diag(labeled / shares**2))
    except np.linalg.LinAlgError:  # two classes that the model never separates
        return np.diag(np.full(len(shares), np.inf))
    along = inverse.sum(axis=1)
    return np.asarray(inverse - np.outer(along, along) / along.sum())


def _left_open(left_out: LeftOut, ratios: Floats, shares: Floats) -> Floats:
    """diag n²·C·G·C: a gradient that the model has wrong by n·b moves its maximum by n·Cb.

    C is that of `_within`, G the covariance of b.
    """
    within, gains = _within(ratios, shares, left_out.shares), left_out.gain_covariance(shares)
    if not (np.all(np.isfinite(within)) and np.all(np.isfinite(gains))):
        return np.full(len(shares), np.inf)
    moved = len(ratios) * within
    return np.diag(moved @ gains @ moved)


# -- models -----------------------------------------------------------------------------------


def with_prevalence(model: Any, prevalence: Any) -> Any:
    """A copy of a model that predicts for known shares of the classes, p'_k ∝ p_k·π'_k/π_k.

    Parameters
    ----------
    model : fitted classifier of angcal, or a Pipeline that ends in one
        It stays as it is.
    prevalence : float, array-like of shape (K,) or mapping
        Share of ``classes_[1]`` for two classes; one share for each class, in the order of
        ``classes_``; or a mapping from class to share.

    Returns
    -------
    fitted classifier or Pipeline
        With ``prevalence_``, in the classifier at its end.

    See Also
    --------
    with_prevalence_from : Shares that are estimated from rows without labels.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from angcal import AngularCalibratedClassifier, with_prevalence
    >>> from angcal.simulation import simulate
    >>> data = simulate(300, 20, link="logit", random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), AngularCalibratedClassifier()).fit(data.X, data.y)
    >>> rare = with_prevalence(pipe, 0.02)
    >>> [model.predict_proba(data.X).mean(axis=0).round(1) for model in (pipe, rare)]
    [array([0.5, 0.5]), array([1., 0.])]
    """
    return _ending_in(model, _last(model).with_prevalence(prevalence))


def with_prevalence_from(model: Any, X_target: Any) -> Any:
    """A copy of a model that predicts for the shares of the classes among rows without labels.

    The shares are the likeliest ones, by EM on the calibrated probabilities.

    Parameters
    ----------
    model : fitted classifier of angcal, or a Pipeline that ends in one
        It stays as it is.
    X_target : (n, d) array, sparse matrix, dataframe or tensor
        Rows of the kind that are to be predicted, at least ten.

    Returns
    -------
    fitted classifier or Pipeline
        With ``prevalence_``, in the classifier at its end: shares, their standard errors, and
        the p-value of a test of whether they are those of training.

    See Also
    --------
    with_prevalence : Shares that are known.

    Examples
    --------
    >>> from angcal import AngularCalibratedClassifier, with_prevalence_from
    >>> from angcal.simulation import simulate
    >>> data = simulate(300, 20, link="logit", random_state=0)
    >>> clf = AngularCalibratedClassifier().fit(data.X, data.y)
    >>> with_prevalence_from(clf, data.X[data.y == 1]).prevalence_.shares.round(1)
    array([0., 1.])
    """
    rows = X_target
    if hasattr(model, "steps"):
        rows = model[:-1].transform(rows)
    return _ending_in(model, _last(model).with_prevalence_from(rows))


def _last(model: Any) -> Any:
    found = model.steps[-1][1] if hasattr(model, "steps") else model
    if not hasattr(found, "with_prevalence"):
        searched = hasattr(found, "best_estimator_")
        other = "its best_estimator_" if searched else "a fitted classifier of angcal"
        raise TypeError(
            f"model ends in a {type(found).__name__}, which has no calibrated probabilities; pass "
            f"{other}, or a Pipeline that ends in {'it' if searched else 'one'}."
        )
    return found


def _ending_in(model: Any, classifier: Any) -> Any:
    """The classifier alone, or a copy of the pipeline that ends in it."""
    if not hasattr(model, "steps"):
        return classifier
    pipeline = copy(model)
    pipeline.steps = [*model.steps[:-1], (model.steps[-1][0], classifier)]
    return pipeline
