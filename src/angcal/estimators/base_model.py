"""(A) ŵ: fit the base model, or keep the one that was trained elsewhere, and read its problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.validation import has_fit_parameter

from angcal._typing import Floats, Matrix
from angcal.estimators.training import Training
from angcal.leverages import SingularHessianError
from angcal.losses import BlockLoss, Logistic, Multinomial
from angcal.notices import OptimalityWarning, warn
from angcal.problem import LinearFit, check_separable, ridge_fit
from angcal.rows import Rows, TensorRows
from angcal.sklearn_problems import LinearHead, problem_of, read_fits, unwrap
from angcal.sklearn_problems.reader import class_factors
from angcal.solvers.minimize import minimize
from angcal.solvers.newton_cg import NewtonCG, Solution
from angcal.threads import side_pools_at_rest

# Scores that still have this share of their spread to move are not those of the optimum. Under a
# weak penalty twice as much already moves the angle by a good part of its standard error.
LARGEST_DISTANCE = 0.02
# Of an intercept that nothing else holds: as if one of 10⁴/√N, far beyond any log-odds, were usual.
WEAKEST_RIDGE = 1e-8


def is_trained_elsewhere(model: Any) -> bool:
    """Whether the model is kept as it is."""
    return isinstance(model, FrozenEstimator | LinearHead)


def takes_raw_rows(model: Any) -> bool:
    """Whether rows pass through a pipeline first, so that frames and strings may go in."""
    while isinstance(model, FrozenEstimator):
        model = model.estimator
    return isinstance(model, Pipeline)


def takes_many_classes(model: Any) -> bool:
    """Whether the base model, as scikit-learn's tags tell, takes three and more classes."""
    while isinstance(model, FrozenEstimator | Pipeline):
        model = model.estimator if isinstance(model, FrozenEstimator) else model.steps[-1][1]
    if not isinstance(model, BaseEstimator):
        return False
    about = get_tags(model).classifier_tags
    return about is not None and about.multi_class


def fit_base(model: Any, training: Training) -> Any:
    """A fitted clone of the model, or the model itself where it was trained elsewhere."""
    if is_trained_elsewhere(model):
        if training.fit_params:
            raise TypeError(
                f"fit was given {', '.join(training.fit_params)}, but the model was trained "
                "elsewhere and is not fitted again; leave it out."
            )
        _check_classes(unwrap(model)[1], training.classes)
        return model
    weights = training.weights if training.weighted else None
    return _fit_clone(model, training.X, training.y, weights, training.fit_params)


def fit_params_for(owner: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
    """What of ``fit(..., **fit_params)`` goes to the base model: all, or as routing says."""
    if not (fit_params and get_config()["enable_metadata_routing"]):
        return fit_params
    return process_routing(owner, "fit", **fit_params).estimator.fit


def routing_of(owner: Any, model: Any, own: Any) -> MetadataRouter:
    """Routing of a classifier around a base model: its own requests, and those of the model.

    Weights are part of the loss and always reach the base model, which need not ask for them.
    """
    router = MetadataRouter(owner=owner.__class__.__name__).add_self_request(own)
    mapping = MethodMapping().add(caller="fit", callee="fit")
    asked = _without_weights(get_routing_for_object(model))
    return router.add(estimator=asked, method_mapping=mapping)


def _without_weights(routing: Any) -> Any:
    """The same requests but that for sample_weight, which is not routed."""
    if isinstance(routing, MetadataRouter):
        for _, step in routing:
            _without_weights(step.router)
    elif "sample_weight" in routing.fit.requests:
        routing.fit.add_request(param="sample_weight", alias=False)
    return routing


def _check_classes(trained: Any, classes: np.ndarray) -> None:
    """Scores of a model trained elsewhere only mean something for the labels it knows."""
    known = np.asarray(getattr(trained, "classes_", classes))
    if np.array_equal(known, classes):
        return
    way_out = "Use the labels it was trained with."
    if isinstance(trained, LinearHead):
        way_out = f"Pass classes={classes.tolist()} to LinearHead, the positive label last"
        if np.array_equal(known[::-1], classes):
            way_out += ", and -coef and -intercept to turn its score around"
        way_out += "."
    raise ValueError(
        f"y holds the classes {classes.tolist()}, but the fitted model knows {known.tolist()}. "
        f"{way_out}"
    )


def _leaves_scipy_idle(model: Any) -> bool:
    """Whether a fit asks nothing heavy of SciPy: L-BFGS, perhaps behind scalers and encoders.

    Other solvers and transformers factorize matrices with SciPy and have use for all its threads.
    """
    if isinstance(model, Pipeline):
        front = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        light = all(type(step).__module__.startswith("sklearn.preprocessing") for step in front)
        return light and _leaves_scipy_idle(model.steps[-1][1])
    return isinstance(model, LogisticRegression) and model.solver == "lbfgs"


def _fit_clone(
    model: Any, X: Any, y: Any, sample_weight: Floats | None, fit_params: dict[str, Any]
) -> Any:
    with side_pools_at_rest() if _leaves_scipy_idle(model) else nullcontext(), _worded(model):
        if sample_weight is None:
            return clone(model).fit(X, y, **fit_params)
        if isinstance(model, Pipeline):
            return _fit_pipeline(model, X, y, sample_weight, fit_params)
        heads = isinstance(model, OneVsRestClassifier)
        if not has_fit_parameter(model.estimator if heads else model, "sample_weight"):
            raise TypeError(
                f"sample_weight was given, but {type(model).__name__}.fit does not take one."
            )
        fitted = clone(model)
        if not heads:
            return fitted.fit(X, y, sample_weight=sample_weight, **fit_params)
        # One-vs-rest heads get weights by metadata routing alone.
        with config_context(enable_metadata_routing=True):
            fitted.estimator.set_fit_request(sample_weight=True)
            return fitted.fit(X, y, sample_weight=sample_weight, **fit_params)


@contextmanager
def _worded(model: Any) -> Iterator[None]:
    """Errors of the arithmetic inside of a base model, with what to do about them."""
    try:
        yield
    except (ArithmeticError, np.linalg.LinAlgError, ValueError) as error:
        # scikit-learn's own sentences name what is wrong; those of NumPy and SciPy do not.
        plain = isinstance(error, ValueError) and "infs or NaNs" not in str(error)
        if plain and not isinstance(error, np.linalg.LinAlgError):
            raise
        raise ValueError(
            f"{type(model).__name__} cannot be fitted to these X and sample_weight "
            f"({type(error).__name__}: {error}); scale them to be about 1, or strengthen its "
            "penalty."
        ) from error


def _fit_pipeline(
    pipeline: Pipeline, X: Any, y: Any, sample_weight: Floats, fit_params: dict[str, Any]
) -> Pipeline:
    """Fit step by step, so that weights reach the linear model whatever the routing settings."""
    fitted, rows = clone(pipeline), X
    name, last = fitted.steps[-1]
    before, of_last = _split_params(fitted, fit_params)
    if len(fitted.steps) > 1:
        front = fitted[:-1]
        rows = front.fit_transform(X, y, **before)
        # With a memory the pipeline fits copies of its steps, in the slice only.
        fitted.steps[:-1] = front.steps
    fitted.steps[-1] = (name, _fit_clone(last, rows, y, sample_weight, of_last))
    return fitted


def _split_params(
    pipeline: Pipeline, fit_params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fit parameters of the steps before the last, and of the last."""
    name = pipeline.steps[-1][0]
    if not get_config()["enable_metadata_routing"]:
        mark = f"{name}__"
        of_last = {k.removeprefix(mark): v for k, v in fit_params.items() if k.startswith(mark)}
        return {k: v for k, v in fit_params.items() if not k.startswith(mark)}, of_last
    if not fit_params:
        return {}, {}
    asked = get_routing_for_object(pipeline[:-1]).consumes("fit_transform", fit_params)
    of_last = process_routing(pipeline, "fit", **fit_params)[name].fit
    return {k: v for k, v in fit_params.items() if k in asked}, of_last


# -- on a device -----------------------------------------------------------------------------


def prepared(model: Any, training: Training) -> tuple[Any, Floats, BlockLoss]:
    """(A clone that knows its classes, weights of rows times those of their classes, the loss)."""
    fitted = clone(model)
    fitted.classes_, fitted.n_features_in_ = training.classes, int(training.X.shape[1])
    given = (model.class_weight, training.classes, training.codes, training.weights)
    weights = training.weights * class_factors(*given)
    two = training.n_classes == 2
    return fitted, weights, Logistic() if two else Multinomial(training.n_classes)


def solve_on_device(model: Any, training: Training) -> tuple[Any, NewtonCG, Solution]:
    """Ridge logistic regression where X is: (the fitted model, its problem, its solution)."""
    strength = ridge_strength(model)
    fitted, weights, loss = prepared(model, training)
    rows = TensorRows(training.X, bool(model.fit_intercept))
    problem = NewtonCG(rows, training.codes, weights, np.array([strength]), loss)
    solution = problem.solve(tol=0.0, gradient_tol=model.tol)
    gradient = float(solution.gradient[0])
    # Rounding of single precision alone can keep a gradient somewhat above a small tol.
    if gradient > 10.0 * model.tol:
        warn(
            f"The fit stopped at a gradient of {gradient:.1e}, above tol={model.tol:g}; "
            "raise tol, strengthen the penalty, or pass a tensor of type float64.",
            ConvergenceWarning,
        )
    fitted.coef_, fitted.intercept_ = solution.coef.T, solution.intercepts
    fitted.n_iter_ = np.array([solution.newton_steps])
    return fitted, problem, solution


def fit_or_read_on_device(model: Any, training: Training) -> tuple[Any, LinearFit]:
    """(the fitted model, its fit), or a model that was trained elsewhere as it is."""
    if not is_trained_elsewhere(model):
        fitted, problem, solution = solve_on_device(model, training)
        return fitted, ridge_fit(problem, solution, "randomised")
    rows = TensorRows(training.X, bool(problem_of(unwrap(model)[1]).fit_intercept))
    fits, _ = read_base(
        fit_base(model, training), rows, training, method="randomised", polish=False
    )
    if len(fits) > 1:
        raise TypeError("one-vs-rest heads do not take tensors; pass NumPy arrays.")
    return model, fits[0]


def is_ridge(model: Any) -> bool:
    """Whether the model is a logistic regression with a ridge penalty of given strength."""
    plain = isinstance(model, LogisticRegression) and not isinstance(model, LogisticRegressionCV)
    l1_ratio, penalty = getattr(model, "l1_ratio", None), getattr(model, "penalty", "l2")
    return plain and l1_ratio in (None, 0, 0.0) and penalty in ("l2", "deprecated")


def ridge_strength(model: Any) -> float:
    """λ = 1/C of a ridge LogisticRegression; others are refused."""
    if not is_ridge(model):
        raise TypeError(
            f"estimator={model!r} cannot be fitted on a device; use LogisticRegression with its "
            "ridge penalty, or pass NumPy arrays."
        )
    if not np.isfinite(model.C):
        raise ValueError(
            f"C={model.C} leaves no penalty, which a fit on a device needs; pass a finite C, or "
            "NumPy arrays."
        )
    return 1.0 / float(model.C)


# -- reading ---------------------------------------------------------------------------------


def read_base(
    model: Any, rows: Matrix, training: Training, *, method: str, polish: bool
) -> tuple[list[LinearFit], float]:
    """The fits behind the base model, polished if asked, and how far they were from their optimum.

    One for two classes and for a joint fit of more, one for each class for one-vs-rest heads.
    ``rows`` are those that the linear model sees; ``method`` is that of the leverages.
    """
    _, linear = unwrap(model)
    fits = [
        replace(fit, hessian_method=method)
        for fit in read_fits(linear, rows, training.codes, training.weights)
    ]
    for fit in fits:
        _check_columns(fit)
        check_separable(fit)
    fits = _held(fits)
    # Without weights the scores have no spread to measure by.
    distances = [fit.distance_to_optimum for fit in fits if np.any(fit.coef)]
    distance = float(max(distances, default=np.nan))
    if polish:
        fits = _held([polished(fit) for fit in fits])
    elif distance > LARGEST_DISTANCE:
        warn_of_distance(distance, is_trained_elsewhere(model), training.n_classes == 2)
    return fits, distance


def _held(fits: list[LinearFit]) -> list[LinearFit]:
    """The fits, with a weak ridge on an intercept that no row has the curvature to hold.

    Under scores of many thousands a likelihood and a hinge are flat. Leaving a row out then moves
    nothing, but the Hessian cannot be inverted.
    """
    flat = [fit for fit in fits if _is_flat(fit)]
    if not flat:
        return fits
    largest = max(float(np.abs(fit.scores).max()) for fit in flat)
    warn(
        f"The loss is flat at the scores of the base model, which reach {largest:.2g}, so that "
        "nothing determines its intercept; it is held where it is. Scale the columns, for example "
        "with StandardScaler, or strengthen the penalty.",
        OptimalityWarning,
    )
    return [replace(fit, intercept_strength=WEAKEST_RIDGE) if fit in flat else fit for fit in fits]


def _is_flat(fit: LinearFit) -> bool:
    """Whether the weights have a penalty but nothing determines the intercept."""
    Q = np.asarray(fit.penalty.curvature(fit.coef))
    penalized = bool(np.all((np.diag(Q) if Q.ndim == 2 and fit.coef.ndim == 1 else Q) > 0))
    if not (penalized and fit.fit_intercept and fit.intercept_strength == 0):
        # Where weights without penalty are not determined, the error of the Hessian says so.
        return False
    if np.any(fit.curvatures.sum(axis=0) <= WEAKEST_RIDGE * fit.total_weight):
        return True
    try:
        _ = fit.coef.ndim > 1 or fit.hessian
    except SingularHessianError:
        return True
    return False


def polished(fit: LinearFit) -> LinearFit:
    """The same problem at its optimum."""
    exact = minimize(replace(fit, hessian_method="exact"))
    return replace(exact, hessian_method=fit.hessian_method)


def warn_of_distance(distance: float, elsewhere: bool, can_polish: bool) -> None:
    """Warn that scores would still move by a good part of their spread."""
    way_out = "lower the model's tolerance"
    if elsewhere:
        way_out = "pass the rows it was trained on and its own penalty"
    if can_polish:
        way_out += ", or polish=True to finish the fit"
    share = f"{distance:.1%} of" if distance < 10.0 else "more than ten times"
    warn(
        f"The base model is not at the optimum of its objective: its scores would still "
        f"move by {share} their standard deviation. The observables assume the optimum; "
        f"{way_out}.",
        OptimalityWarning,
    )


def _check_columns(fit: LinearFit) -> None:
    """Name the constant columns that make an unpenalized fit singular."""
    if np.any(fit.penalty.curvature(fit.coef)) or fit.penalty.l1 > 0:
        return
    if isinstance(fit.X, Rows):
        return  # not worth a pass: the error of the Hessian says the same
    bounds = (fit.X.min(axis=0), fit.X.max(axis=0))
    low, high = (b.toarray().ravel() if sparse.issparse(b) else b for b in bounds)
    constant = np.flatnonzero(low == high)
    if len(constant) and fit.fit_intercept:
        raise ValueError(
            f"X has {len(constant)} constant columns (the first are {constant[:5].tolist()}) and "
            "the fit has no penalty, so its weights there are arbitrary. Drop them, or add a "
            "ridge penalty."
        )
