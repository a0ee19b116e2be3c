"""What a model file may hold: types by a closed list, arrays and numbers by what predictions need.

Three looks: `check_nodes` at the names of types in a skops file before skops sees it, `array_of` at
the header of an array before memory is taken for it, and `check_model` at the whole model before
anyone gets it. The last one walks through every attribute, so that nothing hides in a place that
the first two do not know, and ends with the model's own probabilities at a few scores.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from angcal.estimators import MEstimator
from angcal.estimators.base_model import takes_raw_rows
from angcal.estimators.fold_average import FoldAverage
from angcal.estimators.prediction import CalibratedPrediction

LETTERS = "biufUS"
"""Kinds of arrays: truth values, numbers, text."""
SCALARS = (np.bool_, np.int32, np.int64, np.float32, np.float64)
SPARSE = (sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array, sparse.csc_array)
PLAIN = (type(None), bool, int, float, str)
# What predictions multiply and add: no number in these attributes may be NaN or infinite.
OF_PREDICTION = ("coef_", "intercept_", "curve_", "average_", "components_", "mean_", "scale_")
# skops' kinds of nodes, and the types that each may make beside those of angcal's list.
NODES = {
    "DictNode": {"builtins.dict"},
    "DTypeNode": {"numpy.dtype"},
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "NdArrayNode": {"numpy.ndarray", *(f"numpy.{kind.__name__}" for kind in SCALARS)},
    "SetNode": {"builtins.set"},
    "SliceNode": {"builtins.slice"},
    "SparseMatrixNode": {f"{kind.__module__}.{kind.__name__}" for kind in SPARSE},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {f"builtins.{kind.__name__}" for kind in (str, int, float, bool)}
    | {f"numpy.{kind.__name__}" for kind in SCALARS},
}


def name_of(kind: type) -> str:
    """Module and name of a type, as in a file."""
    return f"{kind.__module__}.{kind.__name__}"


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object that are worth keeping; none where it is a compiled one."""
    # By its type: an attribute of that name would be someone else's.
    getstate: Any = type(value).__getstate__
    state = getstate(value)
    return state if isinstance(state, dict) else {}


# -- before anything is made of a file ---------------------------------------------------------


def check_nodes(schema: Any, trusted: Collection[str]) -> list[str]:
    """Types of a skops schema that a model may not hold; nothing is imported to find them."""
    return sorted(
        {name for loader, name in nodes_of(schema) if not _allowed(loader, name, trusted)}
    )


def _allowed(loader: str, name: str, trusted: Collection[str]) -> bool:
    if loader in ("ObjectNode", "LossNode"):
        # Compiled losses of a stochastic gradient have a kind of node to themselves.
        return name in trusted and ("._loss." in name or "_sgd_fast." in name) == (loader[0] == "L")
    return name in NODES.get(loader, ())


def nodes_of(schema: Any) -> Iterator[tuple[str, str]]:
    """(kind of node, name of type) of everything that skops would make."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if {"__loader__", "__class__", "__module__"} & node.keys():
                yield (
                    str(node.get("__loader__")),
                    f"{node.get('__module__')}.{node.get('__class__')}",
                )
            node = list(node.values())
        if isinstance(node, list):
            waiting += node


def shape_of(part: bytes) -> tuple[tuple[int, ...], np.dtype]:
    """(shape, type) that an ``.npy`` part claims, if it has as many bytes as they take."""
    stream = io.BytesIO(part)
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = readers[version](stream)
    size = dtype.itemsize
    for length in shape:
        size *= length
    if dtype.kind not in LETTERS or min(shape, default=0) < 0 or size != len(part) - stream.tell():
        raise ValueError(f"an array of shape {shape} and type {dtype} is no part of a model")
    return shape, dtype


def array_of(part: bytes) -> np.ndarray:
    """The array of an ``.npy`` part whose header is right."""
    shape_of(part)
    found: np.ndarray = np.load(io.BytesIO(part), allow_pickle=False)
    return found


# -- before anyone gets the model --------------------------------------------------------------


def check_model(model: Any, trusted: Collection[str]) -> None:
    """Raise TypeError or ValueError with what is wrong; the model may be of anyone's making."""
    last = _step(model, -1)
    if not isinstance(last, CalibratedPrediction | MEstimator):
        raise TypeError(
            f"it is a {type(last).__name__}, but a model is one of angcal's classifiers or a "
            "Pipeline that ends in one"
        )
    _Walk(trusted).visit(model, False, "the model")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_predictions(last)
        _check_use(model, last)


def _step(model: Any, place: int) -> Any:
    """The first (0) or the last (−1) step of a Pipeline, and of what is a Pipeline there."""
    for _ in range(20):  # a list that holds itself has no last step
        if type(model) is not Pipeline or not model.steps:
            break
        model = model.steps[place][1]
    return model


class _Walk:
    """Through every attribute and entry of a model, each object once."""

    def __init__(self, trusted: Collection[str]) -> None:
        self.trusted = trusted
        self.seen: dict[tuple[int, bool], Any] = {}

    def visit(self, value: Any, finite: bool, where: str) -> None:
        kind = type(value)
        if kind in PLAIN or isinstance(value, np.generic | np.dtype) or kind in (type, slice):
            self._check_single(value, finite, where)
        elif (id(value), finite) in self.seen:
            return
        elif kind is np.ndarray or kind in SPARSE:
            self._check_array(value, finite, where)
        elif kind in (list, tuple, set, dict):
            self.seen[id(value), finite] = value
            entries = [*value, *value.values()] if kind is dict else value
            for entry in entries:
                self.visit(entry, finite, where)
        elif name_of(kind) in self.trusted:
            self._visit_object(value, finite)
        else:
            raise TypeError(f"it holds {name_of(kind)!r}, which angcal does not trust")

    def _visit_object(self, value: Any, finite: bool) -> None:
        self.seen[id(value), finite] = value
        name = type(value).__name__
        if isinstance(value, BaseEstimator):
            missing = sorted(set(value._get_param_names()) - set(vars(value)))
            if missing:
                raise ValueError(f"its {name} has no {missing[0]}")
        # A classifier inside an average has notes of its own, which may be NaN.
        finite = finite and not isinstance(value, CalibratedPrediction)
        for attribute, part in state_of(value).items():
            self.visit(part, finite or attribute in OF_PREDICTION, f"{attribute} of {name}")
        for kind, check in CHECKS.items():
            if isinstance(value, kind):
                check(value)

    def _check_single(self, value: Any, finite: bool, where: str) -> None:
        if isinstance(value, type) and value not in (*SCALARS, *PLAIN):
            raise TypeError(f"{where} is the type {name_of(value)!r}, which angcal does not trust")
        if finite and isinstance(value, float | np.floating) and not np.isfinite(value):
            raise ValueError(f"{where} is {value}")

    def _check_array(self, value: Any, finite: bool, where: str) -> None:
        if sparse.issparse(value):
            value.check_format(full_check=True)  # an index that is out of range ends the process
            value = value.data
        if value.dtype == object:
            for entry in value.ravel():
                self.visit(entry, finite, where)
        elif value.dtype.kind not in LETTERS:
            raise TypeError(f"{where} has the type {value.dtype}")
        elif finite and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{where} holds NaN or infinity")


def _check_classifier(model: Any) -> None:
    """Shapes of weights, intercepts and classes that belong together."""
    state = vars(model)
    if "coef_" not in state:
        return  # not fitted
    coef, intercept = state["coef_"], np.asarray(state["intercept_"])
    classes = np.asarray(state["classes_"])
    rows = 1 if len(classes) == 2 else len(classes)
    shapes_fit = (
        type(coef) is np.ndarray
        and coef.dtype.kind == "f"
        and coef.shape in ((rows, coef.shape[-1]), coef.shape[-1:] * (rows == 1))
        and intercept.size in (1, rows)
        and intercept.dtype.kind == "f"
    )
    if not shapes_fit or classes.ndim != 1 or len(classes) < 2:
        raise ValueError(
            f"its coef_ of shape {np.shape(coef)} and intercept_ of shape {intercept.shape} do not "
            f"belong to {classes.size} classes"
        )
    if len(set(classes.tolist())) < len(classes):
        raise ValueError("its classes_ repeat")
    d = state.get("n_features_in_")
    if not takes_raw_rows(state.get("estimator_")) and d != coef.shape[-1]:
        raise ValueError(f"it has {coef.shape[-1]} weights for {d} columns")


def _check_encoder(encoder: OneHotEncoder) -> None:
    """Refuse an encoder that gives other numbers of columns than it says."""
    state = vars(encoder)
    if "categories_" not in state:
        return
    levels, widths = state["categories_"], state["_n_features_outs"]
    mappings = state.get("_default_to_infrequent_mappings") or [None] * len(levels)
    if not state.get("_infrequent_enabled"):
        mappings = [None] * len(levels)
    dropped = state.get("_drop_idx_after_grouping")
    dropped = [None] * len(levels) if dropped is None else dropped
    for level, width, mapping, drop in zip(levels, widths, mappings, dropped, strict=True):
        numbers = np.arange(len(level)) if mapping is None else np.asarray(mapping)
        least, most = int(numbers.min(initial=0)), int(numbers.max(initial=0))
        drops = drop is not None
        if least < 0 or most - drops >= width or (drops and not 0 <= drop <= most):
            raise ValueError("its OneHotEncoder numbers columns that are not there")


def _check_steps(pipeline: Pipeline) -> None:
    if vars(pipeline).get("memory") is not None:
        raise ValueError("its Pipeline has memory, a folder to write to; set memory=None")


def _check_columns(transformer: ColumnTransformer) -> None:
    if vars(transformer).get("n_jobs") not in (None, 1):
        raise ValueError("its ColumnTransformer has n_jobs, which starts processes; set it to None")


def _check_function(transformer: FunctionTransformer) -> None:
    if any(vars(transformer).get(name) is not None for name in ("func", "inverse_func")):
        raise ValueError("its FunctionTransformer has a function")


CHECKS: dict[type, Callable[[Any], None]] = {
    CalibratedPrediction: _check_classifier,
    MEstimator: _check_classifier,
    OneHotEncoder: _check_encoder,
    Pipeline: _check_steps,
    ColumnTransformer: _check_columns,
    FunctionTransformer: _check_function,
}


def _check_predictions(model: Any) -> None:
    """Probabilities at a few scores: between 0 and 1, and as many as there are classes."""
    average = vars(model).get("average_")
    if isinstance(average, FoldAverage):
        for _, classifier in average.parts:
            _check_predictions(classifier)
    curves = getattr(average, "curves", None) or [vars(model).get("curve_")]
    for curve in curves:
        if curve is None:
            continue
        K = len(model.classes_)
        steps = np.linspace(-3.0, 3.0, 7)
        scores = steps if K == 2 else np.outer(steps, np.linspace(-1.0, 1.0, K))
        p = np.asarray(curve.predict(scores))
        if p.shape != scores.shape or not np.all((p >= 0) & (p <= 1 + 1e-12)):
            raise ValueError("its curve_ gives no probabilities")
        if K > 2 and not np.allclose(p.sum(axis=1), 1.0, atol=1e-9):
            raise ValueError("its curve_ gives probabilities that do not sum to one")


def _check_use(model: Any, last: Any) -> None:
    """One row through the whole model: what does not fit together fails now, not when it is used.

    A row of zeros suits numbers. Where columns hold levels it has those that their encoder knows; a
    ValueError may still be about this row and not about the model.
    """
    if "coef_" not in vars(last):
        return  # not fitted
    columns, inside = _step(model, 0), vars(last).get("estimator_")
    if columns is last and takes_raw_rows(inside):
        columns = _step(inside, 0)
    plain = not isinstance(columns, ColumnTransformer | OneHotEncoder)
    # A step that is "passthrough" has no width of its own.
    width = getattr(columns, "n_features_in_", getattr(last, "n_features_in_", None))
    if not isinstance(width, int | np.integer) or width < 1:
        raise ValueError(f"it is made for {width!r} columns")
    if width > 10**6:  # columns; wider models are taken as they are
        return
    try:
        row = np.zeros((1, width)) if plain else _row_of_levels(columns, int(width))
        getattr(model, "predict_proba", model.predict)(row)
    except (ValueError, ImportError):
        if plain:
            raise


def _row_of_levels(columns: Any, width: int) -> Any:
    """A row with a level that is known wherever an encoder looks, zeros elsewhere."""
    row = np.zeros((1, width), dtype=object)
    names = list(vars(columns).get("feature_names_in_", ()))
    parts: list[Any] = [("", columns, range(width))]
    if isinstance(columns, ColumnTransformer):
        parts = columns.transformers_
    for _, part, places in parts:
        encoder = part.steps[-1][1] if type(part) is Pipeline else part
        if isinstance(encoder, OneHotEncoder):
            for place, levels in zip(places, encoder.categories_, strict=True):
                row[0, names.index(place) if isinstance(place, str) else place] = levels[0]
    if not names:
        return row
    import pandas as pd

    return pd.DataFrame(row, columns=names).infer_objects()
