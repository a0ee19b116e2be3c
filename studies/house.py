"""The size of the library, and what its kinds of fit share: counted by a command.

    python -m studies.house

Prints lines and files of the wheel and of the studies, functions of more than 60 lines, constants
of modules, and how many functions of the core two kinds of fit both call. The core is the
calculation: all of the library except what surrounds it (`AROUND`). Lines of documentation are
those of strings that stand alone: docstrings, and the sentences below constants. Only named
functions count, one for each code object. Each fit runs twice and is traced the second time, so
that imports and caches do not count.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from sklearn.linear_model import LogisticRegression

import angcal
from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from studies.golden import Draw

LIBRARY = Path(angcal.__file__).resolve().parent
STUDIES = Path(__file__).resolve().parent
AROUND = (
    "cli",
    "report",
    "tables",
    "displays",
    "simulation",
    "baselines",
    "metrics",
    "export",
    "model_files",
    "persistence",
    "demo",
)
LONGEST_FUNCTION = 60
ROWS, COLUMNS = 200, 30
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")


# -- what is written --------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """One Python file."""

    name: str  # Its path below the folder that was searched
    lines: int  # All lines
    documentation: int  # Lines of strings that stand alone
    # Names and lengths of functions above the limit, docstrings included
    long_functions: tuple[tuple[str, int], ...]
    constants: tuple[str, ...]  # Upper-case names that are assigned at the top level
    # Those of them that hold numbers and no text: thresholds, accuracies, nodes
    numbers: tuple[str, ...]

    @property
    def in_core(self) -> bool:
        """Whether it belongs to the calculation."""
        return self.name.split("/")[0].removesuffix(".py") not in AROUND


def length(node: Any) -> int:
    """Lines from the first to the last of a node."""
    return int(node.end_lineno - node.lineno + 1)


def read(path: Path, folder: Path) -> Source:
    """Count one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    strings = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return Source(
        name=path.relative_to(folder).as_posix(),
        lines=len(text.splitlines()),
        documentation=sum(length(node) for node in strings),
        long_functions=tuple(
            (node.name, length(node)) for node in functions if length(node) > LONGEST_FUNCTION
        ),
        constants=tuple(name for name, _ in constants(tree)),
        numbers=tuple(name for name, value in constants(tree) if holds_numbers(value)),
    )


def constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Upper-case names that a module assigns at its top level, and what is assigned."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name) and CONSTANT.fullmatch(part.id):
                    yield part.id, node.value


def holds_numbers(value: Any) -> bool:
    """Whether what is assigned is made of numbers alone."""
    parts = ast.walk(value) if value is not None else ()
    literals = [part.value for part in parts if isinstance(part, ast.Constant)]
    return bool(literals) and all(isinstance(each, int | float) for each in literals)


def sources(folder: Path) -> list[Source]:
    """All Python files below a folder."""
    return [read(path, folder) for path in sorted(folder.rglob("*.py"))]


def sizes(library: list[Source], studies: list[Source]) -> list[str]:
    """Sentences about lines, functions and constants."""

    def lines(name: str, files: list[Source]) -> str:
        total = sum(each.lines for each in files)
        rest = total - sum(each.documentation for each in files)
        return f"{name:8} {total:6,} lines in {len(files)} files; {rest:,} without documentation"

    found = [lines("wheel", library), lines("studies", studies)]
    long = [
        f"  {folder}/{each.name}: {name} ({size} lines)"
        for folder, files in (("angcal", library), ("studies", studies))
        for each in files
        for name, size in each.long_functions
    ]
    found += [f"functions over {LONGEST_FUNCTION} lines: {len(long)}", *long]
    core = sum(len(each.constants) for each in library if each.in_core)
    every = sum(len(each.constants) for each in library)
    numbers = sum(len(each.numbers) for each in library if each.in_core)
    found.append(f"module constants: {core} in the core, {every} in the wheel")
    return [*found, f"of those in the core {numbers} hold numbers, the others names and tables"]


def by_folder(library: list[Source]) -> list[str]:
    """Lines and files of each folder of the library, and of its modules outside of folders."""
    folders: dict[str, list[Source]] = {}
    for each in library:
        folders.setdefault(each.name.partition("/")[0] if "/" in each.name else ".", []).append(
            each
        )
    return [
        f"  {name:17} {sum(each.lines for each in files):6,} lines in {len(files)} files"
        for name, files in sorted(folders.items())
    ]


# -- what is called ---------------------------------------------------------------------------


def in_core(code: CodeType) -> bool:
    """Whether a code object is a named function of the core."""
    path = Path(code.co_filename)
    if code.co_name.startswith("<") or not path.is_relative_to(LIBRARY):
        return False
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py") not in AROUND


def crossed(action: Callable[[], Any]) -> set[CodeType]:
    """Functions of the core that an action calls, on its second run."""
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            called.add(frame.f_code)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        action()
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            action()
        finally:
            sys.setprofile(before)
    return {code for code in called if in_core(code)}


def fits() -> dict[str, Callable[[], Any]]:
    """Small fits of each kind, by name."""
    two, three = Draw(ROWS, COLUMNS), Draw(ROWS, COLUMNS, 3)
    return {
        "two classes": lambda: AngularCalibratedClassifier(LogisticRegression()).fit(two.X, two.y),
        "three classes": lambda: AngularCalibratedClassifier(LogisticRegression()).fit(
            three.X, three.y
        ),
        "penalty path": lambda: AngularLogisticRegressionCV().fit(two.X, two.y),
    }


PAIRS = (("two classes", "three classes"), ("two classes", "penalty path"))


def shares(called: dict[str, set[CodeType]]) -> list[str]:
    """Sentences about what each pair of fits has in common."""
    found = []
    for one, other in PAIRS:
        first, second = called[one], called[other]
        shared, smaller = len(first & second), min(len(first), len(second))
        found.append(
            f"core functions: {one} {len(first)}, {other} {len(second)}, shared {shared} "
            f"({shared / smaller:.0%} of the smaller set)"
        )
    return found


def where(code: CodeType) -> str:
    """File and name of a function."""
    return f"{Path(code.co_filename).relative_to(LIBRARY).as_posix()}: {code.co_qualname}"


def only(called: dict[str, set[CodeType]]) -> list[str]:
    """The functions that one fit of a pair calls and the other does not."""
    found = []
    for pair in PAIRS:
        for one, other in (pair, pair[::-1]):
            rest = sorted(where(code) for code in called[one] - called[other])
            found += [f"{one}, not {other}:", *(f"  {name}" for name in rest)]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print all counts."""
    parser = argparse.ArgumentParser(prog="python -m studies.house", description=__doc__)
    parser.add_argument(
        "--names", action="store_true", help="also name the functions that are not shared"
    )
    parser.add_argument("--folders", action="store_true", help="also count each folder")
    chosen = parser.parse_args(arguments)
    library = sources(LIBRARY)
    print("\n".join(sizes(library, sources(STUDIES))))
    if chosen.folders:
        print("\n".join(by_folder(library)))
    called = {name: crossed(fit) for name, fit in fits().items()}
    print("\n".join(shares(called)))
    if chosen.names:
        print("\n".join(only(called)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
