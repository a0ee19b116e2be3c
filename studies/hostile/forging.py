"""Model files as an attacker makes them: anything changed, and every checksum right again."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HOSTILE: list[Any] = [
    *(None, True, -1, 0, 3, 10**12, 2**70, 1e300, -1e300, 0.5, "", "no", [], [1, [2]]),
    *({}, {"float": "nan"}, {"float": "-inf"}, {"array": "0"}, {"array": "none"}, {"array": []}),
    *({"dict": [[1, 2]]}, {"tuple": []}, {"set": [[1]]}, {"slice": [0, 10**12, 1]}),
    *({"dtype": "O"}, {"dtype": "V99"}, {"scalar_type": "object_"}, {"number": "0"}, {"odd": 1}),
    *({"objects": [1, 2], "shape": [10**9, 10**9]}, {"objects": [], "shape": [0]}),
    {"type": "angcal.links.families.Logit", "state": {}},
    {"type": "angcal.links.families.CallableLink", "state": {}},
    {"type": "os.system", "state": {}},
    {"type": ["os", "system"], "state": []},
    {"type": "sklearn.pipeline.Pipeline", "state": {"memory": "/tmp/somewhere"}},
    {"sparse": "csr_matrix", "parts": [[1.0], [2**30], [0, 1]], "shape": [1, 2]},
]


def members(path: Path) -> dict[str, bytes]:
    """Name and content of every part."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def seal(parts: dict[str, bytes]) -> dict[str, bytes]:
    """The parts with checksums that are right, as far as there is anything to put them in."""
    parts = dict(parts)
    others = {
        name: part for name, part in parts.items() if name not in ("angcal.json", "seal.json")
    }
    try:
        record = json.loads(parts["angcal.json"])
        record["parts"] = {name: hashlib.sha256(p).hexdigest() for name, p in others.items()}
        parts["angcal.json"] = json.dumps(record).encode()
    except (TypeError, ValueError, KeyError):
        parts.setdefault("angcal.json", b"")
    found = hashlib.sha256(parts["angcal.json"]).hexdigest()
    return {**parts, "seal.json": json.dumps({"sha256": found}).encode()}


def zipped(parts: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def rewritten(path: Path, member: str, change: Callable[[Any], Any]) -> Path:
    """The file with one JSON member changed."""
    parts = members(path)
    parts[member] = json.dumps(change(json.loads(parts[member]))).encode()
    path.write_bytes(zipped(seal(parts)))
    return path


def npy(array: Any) -> bytes:
    """An array as numpy saves it, pickled where it must be."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all nodes of a JSON tree."""
    yield path
    if isinstance(tree, dict | list):
        for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places(part, (*path, key))


def forged(parts: dict[str, bytes], rng: np.random.Generator) -> bytes:
    """The members of a file with one to three random changes to its tree or its arrays."""
    name = "model.json" if "model.json" in parts else "schema.json"
    original, arrays = parts, sorted(part for part in parts if part.endswith(".npy"))
    parts = dict(parts)
    tree = json.loads(parts[name])
    for _ in range(rng.integers(1, 4)):
        if arrays and rng.random() < 0.4:
            array = arrays[rng.integers(len(arrays))]
            parts[array] = _other_array(original[array], rng)
            continue
        nodes = list(places(tree))
        place = nodes[rng.integers(len(nodes))]
        spare = nodes[rng.integers(len(nodes))]
        value = HOSTILE[rng.integers(len(HOSTILE))]
        if rng.random() < 0.3:
            value = json.loads(json.dumps(_at(tree, spare)))
        if name == "schema.json" and isinstance(value, int | float | str):
            value = json.dumps(value) if rng.random() < 0.5 else value
        if place:
            _at(tree, place[:-1])[place[-1]] = json.loads(json.dumps(value))
        else:
            tree = value
    parts[name] = json.dumps(tree).encode()
    return zipped(seal(parts), zipfile.ZIP_STORED)


def _at(tree: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        tree = tree[key]
    return tree


def _other_array(part: bytes, rng: np.random.Generator) -> bytes:
    array = np.load(io.BytesIO(part), allow_pickle=False)
    header = part.index(b"\n") + 1
    changes: list[Callable[[], bytes]] = [
        lambda: npy(np.full(array.shape, np.nan)),
        lambda: npy(np.full(array.shape, 2**30)),
        lambda: npy(np.full(array.shape, -1)),
        lambda: npy(array.astype(float) * 1e308 * 10 if array.dtype.kind in "iuf" else array),
        lambda: npy(array.ravel()[:-1]),
        lambda: npy(np.zeros(0)),
        lambda: npy(np.concatenate([array.ravel()] * 3)),
        lambda: npy(np.array([["text"]])),
        lambda: npy(np.array([{"a": 1}], dtype=object)),
        lambda: npy(array.astype(complex) if array.dtype.kind in "iuf" else array),
        lambda: part[:header].replace(b"(", b"(99999999999, ") + part[header:],
        lambda: part[:-3],
        lambda: part[:header],
        lambda: b"\x93NUMPY\x09\x00" + part[8:],
    ]
    with np.errstate(all="ignore"):
        return changes[rng.integers(len(changes))]()
