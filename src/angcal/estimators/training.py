"""What a fit is given, checked: rows, codes of the classes, weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_method_params, _check_sample_weight, validate_data

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import is_tensor, keep_freed_memory, namespace_of, on_host, refuse_dask, slices
from angcal.estimators.repeats import copies
from angcal.leverages.groups import Groups, groups_of
from angcal.rows import FarRows, as_rows

SMALLEST_SAMPLE = 5
ARRAY_RULES: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_min_samples": 1,
}


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
    groups : (n,) array, "copies" or None
        Which rows belong together.
    """

    X: Any
    classes: np.ndarray
    codes: Floats
    weights: Floats
    weighted: bool
    fit_params: dict[str, Any] = field(default_factory=dict)
    groups: Any = None

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def y(self) -> np.ndarray:
        """The labels, as they were given."""
        return self.classes[self.codes.astype(int)]

    @property
    def class_counts(self) -> Floats:
        """(K,) rows of each class; with weights their sums, scaled to (Σω)²/Σω² in all."""
        codes, w = self.codes.astype(np.intp), self.weights
        sums = np.bincount(codes, w, self.n_classes).astype(np.float64)
        return sums * float(w.sum() / np.sum(w**2))

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
            groups=self.groups[rows] if isinstance(self.groups, np.ndarray) else self.groups,
        )

    def groups_of(self, X: Matrix) -> Groups | None:
        """Rows that belong together; copies are rows alike as the linear model sees them."""
        if self.groups is None:
            return None
        found = groups_of(copies(X) if isinstance(self.groups, str) else self.groups)
        if found.count < 2:
            raise ValueError(
                "groups has one value only, so that nothing is left without it; give each "
                "patient, plate or document a value of its own."
            )
        return None if found.count == len(found.codes) else found


def on_device(X: Any, name: str = "X") -> bool:
    """Whether X is to stay where it is: a tensor, and scikit-learn's dispatch is on."""
    refuse_dask(X, name)
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
    groups: Any = None,
    far_intercept: bool | None = None,
) -> Training:
    """Check what a fit was given, and set the estimator's ``n_features_in_``, names and classes.

    What an earlier fit of another kind may have left is deleted. With `raw_rows` X goes through a
    pipeline first, whose first step decides what it accepts. `fit_params` are for the base model.
    `far_intercept` says whether there is an intercept, where rows may come in blocks; None where
    they may not.
    """
    keep_freed_memory()
    for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight), ("groups", groups)):
        refuse_dask(values, name)
    groups = checked_groups(groups, y)
    X = near_if_wide(X)
    if on_device(X):
        if fit_params:
            raise TypeError(
                f"fit was given {', '.join(fit_params)}, but the solver for tensors takes no fit "
                "parameters; leave it out, or pass NumPy arrays."
            )
        training = _checked_tensor(estimator, X, y, sample_weight, many_classes)
        training = replace(training, groups=groups)
    elif (far := far_rows(X, far_intercept)) is not None:
        return far_training(estimator, far, y, sample_weight, many_classes, groups)
    else:
        if raw_rows:
            # Whatever the pipeline's first step accepts is welcome here too.
            validate_data(estimator, X, y, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            X, y = validate_data(estimator, X, y, **ARRAY_RULES)
        labels = encode(y, many_classes)
        training = _weighted(X, *labels, sample_weight, fit_params or {}, groups)
    return _begun(estimator, training)


def _begun(estimator: Any, training: Training) -> Training:
    """Training with enough rows; the estimator has its classes and nothing of an earlier fit."""
    codes, estimator.classes_ = training.codes, training.classes
    estimator.class_counts_ = training.class_counts
    if codes.min() == codes.max():
        only = training.classes[int(codes[0])]
        raise ValueError(f"y has one class only ({only!r}); a classifier needs rows of two.")
    if len(codes) < SMALLEST_SAMPLE:
        raise ValueError(
            f"X has {len(codes)} rows with positive weight; at least {SMALLEST_SAMPLE} "
            "samples are needed to estimate an angle."
        )
    left = ("passes_", "observables_", "distance_to_optimum_", "scale_", "calibration_")
    for name in (*left, "prevalence_"):
        vars(estimator).pop(name, None)
    return training


def _weighted(
    X: Any,
    classes: np.ndarray,
    codes: Floats,
    sample_weight: Any,
    fit_params: dict[str, Any],
    groups: Any,
) -> Training:
    """Rows of positive weight, and the classes that they have."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = weights > 0
    if not kept.any():
        raise ValueError("sample_weight is zero everywhere; at least five rows must count.")
    least, most = weights[kept].min(), weights.max()
    # Products of weights and squares of X are formed; beyond this they may be no numbers.
    if least < 1e-100 or most > 1e100:
        raise ValueError(
            f"sample_weight goes from {least:.2g} to {most:.2g}, too far from 1 to be computed "
            "with; multiply it by a number so that weights are about 1, or leave such rows out."
        )
    weighted = sample_weight is not None
    training = Training(X, classes, codes, weights, weighted, fit_params, groups)
    if kept.all():
        return training
    training = training.part(np.flatnonzero(kept))
    if len(classes) > 2:
        # A class whose rows all have no weight is as if it had never been there.
        present, places = np.unique(training.codes, return_inverse=True)
        classes, codes = classes[present.astype(int)], places.astype(np.float64)
        training = replace(training, classes=classes, codes=codes)
    return training


def checked_groups(groups: Any, y: Any) -> Any:
    """One value for each row, or "copies"."""
    if groups is None or (isinstance(groups, str) and groups == "copies"):
        return groups
    if isinstance(groups, str):
        raise ValueError(f"groups={groups!r} must be one value for each row, or 'copies'.")
    found = column_or_1d(np.asarray(groups))
    if len(found) != len(y):
        raise ValueError(f"groups has {len(found)} values and y {len(y)}; give one for each row.")
    missing = np.array([value is None or str(value) in ("nan", "NaT", "<NA>") for value in found])
    if missing.any():
        raise ValueError(
            f"groups has {int(missing.sum())} missing values; give rows that belong to no other "
            "a value of their own."
        )
    return found


def near_if_wide(X: Any) -> Any:
    """Blocks as one array where columns outnumber rows and all fit into memory easily.

    Paths then work on the rows' side, with penalties of its scale, and in a fraction of the time.
    """
    if not (isinstance(X, list | tuple) and len(X) > 0 and len(getattr(X[0], "shape", ())) == 2):
        return X
    n, d = sum(int(block.shape[0]) for block in X), int(X[0].shape[1])
    if n >= d or 8 * n * d >= plan.MAPPED_BYTES or any(is_tensor(block) for block in X):
        return X
    alike = {int(block.shape[1]) for block in X} == {d}
    stack = sparse.vstack if all(sparse.issparse(block) for block in X) else np.vstack
    return stack(X) if alike else X


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
    many_classes: bool,
    groups: Any = None,
) -> Training:
    """Labels and weights in memory, one for each of the rows that are not."""
    given = (rows, y, sample_weight, many_classes)
    # One number for all of many rows.
    labeled = _labels_and_weights(*given, np.broadcast_to(1.0, rows.shape[0]), "in blocks")
    estimator.n_features_in_ = rows.shape[1]
    training = Training(rows, *labeled, sample_weight is not None, groups=groups)
    return _begun(estimator, training)


def _checked_tensor(
    estimator: Any, X: Any, y: Any, sample_weight: Any, many_classes: bool
) -> Training:
    """Labels and weights on the host, one per row of a tensor."""
    check_tensor(X)
    given = (X, y.cpu() if hasattr(y, "cpu") else y, sample_weight, many_classes)
    labeled = _labels_and_weights(*given, np.ones(X.shape[0]), "in a tensor")
    estimator.n_features_in_ = int(X.shape[1])
    return Training(X, *labeled, sample_weight is not None)


def _labels_and_weights(
    X: Any, y: Any, sample_weight: Any, many_classes: bool, ones: Floats, where: str
) -> tuple[np.ndarray, Floats, Floats]:
    """Classes, their codes and weights on the host, one for each row that is elsewhere."""
    classes, codes = encode(column_or_1d(np.asarray(y), warn=True), many_classes)
    if len(codes) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y {len(codes)} labels; give one each.")
    weights = ones if sample_weight is None else on_host(sample_weight)
    if weights.shape != codes.shape or not np.all(np.isfinite(weights) & (weights > 0)):
        raise ValueError(
            "sample_weight must be finite and positive, one per row of X, where rows come "
            f"{where}; drop rows of weight 0."
        )
    return classes, codes, weights


def check_tensor(X: Any, n_features: int | None = None, name: str = "X") -> None:
    """Raise unless X is a finite floating-point matrix, of so many columns if that is known."""
    xp = namespace_of(X)
    if X.ndim != 2:
        raise ValueError(f"{name} must be a matrix; got {X.ndim} dimensions. Reshape it to (n, d).")
    if X.dtype not in (xp.float32, xp.float64):
        raise ValueError(f"{name} has the type {X.dtype}; make it float32 or float64.")
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"{name} has {X.shape[1]} features, but the fit was made with {n_features}."
        )
    for rows in slices(int(X.shape[0]), plan.DEVICE_ENTRIES, int(X.shape[1])):
        block = X[rows, :]
        # A finite sum proves its terms finite, without an array of flags.
        if not bool(xp.isfinite(xp.sum(block))) and not bool(xp.all(xp.isfinite(block))):
            raise ValueError(f"{name} contains NaN or infinity; impute or drop those rows first.")


def encode(y: Any, many_classes: bool = False) -> tuple[np.ndarray, Floats]:
    """(classes, codes): the place of each label among two, or more, sorted classes.

    Examples
    --------
    >>> encode(["no", "yes", "no"])[1]
    array([0., 1., 0.])
    >>> encode(["red", "blue", "green"], many_classes=True)[1]
    array([2., 0., 1.])
    """
    known = _integer_classes(y)
    if known is not None:
        return known, (y == known[1]).astype(np.float64)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if many_classes and kind not in ("binary", "multiclass"):
        raise ValueError(f"y holds a target of type {kind}; one class for each row is needed.")
    if not many_classes and kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class only ({classes[0]!r}); a classifier needs two classes.")
    return classes, codes.astype(np.float64)


def _integer_classes(y: Any) -> np.ndarray | None:
    """The two classes of a plain array of whole numbers or flags, which needs no more questions."""
    if not (isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iubf" and len(y)):
        return None
    # Two comparisons: sorting or hashing a large y to find two values takes several times as long.
    classes = np.array([y.min(), y.max()])
    whole = y.dtype.kind != "f" or all(float(value).is_integer() for value in classes)
    two = classes[0] != classes[1] and bool(np.all((y == classes[0]) | (y == classes[1])))
    return classes if whole and two else None
