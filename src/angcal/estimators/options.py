"""Options of the angular classifiers: checked, refused where a fit cannot follow them, resolved."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Matrix
from angcal.arrays import is_tensor, refuse_dask
from angcal.calibrate import ANGLE_METHODS
from angcal.estimators.training import Training
from angcal.links import Link, Logit, as_link
from angcal.links.multiclass import MulticlassLink, Softmax
from angcal.notices import PoolWarning, warn
from angcal.pools import Pool, open_pool, row_moments
from angcal.rows import Rows, as_rows


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
    refuse_dask(estimator.covariance, "covariance")
    holdout = getattr(estimator, "sign_holdout", None)
    for part in holdout if isinstance(holdout, tuple | list) else ():
        refuse_dask(part, "sign_holdout")


def check_observables(observables: Any) -> None:
    """Raise unless this is a way to compute leverages."""
    if observables not in ("auto", "exact", "randomised"):
        raise ValueError(f"observables={observables!r} must be one of auto, exact, randomised.")


def resolved_link(link: Any) -> tuple[Link, bool]:
    """(link, whether it is known): a name or None is a family, anything else is known."""
    if link is None or isinstance(link, MulticlassLink):
        return Logit(), False
    return as_link(link), not isinstance(link, str)


def is_for_many_classes(link: Any) -> bool:
    """Whether three and more classes can have this link: not one of a single index."""
    return link is None or isinstance(link, MulticlassLink) or link == "logit"


def resolved_softmax(link: Any, n_classes: int) -> Softmax | None:
    """The link as a softmax of so many classes, or None where all of it is estimated."""
    if not isinstance(link, MulticlassLink):
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
    if K == 2 and isinstance(link, MulticlassLink):
        raise ValueError(
            f"link={type(link).__name__}(...) is for three or more classes, and y has "
            "two; use Logit(scale, offset) or leave it None."
        )
    if K == 2 and not (training.is_far or training.on_device):
        return
    asked = {**estimator.get_params(deep=False), "pool": pool}
    angle, for_two = asked["angle"], f"is for two classes, and y has {K};"
    refused: dict[str, bool] = {}  # a message, and whether it applies
    if K > 2:
        resolved_softmax(link, K)
        refused |= {
            f"sign_holdout {for_two} leave it None": asked.get("sign_holdout") is not None,
            f"{angle=} {for_two} use one of {list(ANGLE_METHODS)}": not isinstance(angle, str),
            f"polish=True {for_two} lower the model's tol instead": asked.get("polish", False),
        }
    if training.is_far:
        refused |= {
            f"{name}={value!r} needs rows in memory, and X comes in blocks; leave its default": (
                asked.get(name) == value
            )
            for name, value in (("polish", True), ("average", "folds"))
        }
    if training.on_device:
        refused |= {
            f"{name} is not taken with tensors; leave it None, or pass NumPy arrays": value
            is not None
            for name, value in asked.items()
            if name == "sign_holdout"
        }
        refused |= {
            f"{name}={value!r} is not possible with tensors; leave its default, or pass NumPy "
            "arrays": asked[name] == value
            for name, value in (("observables", "exact"), ("polish", True))
            if name in asked
        }
    for message, applies in refused.items():
        if applies:
            raise ValueError(f"{message}.")


def warn_if_unlike(pool: Pool | None, X: Matrix) -> None:
    """Warn where pool and X are typically centered or scaled differently: a missed transformer."""
    if pool is None:
        return
    if pool.n_rows < plan.FEWEST_ROWS:
        known = 1.0 / np.sqrt(2.0 * max(pool.n_rows - 1, 1))
        warn(
            f"The pool has {pool.n_rows} rows, which tell the spread of the scores to no better "
            f"than {known:.0%}. Pass {plan.FEWEST_ROWS} or more, or no pool.",
            PoolWarning,
        )
    # What the pass for the scores has found; X is surveyed in the same bounded blocks.
    if isinstance(X, Rows) or is_tensor(X):
        rows = row_moments(as_rows(X, getattr(X, "intercept", False)))
    else:
        rows = open_pool(X, X.shape[1]).columns
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
    # A pool whose columns typically sit half a standard deviation away was not made like X.
    if shift > 0.5 + noise or min(ratio, total) > 2.0 * np.exp(noise):
        warn(
            f"The pool does not look like X: its columns are typically {shift:.1f} standard "
            f"deviations away and scaled by a factor {ratio:.1f}. If X went through transformers "
            "first, put the whole Pipeline inside: AngularCalibratedClassifier(make_pipeline("
            "StandardScaler(), LogisticRegression()), pool=raw_pool).",
            PoolWarning,
        )
