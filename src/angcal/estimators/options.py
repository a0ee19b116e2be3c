"""Options of the angular classifiers: checked, refused where a fit cannot follow them, resolved."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import validate_data

from angcal._typing import Matrix
from angcal.calibrate import ANGLE_METHODS
from angcal.estimators.training import Training
from angcal.links import Link, Logit, as_link
from angcal.links.multiclass import SeveralLink, Softmax
from angcal.notices import PoolWarning, warn
from angcal.pools import Pool, open_pool, row_moments
from angcal.rows import Rows

# "client" and "callback" are parameters of angcal.dask.
SHARED_PARAMETERS = ("pool", "covariance", "client", "callback")
OBSERVABLES = ("auto", "exact", "randomised")
# A pool whose columns typically sit half a standard deviation away was not made like X.
LARGEST_SHIFT, LARGEST_SCALE_RATIO = 0.5, 2.0


def check_options(estimator: Any) -> None:
    """Raise where angle, confidence or observables are none of the things they can be."""
    angle, confidence = estimator.angle, estimator.confidence
    named = isinstance(angle, str) and angle in ANGLE_METHODS
    if not named and not isinstance(angle, Real):
        raise ValueError(
            f"angle={angle!r} is not a method; use one of {list(ANGLE_METHODS)} or the "
            "cosine as a number in [-1, 1]."
        )
    if isinstance(angle, Real) and not -1.0 <= float(angle) <= 1.0:
        raise ValueError(f"angle={angle!r} is meant as a cosine; it must lie in [-1, 1].")
    if not (isinstance(confidence, Real) and 0.0 < float(confidence) < 1.0):
        raise ValueError(f"confidence={confidence!r} must lie between 0 and 1; 0.95 means 95 %.")
    check_observables(estimator.observables)
    resolved_link(estimator.link)


def check_observables(observables: Any) -> None:
    """Raise unless this is a way to compute leverages."""
    if observables not in OBSERVABLES:
        raise ValueError(f"observables={observables!r} must be one of {', '.join(OBSERVABLES)}.")


def resolved_link(link: Any) -> tuple[Link, bool]:
    """(link, whether it is known): a name or None is a family, anything else is known."""
    if link is None or isinstance(link, SeveralLink):
        return Logit(), False
    return as_link(link), not isinstance(link, str)


def is_for_many_classes(link: Any) -> bool:
    """Whether three and more classes can have this link: not one of a single index."""
    return link is None or isinstance(link, SeveralLink) or link == "logit"


def resolved_softmax(link: Any, n_classes: int) -> Softmax | None:
    """The link as a softmax of so many classes, or None where all of it is estimated."""
    if not isinstance(link, SeveralLink):
        return None
    if not isinstance(link, Softmax):
        raise ValueError(
            f"link={type(link).__name__}(...) is no link of {n_classes} classes; leave it None, "
            "or pass angcal.links.multiclass.Softmax."
        )
    if link.n_classes != n_classes:
        raise ValueError(f"link is a softmax of {link.n_classes} classes; y has {n_classes}.")
    if link.covariance is None and np.any(link.offset):
        raise ValueError(
            "link is a softmax with an offset but without covariance, and offsets are only "
            "known together with it; pass both, or neither to have them estimated."
        )
    return link


def refuse_options(estimator: Any, training: Training, pool: Any) -> None:
    """Name an option that a fit of this many classes, or on a device, cannot follow."""
    K, link = training.n_classes, estimator.link
    if K == 2 and isinstance(link, SeveralLink):
        raise ValueError(
            f"link={type(link).__name__}(...) is for three or more classes, and y has "
            "two; use Logit(scale, offset) or leave it None."
        )
    names = ("covariance", "sign_holdout")
    given = {"pool": pool, **{name: getattr(estimator, name, None) for name in names}}
    if K > 2:
        resolved_softmax(link, K)
        _refuse(
            {"sign_holdout": given["sign_holdout"]},
            f"is for two classes, and y has {K}; leave it None.",
        )
        if not isinstance(estimator.angle, str):
            raise ValueError(
                f"angle={estimator.angle!r} is for two classes, and y has {K}; use one of "
                f"{list(ANGLE_METHODS)}."
            )
        if getattr(estimator, "polish", False):
            raise ValueError(
                f"polish=True is for two classes, and y has {K}; lower the model's tol instead."
            )
    if training.is_far:
        for name, value in {"polish": True, "average": "folds"}.items():
            if getattr(estimator, name, None) == value:
                raise ValueError(
                    f"{name}={value!r} needs rows in memory, and X comes in blocks; leave its "
                    "default."
                )
    if training.on_device:
        _refuse(given, "is not taken with tensors; leave it None, or pass NumPy arrays.")
        impossible = {"observables": "exact", "angle": "observable", "polish": True}
        for name, value in impossible.items():
            asked = getattr(estimator, name)
            if isinstance(asked, type(value)) and asked == value:
                raise ValueError(
                    f"{name}={value!r} is not possible with tensors; leave its default, or pass "
                    "NumPy arrays."
                )


def _refuse(given: dict[str, Any], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} {why}")


def open_like(
    estimator: Any, pool: Any, X: Matrix, prepare: Callable[[Any, str], Matrix]
) -> Pool | None:
    """The pool, whose blocks are checked and transformed as they are read."""
    if pool is None:
        return None
    opened = open_pool(pool, X.shape[1], prepare=prepare, min_rows=2)
    covariance, angle = estimator.covariance, estimator.angle
    known = covariance is not None and not isinstance(covariance, BaseEstimator)
    if isinstance(angle, str) and angle != "loo" and not known:
        opened.require_many_passes(f"angle={angle!r}")
    return opened


def rows_like(estimator: Any, rows: Any, name: str, transform: Callable[[Any], Matrix]) -> Matrix:
    """Unlabelled rows, checked against X's columns; errors name the argument."""
    try:
        # Columns only: entries are checked below, under the argument's own name.
        validate_data(estimator, rows, reset=False, skip_check_array=True)
    except ValueError as error:
        raise ValueError(
            f"{name} does not fit X: {error} Pass rows with the same columns as X."
        ) from error
    try:
        return transform(rows)
    except ValueError as error:
        # A transformer calls whatever it is given X.
        if name in str(error):
            raise
        raise ValueError(f"{name}: {error}") from error


def clone_sharing(estimator: Any) -> Any:
    """A clone that shares large unlabelled arrays, which are never written to."""
    params = {
        name: value if name in SHARED_PARAMETERS else clone(value, safe=False)
        for name, value in estimator.get_params(deep=False).items()
    }
    if not isinstance(estimator.covariance, np.ndarray):
        params["covariance"] = clone(estimator.covariance, safe=False)
    copy = type(estimator)(**params)
    for attribute in ("_metadata_request", "_sklearn_output_config"):
        if hasattr(estimator, attribute):
            setattr(copy, attribute, deepcopy(getattr(estimator, attribute)))
    return copy


def forget(estimator: Any, name: str) -> None:
    """Delete what an earlier fit, of another number of classes, may have left."""
    if hasattr(estimator, name):
        delattr(estimator, name)


def warn_if_unlike(pool: Pool | None, X: Matrix) -> None:
    """Warn where pool and X are typically centred or scaled differently: a missed transformer."""
    if pool is None:
        return
    # What the pass for the scores has found; X is surveyed in the same bounded blocks.
    rows = row_moments(X) if isinstance(X, Rows) else open_pool(X, X.shape[1]).columns
    pool_mean, pool_sd = pool.columns.mean, pool.columns.deviation
    mean, sd = rows.mean, rows.deviation
    moving = (sd > 0) & (pool_sd > 0)
    if not moving.any():
        return
    shift = np.median(np.abs(pool_mean - mean)[moving] / np.maximum(sd, pool_sd)[moving])
    ratio = np.exp(np.median(np.abs(np.log(pool_sd[moving] / sd[moving]))))
    # The median forgives a few wild columns, the total forgives many rare ones, whose few
    # non-zero entries say little about their spread: only both together tell.
    total = np.exp(np.abs(np.log(np.linalg.norm(pool_sd) / np.linalg.norm(sd))))
    # What two samples of these sizes differ by anyway, twice.
    noise = 2.0 * np.sqrt(1.0 / rows.count + 1.0 / pool.n_rows)
    shifted = shift > LARGEST_SHIFT + noise
    if shifted or min(ratio, total) > LARGEST_SCALE_RATIO * np.exp(noise):
        warn(
            f"The pool does not look like X: its columns are typically {shift:.1f} standard "
            f"deviations away and scaled by a factor {ratio:.1f}. If X went through transformers "
            "first, put the whole Pipeline inside: AngularCalibratedClassifier(make_pipeline("
            "StandardScaler(), LogisticRegression()), pool=raw_pool).",
            PoolWarning,
        )
