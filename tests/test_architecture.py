"""docs/architecture.md names what exists, and leaves out no part of the library."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pages import ROOT, look_up

LIBRARY = ROOT / "src" / "angcal"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILE = re.compile(r"(?<![\w/.])(?:\w+/)*(?:\w+\.(?:py|toml)|\w+/)(?![\w(])")


def named_files(text):
    """Files and folders: `rows.py`, `links/`, `sklearn_problems/problem.py`."""
    return set(FILE.findall(text))


def missing(names):
    """Names that are neither in the library nor in the repository."""
    return {name for name in names if not any((top / name).exists() for top in (LIBRARY, ROOT))}


def parts_of_the_library():
    modules = {path.name for path in LIBRARY.glob("*.py")} - {"__init__.py"}
    return modules | {f"{path.parent.name}/" for path in LIBRARY.glob("*/__init__.py")}


def test_every_file_on_the_page_exists():
    assert len(named_files(PAGE)) > 30
    assert not missing(named_files(PAGE))


def test_every_part_of_the_library_is_on_the_page():
    assert parts_of_the_library() <= named_files(PAGE)


def test_every_dotted_name_on_the_page_exists():
    paths = set(re.findall(r"`(angcal\.[\w.]+)`", PAGE))
    assert len(paths) > 12
    for path in paths:
        look_up(path)


def test_the_picture_shows_the_steps_in_order():
    picture = re.search(r"```text\n(.*?)```", PAGE, flags=re.DOTALL).group(1)
    steps = ("rows/", "problem.py", "leverages/", "observables.py", "link_posterior.py")
    steps += ("curve/", "calibrate.py", "estimators/", "report/")
    places = [picture.index(step) for step in steps]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`plan.py` and `links/`", {"plan.py", "links/"}),
        ("`sklearn_problems/problem.py`", {"sklearn_problems/problem.py"}),
        ("no file: `angle_`, P(y/x), 1/n", set()),
    ],
)
def test_names_of_files_are_recognized(text, found):
    assert named_files(text) == found


def test_a_name_that_does_not_exist_is_found():
    assert missing({"plan.py", "nowhere.py"}) == {"nowhere.py"}
