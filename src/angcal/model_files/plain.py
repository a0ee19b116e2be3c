r"""A model <-> one JSON tree and NumPy arrays: nothing is unpickled, and nothing is called.

The part ``model.json`` is a tree. None, truth values, finite numbers and text are JSON's own, lists
are JSON's lists, and everything else is an object with one key that says what it is:

===========================  ====================================================================
``{"type": name,             an object of that type with these attributes; ``name`` must be on
"state": {...}}``            angcal's list
``{"array": "3"}``           the array in the part ``3.npy``
``{"number": "3"}``          a NumPy number, as the only entry of ``3.npy``
``{"objects": [...],         an array of text or of other single values
"shape": [...]}``
``{"sparse": kind,           a sparse matrix: ``data``, ``indices``, ``indptr`` are trees,
"parts": [...], ...}``       ``shape`` two numbers
``{"tuple": [...]}``         a tuple; ``{"set": [...]}`` a set
``{"dict": [[k, v], ...]}``  a dict
``{"slice": [a, b, c]}``     a slice
``{"float": "nan"}``         a number that JSON lacks: ``nan``, ``inf`` or ``-inf``
``{"dtype": "<f8"}``         a NumPy type; ``{"scalar_type": "float64"}`` the class of its numbers
===========================  ====================================================================

The arrays can be read without angcal: ``numpy.load("model.angcal", allow_pickle=False)["3"]``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

import numpy as np

from angcal.model_files.check import LETTERS, SCALARS, SPARSE, array_of, name_of, state_of

TREE = "model.json"
OF_NAME: dict[str, Any] = {kind.__name__: kind for kind in (*SCALARS, *SPARSE)}
# Compiled helpers of a fit, of which predictions need nothing.
LEFT_OUT = ("_loss_function_",)


def encode(model: Any, trusted: Collection[str]) -> dict[str, bytes]:
    """The parts of a model; TypeError where it holds something else than the trusted types."""
    parts: dict[str, bytes] = {}

    def keep(array: np.ndarray) -> str:
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        name = str(len(parts))
        parts[f"{name}.npy"] = buffer.getvalue()
        return name

    tree = _tree(model, keep, trusted)
    return {TREE: json.dumps(tree, allow_nan=False).encode(), **parts}


def _tree(value: Any, keep: Callable[[np.ndarray], str], trusted: Collection[str]) -> Any:
    def inner(part: Any) -> Any:
        return _tree(part, keep, trusted)

    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if np.isfinite(value) else {"float": str(value)}
    if kind is list:
        return [inner(part) for part in value]
    if kind in (tuple, set):
        return {kind.__name__: [inner(part) for part in value]}
    if kind is dict:
        return {"dict": [[inner(name), inner(part)] for name, part in value.items()]}
    if kind is slice:
        return {"slice": [inner(part) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if isinstance(value, type) and value in SCALARS:
        return {"scalar_type": value.__name__}
    if isinstance(value, np.generic):
        return {"number": keep(np.asarray(value))}
    if kind is np.ndarray:
        if value.dtype == object:
            return {"objects": [inner(part) for part in value.ravel()], "shape": list(value.shape)}
        return {"array": keep(value)}
    if kind in SPARSE:
        arrays = [inner(part) for part in (value.data, value.indices, value.indptr)]
        return {"sparse": kind.__name__, "parts": arrays, "shape": list(map(int, value.shape))}
    return _object(value, inner, trusted)


def _object(value: Any, inner: Callable[[Any], Any], trusted: Collection[str]) -> Any:
    name = name_of(type(value))
    if name not in trusted:
        raise TypeError(f"it holds {name!r}, which no reader would trust")
    kept = {key: inner(part) for key, part in state_of(value).items() if key not in LEFT_OUT}
    return {"type": name, "state": kept}


def types_in(parts: dict[str, bytes]) -> list[str]:
    """Names of the types of objects in a file, one for each object, whatever they are."""
    waiting, names = [json.loads(parts[TREE])], []
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            names += [str(node["type"])] if "type" in node and "state" in node else []
            node = list(node.values())
        if isinstance(node, list):
            waiting += node
    return names


def decode(parts: dict[str, bytes], trusted: Collection[str]) -> Any:
    """The model of these parts; ValueError where they are none."""
    return _value(json.loads(parts[TREE]), parts, trusted)


def _value(tree: Any, parts: dict[str, bytes], trusted: Collection[str]) -> Any:
    def inner(part: Any) -> Any:
        return _value(part, parts, trusted)

    def array(name: Any) -> np.ndarray:
        return array_of(parts[f"{name}.npy"])

    if isinstance(tree, list):
        return [inner(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    (what, content), *rest = tree.items()
    if what == "type":
        return _made(content, tree["state"], inner, trusted)
    if what == "objects":
        found = np.empty(len(content), dtype=object)
        for place, part in enumerate(content):
            found[place] = inner(part)
        return found.reshape(tree["shape"])
    if what == "sparse":
        data, indices, indptr = (inner(part) for part in tree["parts"])
        rows, columns = tree["shape"]
        return OF_NAME[content]((data, indices, indptr), shape=(rows, columns))
    if rest:
        raise ValueError(f"{what!r} with more beside it")
    makers: dict[str, Callable[[Any], Any]] = {
        "array": array,
        "number": lambda name: array(name)[()],
        "tuple": lambda entries: tuple(map(inner, entries)),
        "set": lambda entries: set(map(inner, entries)),
        "dict": lambda entries: {inner(name): inner(part) for name, part in entries},
        "slice": lambda entries: slice(*map(inner, entries)),
        "float": lambda name: {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[name],
        "dtype": _dtype,
        "scalar_type": OF_NAME.__getitem__,
    }
    return makers[what](content)


def _dtype(name: str) -> np.dtype:
    found = np.dtype(name)
    if found.kind not in LETTERS:
        raise ValueError(f"{name!r} is no type of a model's arrays")
    return found


def _made(name: Any, state: Any, inner: Callable[[Any], Any], trusted: Collection[str]) -> Any:
    """An object of a trusted type; its constructor is not called."""
    if name not in trusted:
        raise ValueError(f"{name!r} is not trusted")
    module, _, kind = name.rpartition(".")
    made = object.__new__(getattr(import_module(module), kind))
    found = {key: inner(part) for key, part in state.items()}
    if hasattr(type(made), "__setstate__"):
        made.__setstate__(found)
    else:
        made.__dict__.update(found)
    return made
