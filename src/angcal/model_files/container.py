r"""The outside of a model file: parts in a zip archive, with limits, a checksum and a signature.

=================  ==============================================================================
part               holds
=================  ==============================================================================
``angcal.json``    file format, kind, versions, what was said about the model, and the SHA-256 of
                   every part but the next
``seal.json``      ``sha256``: that of ``angcal.json``, so of everything; and, where the file is
                   signed, ``hmac``: HMAC-SHA256 of ``angcal.json`` with the key
other parts        the model: JSON, and arrays in NumPy's ``.npy`` format
=================  ==============================================================================

A part is read only after its size has been compared with the limits, and used only after its
checksum has been found right. Parts stay in memory: no name in an archive ever becomes a path.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import re
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from angcal.tables.reading import UNREADABLE

# Raised whenever the types in a file change; files of another format are refused.
FORMAT = 3
ABOUT, SEAL = "angcal.json", "seal.json"
DAMAGE = (*UNREADABLE, AttributeError, IndexError, RuntimeError, NotImplementedError, MemoryError)

MEBIBYTE = 2**20
LARGEST_FILE = 1024 * MEBIBYTE
LARGEST_JSON = 32 * MEBIBYTE  # as Python objects some thirty times as much
MOST_PARTS = 20_000
SHORTEST_KEY = 16  # bytes


class PersistenceError(ValueError):
    """A model cannot be saved or loaded; the message says why and what to do."""


@dataclass(frozen=True)
class Container:
    """A model file whose checksums are right."""

    record: dict[str, Any]  # ``angcal.json``
    parts: dict[str, bytes]  # The other parts, by name
    sha256: str  # Of ``angcal.json``, and so of all parts
    signature: str  # {"none", "not verified", "verified"}


# -- writing -----------------------------------------------------------------------------------


def pack(record: dict[str, Any], parts: dict[str, bytes], key: Any = None) -> bytes:
    """The bytes of a model file; equal ones for equal parts."""
    sums = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
    told = json.dumps({**record, "parts": sums}).encode()
    seal = {"sha256": hashlib.sha256(told).hexdigest()}
    if key is not None:
        seal["hmac"] = hmac.new(read_key(key), told, "sha256").hexdigest()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in {ABOUT: told, SEAL: json.dumps(seal).encode(), **parts}.items():
            entry = zipfile.ZipInfo(name)  # of 1980: the time of writing is none of the content
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, part)
    return buffer.getvalue()


def read_key(key: Any) -> bytes:
    """The bytes of a key file, at least `SHORTEST_KEY` of them."""
    try:
        secret = Path(key).read_bytes()
    except (OSError, TypeError) as error:
        raise PersistenceError(
            f"key={str(key)!r} cannot be read ({error}); name a file with the key."
        ) from error
    if len(secret) < SHORTEST_KEY:
        raise PersistenceError(
            f"key={str(key)!r} has {len(secret)} bytes, but a key needs at least {SHORTEST_KEY}; "
            'make one with: python -c "import secrets; print(secrets.token_hex())" > model.key'
        )
    return secret


# -- reading -----------------------------------------------------------------------------------


def read(path: Path, key: Any = None) -> Container:
    """The parts of a file, once limits, checksums and (with a key) the signature are right."""
    return unpack(_bytes_of(path), path, key)


def unpack(data: bytes, path: Path, key: Any = None) -> Container:
    """As `read`, of bytes that are in memory; the path is for messages."""
    # A zip archive starts with PK; one that does but cannot be opened is cut off or damaged.
    if not data.startswith(b"PK"):
        raise PersistenceError(
            f"{path} is not a model file; make one with: angcal fit --out, or "
            "angcal.persistence.save."
        )
    try:
        parts = parts_of(data, path)
        told, seal = parts.pop(ABOUT, None), parts.pop(SEAL, None)
        record = {} if told is None else json.loads(told)
        _check_format(record, told, path)
        sums = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
        found = hashlib.sha256(told or b"").hexdigest()
        stated = json.loads(seal or b"null")
        if stated["sha256"] != found or record.get("parts") != sums:
            raise ValueError("checksums differ")
        if not all(isinstance(record.get(part), dict) for part in ("versions", "about")):
            raise ValueError("no versions")
        signature = _signature(told or b"", stated, path, key)
    except PersistenceError:
        raise
    except DAMAGE as error:
        raise damaged(path) from error
    return Container(record, parts, found, signature)


def damaged(path: Path) -> PersistenceError:
    """The sentence for a file that is not what was written."""
    return PersistenceError(
        f"{path} is damaged or cut off: it is not what its checksum says; copy it again, or fit "
        "the model again."
    )


def _bytes_of(path: Path) -> bytes:
    try:
        # Not before it is known to be a file: a pipe would wait for ever, a device never end.
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise PersistenceError(f"{path} is no file; name the model file itself.")
            if status.st_size > LARGEST_FILE:
                raise PersistenceError(
                    f"{path} has {status.st_size / MEBIBYTE:.0f} MiB, but a model file has at most "
                    f"{LARGEST_FILE // MEBIBYTE}; get the right file."
                )
            return file.read(status.st_size)
    except FileNotFoundError as error:
        raise PersistenceError(f"{path} does not exist; check the name and the folder.") from error
    except IsADirectoryError as error:
        raise PersistenceError(f"{path} is a folder; name the model file in it.") from error
    except OSError as error:
        raise PersistenceError(f"{path} cannot be read: {error.strerror}.") from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def parts_of(data: bytes, path: Path) -> dict[str, bytes]:
    """The parts of an archive, none of which is unpacked before all sizes are known."""
    # The directory's size is in the last 22 bytes, and the 64-bit form before them may change it.
    directory = int.from_bytes(data[-10:-6], "little")
    if data[-22:-18] != b"PK\5\6" or data[-42:-38] == b"PK\6\7" or directory > 200 * MOST_PARTS:
        raise ValueError("odd directory")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if not all(re.fullmatch(r"[A-Za-z0-9_]+\.(json|npy|npz)", e.filename) for e in entries):
            raise PersistenceError(
                f"{path} was not written by angcal.persistence.save; save the model with it."
            )
        check_sizes({e.filename: e.file_size for e in entries}, len(data), path)
        if len({e.filename for e in entries}) < len(entries):
            raise ValueError("two parts of one name")
        return {entry.filename: _part(archive, entry) for entry in entries}


def _part(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A part, of which no more is unpacked than the archive says it has."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("odd compression")
    with archive.open(entry) as file:
        part = file.read(entry.file_size)
    if len(part) != entry.file_size:
        raise ValueError("cut off")
    return part


def check_sizes(sizes: dict[str, int], of_file: int, path: Path) -> None:
    """Refuse parts that are too many or too large."""
    # Weights hardly shrink; a file that grows more than this was made to fill memory.
    total, most = sum(sizes.values()), 64 * MEBIBYTE + 100 * of_file
    texts = [size for name, size in sizes.items() if name.endswith(".json")]
    if len(sizes) > MOST_PARTS:
        trouble = f"{len(sizes)} parts, and at most {MOST_PARTS} are allowed"
    elif max(texts, default=0) > LARGEST_JSON:
        trouble = f"a JSON part of {max(texts) / MEBIBYTE:.0f} MiB; {LARGEST_JSON // MEBIBYTE} MiB "
        trouble += "are allowed"
    elif total > min(most, LARGEST_FILE):
        trouble = f"{total / MEBIBYTE:.0f} MiB of parts in a file of {of_file / MEBIBYTE:.1f} MiB; "
        trouble += f"{min(most, LARGEST_FILE) / MEBIBYTE:.0f} MiB are allowed"
    else:
        return
    raise PersistenceError(f"{path} has {trouble}; keep so large a model with pickle.")


def _check_format(record: Any, told: bytes | None, path: Path) -> None:
    if told is None:
        raise PersistenceError(
            f"{path} was not written by angcal.persistence.save; save the model with it."
        )
    if not isinstance(record, dict) or type(record.get("format")) is not int:
        raise ValueError("no format")
    if record["format"] != FORMAT:
        older = record["format"] < FORMAT
        way_out = "fit the model again with this version" if older else "update angcal"
        raise PersistenceError(
            f"{path} has file format {record['format']}, but this version of angcal reads "
            f"{FORMAT}; {way_out}."
        )


def _signature(told: bytes, stated: dict[str, Any], path: Path, key: Any) -> str:
    """What is known of the signature; an error where a key is given that does not fit."""
    if key is None:
        return "not verified" if "hmac" in stated else "none"
    if "hmac" not in stated:
        raise PersistenceError(
            f"{path} is not signed; sign it when it is saved, with key=, or load it without a key."
        )
    if not hmac.compare_digest(hmac.new(read_key(key), told, "sha256").hexdigest(), stated["hmac"]):
        raise PersistenceError(
            f"{path} was not signed with the key in {str(key)!r}; do not use it, or name the right "
            "key."
        )
    return "verified"
