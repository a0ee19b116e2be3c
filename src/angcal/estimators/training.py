"""What a fit is given, checked: rows, codes of the classes, weights; and copies among the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_method_params, _check_sample_weight, validate_data

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import is_tensor, namespace_of, on_host, product, refuse_dask
from angcal.notices import RepeatedRowsWarning, warn
from angcal.observables import Observables
from angcal.rows import FarRows, Rows, as_rows

SMALLEST_SAMPLE = 5
# Copies of rows bias leave-one-out scores where they are common, and their steps a good part of the
# scores' spread or the fit follows single rows. Rows this close, as a share of the rows' spread,
# are copies.
LARGEST_REPEATED_SHARE, LARGEST_MOVE, LARGEST_FIT_SHARE, NEAR_COPY = 0.25, 0.1, 0.1, 1e-4
LEAST_AGREEMENT = 0.95
ARRAY_RULES: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_min_samples": 1,
}
# Entries of a tensor that are looked at together for NaN.
TENSOR_ENTRIES = 1 << 28


@dataclass(frozen=True, eq=False)
class Training:
    """Rows, labels and weights of a fit; rows of zero weight are dropped.

    Attributes
    ----------
    X : array, sparse matrix, dataframe, tensor or FarRows
        As the base model takes them.
    classes : (K,) array
    codes : (n,) array of float
        Places in ``classes``.
    weights : (n,) array
        Positive.
    weighted : bool
        Whether weights were given.
    fit_params : dict
        What else the base model's ``fit`` is to get.
    """

    X: Any
    classes: np.ndarray
    codes: Floats
    weights: Floats
    weighted: bool
    fit_params: dict[str, Any] = field(default_factory=dict)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def y(self) -> np.ndarray:
        """The labels, as they were given."""
        return self.classes[self.codes.astype(int)]

    @property
    def on_device(self) -> bool:
        """Whether X is a tensor that stays where it is."""
        return on_device(self.X)

    @property
    def is_far(self) -> bool:
        """Whether every pass reads the rows anew."""
        return isinstance(self.X, FarRows)

    def part(self, rows: np.ndarray) -> Training:
        """The rows of these numbers, with what of the fit parameters belongs to them."""
        return replace(
            self,
            X=_safe_indexing(self.X, rows),
            codes=self.codes[rows],
            weights=self.weights[rows],
            fit_params=_check_method_params(self.X, self.fit_params, indices=rows),
        )


def on_device(X: Any) -> bool:
    """Whether X is to stay where it is: a tensor, and scikit-learn's dispatch is on."""
    refuse_dask(X, "X")
    return bool(get_config()["array_api_dispatch"]) and is_tensor(X)


def validated(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    raw_rows: bool,
    many_classes: bool,
    fit_params: dict[str, Any] | None = None,
    far_intercept: bool | None = None,
) -> Training:
    """Check what a fit was given, and set the estimator's ``n_features_in_`` and names.

    Parameters
    ----------
    estimator : the estimator that is being fitted
    X, y, sample_weight
        As given.
    raw_rows : bool
        Whether X goes through a pipeline first, whose first step decides what it accepts.
    many_classes : bool
        Whether three and more classes are welcome.
    fit_params : dict, optional
        For the base model's ``fit``.
    far_intercept : bool, optional
        Whether there is an intercept, where rows may come in blocks; None where they may not.
    """
    for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
        refuse_dask(values, name)
    encode = encode_several if many_classes else encode_binary
    if on_device(X):
        if fit_params:
            raise TypeError(
                f"fit was given {', '.join(fit_params)}, but the solver for tensors takes no fit "
                "parameters; leave it out, or pass NumPy arrays."
            )
        return _validated_tensor(estimator, X, y, sample_weight, encode)
    far = far_rows(X, far_intercept)
    if far is not None:
        return far_training(estimator, far, y, sample_weight, encode)
    if raw_rows:
        # Whatever the pipeline's first step accepts is welcome here too.
        validate_data(estimator, X, y, skip_check_array=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
    else:
        X, y = validate_data(estimator, X, y, **ARRAY_RULES)
    classes, codes = encode(y)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = weights > 0
    if not kept.any():
        raise ValueError("sample_weight is zero everywhere; at least five rows must count.")
    training = Training(X, classes, codes, weights, sample_weight is not None, fit_params or {})
    if not kept.all():
        training = training.part(np.flatnonzero(kept))
        if len(classes) > 2:
            # A class whose rows all have no weight is as if it had never been there.
            present, places = np.unique(training.codes, return_inverse=True)
            classes, codes = classes[present.astype(int)], places.astype(np.float64)
            training = replace(training, classes=classes, codes=codes)
    return _enough(training)


def far_rows(X: Any, intercept: bool | None) -> FarRows | None:
    """X as rows that are read block by block: a large memory map, blocks, or a callable."""
    if isinstance(X, FarRows):
        return X
    blocks = isinstance(X, list | tuple) and len(X) > 0 and len(getattr(X[0], "shape", ())) == 2
    if callable(X) or blocks:
        if intercept is None:
            refuse_far()
        rows = as_rows(X, bool(intercept))
        assert isinstance(rows, FarRows)
        return rows
    large = isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes >= plan.MAPPED_BYTES
    if intercept is None or not large:
        return None
    return as_rows(X, intercept)  # type: ignore[return-value]


def refuse_far() -> None:
    """Raise for a model that needs all rows at once."""
    raise TypeError(
        "X comes in blocks, which takes LogisticRegression with its ridge penalty, a "
        "FrozenEstimator or a LinearHead, and no pipeline; pass one array for others."
    )


def far_training(
    estimator: Any,
    rows: FarRows,
    y: Any,
    sample_weight: Any,
    encode: Callable[[Any], Any] | None = None,
) -> Training:
    """Labels and weights in memory, one for each of the rows that are not."""
    classes, codes = (encode or encode_several)(column_or_1d(np.asarray(y), warn=True))
    if len(codes) != rows.shape[0]:
        raise ValueError(f"X has {rows.shape[0]} rows and y {len(codes)} labels; give one each.")
    weights = np.ones(len(codes))
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != codes.shape or not np.all(np.isfinite(weights) & (weights > 0)):
            raise ValueError(
                "sample_weight must be finite and positive, one per row of X, where rows come in "
                "blocks; drop rows of weight 0."
            )
    estimator.n_features_in_ = rows.shape[1]
    return _enough(Training(rows, classes, codes, weights, sample_weight is not None))


def _validated_tensor(
    estimator: Any, X: Any, y: Any, sample_weight: Any, encode: Callable[[Any], Any]
) -> Training:
    """Labels and weights on the host, one per row of a tensor."""
    check_tensor(X)
    y = y.cpu() if hasattr(y, "cpu") else y
    classes, codes = encode(column_or_1d(np.asarray(y), warn=True))
    if len(codes) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y {len(codes)} labels; give one each.")
    weights = np.ones(len(codes))
    if sample_weight is not None:
        weights = on_host(sample_weight)
        if weights.shape != codes.shape or not np.all(np.isfinite(weights) & (weights > 0)):
            raise ValueError(
                "sample_weight must be finite and positive, one per row of X, for tensors."
            )
    estimator.n_features_in_ = int(X.shape[1])
    return _enough(Training(X, classes, codes, weights, sample_weight is not None))


def _enough(training: Training) -> Training:
    codes = training.codes
    if codes.min() == codes.max():
        present = training.classes[int(codes[0])]
        raise ValueError(
            f"y has one class only ({present!r}); a classifier needs rows of two classes."
        )
    if len(codes) < SMALLEST_SAMPLE:
        raise ValueError(
            f"X has {len(codes)} rows with positive weight; at least {SMALLEST_SAMPLE} "
            "samples are needed to estimate an angle."
        )
    return training


def check_tensor(X: Any, n_features: int | None = None) -> None:
    """Raise unless X is a finite floating-point matrix, of so many columns if that is known."""
    xp = namespace_of(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix; got {X.ndim} dimensions. Reshape it to (n, d).")
    if X.dtype not in (xp.float32, xp.float64):
        raise ValueError(f"X has the type {X.dtype}; make it float32 or float64.")
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the fit was made with {n_features}.")
    rows = max(1, TENSOR_ENTRIES // max(int(X.shape[1]), 1))
    for start in range(0, int(X.shape[0]), rows):
        block = X[start : start + rows, :]
        # A finite sum proves its terms finite, without an array of flags.
        if not bool(xp.isfinite(xp.sum(block))) and not bool(xp.all(xp.isfinite(block))):
            raise ValueError("X contains NaN or infinity; impute or drop those rows first.")


def warn_about_repeats(X: Matrix, codes: Floats, observed: list[Observables]) -> None:
    """Warn if leaving one row out leaves its copies in, where that matters.

    A copy that stays moves the score of its row as much as the row itself does, γψ. That is
    harmless where it is small against the spread of the scores and the fit follows no single rows:
    fits of 30 to 2,000 rows with exact and near copies were worse than the base model from a tenth
    of the spread on, or where degrees of freedom are more than a tenth of the rows.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    codes : (n,) array
        Labels: copies have the same, rows of few values that are alike by chance have not.
    observed : list of Observables
    """
    if is_tensor(X):
        return
    moves = np.column_stack([found.loo_steps * found.residuals for found in observed])
    spread = np.sqrt(np.sum([np.var(found.loo_scores, axis=0).sum() for found in observed]))
    followed = np.sum([found.leverage_shares for found in observed], axis=0)
    moved = np.sqrt(np.mean(np.sum(moves**2, axis=1))) > LARGEST_MOVE * spread
    if not (moved or followed.sum() > LARGEST_FIT_SHARE * len(followed)):
        return
    repeated = has_copies(X, codes)
    if followed[repeated].sum() > LARGEST_REPEATED_SHARE * followed.sum():
        warn(
            f"{int(repeated.sum())} of {len(repeated)} rows of X have exact or near copies. "
            "Leaving a row out leaves its copies in, so probabilities will be too confident. Drop "
            "the copies, or give each distinct row a sample_weight.",
            RepeatedRowsWarning,
        )


def has_copies(X: Matrix, codes: Floats) -> np.ndarray:
    """Which rows have another one that differs by less than 1e-4 of the rows' spread.

    Told by three random projections that agree: rows next to each other along the first are
    compared along the other two. None, where labels of such rows differ as those of rows do that
    have few values.

    Examples
    --------
    >>> has_copies(np.array([[0.0, 1.0], [2.0, 3.0], [0.0, 1.0]]), np.array([0.0, 1.0, 0.0]))
    array([ True, False,  True])
    """
    directions = np.random.default_rng(0).normal(size=(X.shape[1], 3))
    if isinstance(X, Rows):
        marks = X.forward(np.vstack([directions, np.zeros((int(X.intercept), 3))]))
    else:
        marks = product(X, directions)
    spread = marks.std(axis=0)
    if not np.all(spread > 1e-12 * np.abs(marks).max(initial=0.0)):
        return np.zeros(len(marks), dtype=bool)  # rows that are all alike say nothing at all
    near = NEAR_COPY * spread
    order = np.argsort(marks[:, 0])
    alike = np.all(np.abs(np.diff(marks[order], axis=0)) <= near, axis=1)
    repeated = np.zeros(len(marks), dtype=bool)
    same = codes[order[1:][alike]] == codes[order[:-1][alike]]
    if np.mean(same) < LEAST_AGREEMENT if len(same) else True:
        return repeated
    repeated[order[1:][alike]] = repeated[order[:-1][alike]] = True
    return repeated


def encode_binary(y: Any) -> tuple[np.ndarray, Floats]:
    """(classes, labels): label 1.0 for the second class in sorted order.

    Examples
    --------
    >>> encode_binary(["no", "yes", "no"])[1]
    array([0., 1., 0.])
    """
    return _encoded(
        y,
        ("binary",),
        "Only binary classification is supported. The type of the target is {kind}.",
    )


def encode_several(y: Any) -> tuple[np.ndarray, Floats]:
    """(classes, codes): the place of each label among two or more sorted classes.

    Examples
    --------
    >>> encode_several(["red", "blue", "green"])[1]
    array([2., 0., 1.])
    """
    return _encoded(
        y,
        ("binary", "multiclass"),
        "y holds a target of type {kind}; one class for each row is needed.",
    )


def _encoded(y: Any, kinds: tuple[str, ...], refusal: str) -> tuple[np.ndarray, Floats]:
    """Classes and codes of a target of one of these kinds; the refusal names another kind."""
    known = _integer_classes(y)
    if known is not None:
        return known, (y == known[1]).astype(np.float64)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind not in kinds:
        raise ValueError(refusal.format(kind=kind))
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class only ({classes[0]!r}); a classifier needs two classes.")
    return classes, codes.astype(np.float64)


def _integer_classes(y: Any) -> np.ndarray | None:
    """The two classes of a plain array of integers or flags, which needs no further questions."""
    if not (isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iub"):
        return None
    if not len(y):
        return None
    # Two comparisons: sorting or hashing a large y to find two values takes several times as long.
    classes = np.array([y.min(), y.max()])
    two = classes[0] != classes[1] and bool(np.all((y == classes[0]) | (y == classes[1])))
    return classes if two else None
