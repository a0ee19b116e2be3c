"""MEstimator: any loss with any penalty, as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from angcal._typing import Floats
from angcal.estimators.training import ARRAY_RULES, encode
from angcal.losses import Loss
from angcal.notices import warn
from angcal.penalties import Penalty, Ridge, require_penalty
from angcal.problem import LinearFit, check_separable
from angcal.sklearn_problems import Problem, as_loss, problem_of
from angcal.solvers.minimize import minimize, relative_residual


class MEstimator(ClassifierMixin, BaseEstimator):
    r"""argmin_{w,b} (1/N) Σ_i ω_i ℓ_{y_i}(x_iᵀw + b) + g(w), N = Σ ω_i.

    Parameters
    ----------
    loss : Loss or str, default="logistic"
        One of "logistic", "probit", "squared", "squared_hinge", "huberised_hinge",
        "exponential", or an own :class:`~angcal.losses.Loss`.
    penalty : Penalty or None, default=None
        None is ``Ridge(1/N)``, scikit-learn's ``C=1``.
    fit_intercept : bool, default=True
        The intercept is never penalized.
    tol : float, default=1e-8
        Largest KKT residual, relative to that of w = 0.
    max_iter : int, default=1000
        L-BFGS iterations.

    Attributes
    ----------
    coef_ : (1, d) array
    intercept_ : (1,) array
    penalty_ : Penalty
        As given, or the default with its strength.
    n_iter_ : int
        Points at which the objective was evaluated, those of line searches included.
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn

    See Also
    --------
    AngularCalibratedClassifier : Calibrates it.

    Examples
    --------
    >>> from angcal import Lasso, Logit, MEstimator
    >>> from angcal.simulation import simulate
    >>> data = simulate(100, 20, link=Logit(scale=3), random_state=0)
    >>> MEstimator("huberised_hinge", Lasso(0.01)).fit(data.X, data.y).coef_.shape
    (1, 20)
    """

    def __init__(
        self,
        loss: Loss | str = "logistic",
        penalty: Penalty | None = None,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MEstimator:
        """Minimize the objective.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Training rows.
        y : (n,) array of two classes
            Their labels.
        sample_weight : (n,) array, optional
            Their weights.

        Returns
        -------
        MEstimator
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, **{**ARRAY_RULES, "ensure_min_samples": 2})
        self.classes_, labels = encode(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = weights > 0
        if len(np.unique(labels[kept])) < 2:
            raise ValueError("y has one class only among the rows of positive weight.")
        default = Ridge(1.0 / float(weights.sum()))
        start = LinearFit(
            X[kept],
            labels[kept],
            weights[kept],
            np.zeros(X.shape[1]),
            0.0,
            as_loss(self.loss),
            default if self.penalty is None else require_penalty(self.penalty),
            self.fit_intercept,
        )
        fit = minimize(start, tol=self.tol, max_iter=self.max_iter)
        self.n_iter_ = max(fit.iterations, 1)
        check_separable(fit)
        self._warn_unless_converged(fit)
        self.penalty_ = fit.penalty
        self.coef_, self.intercept_ = fit.coef[None, :], np.array([fit.intercept])
        return self

    def _warn_unless_converged(self, fit: LinearFit) -> None:
        residual = relative_residual(fit)
        # The solver may stop a little short where rounding in the objective ends its line search.
        if residual > 100.0 * self.tol:
            warn(
                f"The KKT residual stopped at {residual:.2g} of its size at zero weights. Raise "
                "max_iter or scale the columns.",
                ConvergenceWarning,
            )

    def decision_function(self, X: Any) -> Floats:
        """xᵀŵ + b̂.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            New rows.

        Returns
        -------
        (n,) array
            Scores.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **ARRAY_RULES)
        return np.asarray(X @ self.coef_[0], dtype=np.float64) + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """The class on whose side of the hyperplane x lies.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            New rows.

        Returns
        -------
        (n,) array
            Entries of ``classes_``.
        """
        # Before classes_ is looked up: it does not exist either on an unfitted model.
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]


@problem_of.register(MEstimator)
def _m_estimator(estimator: MEstimator) -> Problem:
    return Problem(
        as_loss(estimator.loss), estimator.penalty_, fit_intercept=estimator.fit_intercept
    )
