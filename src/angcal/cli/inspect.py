"""What a model file holds, without loading it: checksum, signature, versions, types, arrays.

Nothing in the file is made into an object, and no module that it names is imported. The checksum is
that of everything in the file; two files with the same one give the same probabilities.

Examples
--------
  angcal inspect model.skops
  angcal inspect model.angcal --key model.key
  angcal inspect model.skops --json

exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from angcal.cli import terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal inspect``."""
    parser.add_argument("model", type=Path, help="file that angcal fit --out has written")
    terminal.add_key(parser, "file with the key that the model must have been signed with")
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def execute(options: argparse.Namespace) -> None:
    """Carry out a parsed command line."""
    terminal.require_packages("inspect", "rich")
    from angcal.persistence import inspect

    found = inspect(options.model, key=options.key)
    terminal.say(json.dumps(found) if options.json else in_words(found))


def in_words(found: dict[str, Any]) -> str:
    """What `angcal.persistence.inspect` found, as paragraphs and tables."""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    about = found["about"]
    facts = [
        ("kind", f"{found['kind']}, file format {found['format']}"),
        ("written by", versions),
        ("sha256", found["sha256"]),
        ("signature", found["signature"]),
        *((name, _short(value)) for name, value in about.items()),
    ]
    arrays = [
        (name, " × ".join(map(str, array["shape"])) or "one number", array["type"])
        for name, array in found["arrays"].items()
    ]
    types = [(name, str(count)) for name, count in found["types"].items()]
    parts = [
        terminal.text_table(("", ""), facts, left=2).strip("\n"),
        terminal.text_table(("type", "objects"), types),
        terminal.text_table(("array", "shape", "type"), arrays[:20], left=3),
    ]
    parts += [f"and {len(arrays) - 20} more arrays"] if len(arrays) > 20 else []
    if found["foreign"]:
        parts.append(f"NOT TRUSTED, so that angcal will not load it: {', '.join(found['foreign'])}")
    return "\n\n".join(parts)


def _short(value: Any) -> str:
    """A value in one line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 70 else f"{text[:67]}..."
