"""The counts of `python -m studies.house` are what they say."""

from __future__ import annotations

import re

import numpy as np

from angcal.links import Logit
from angcal.metrics import log_loss
from studies import house

MODULE = '''"""Two lines
of documentation."""

FIRST, SECOND = 1, 2
_THIRD: int = 3
"""What it is."""
NAMES = {"one": 1}
lower = 4


def short():
    """One line."""
    INSIDE = 5
    return INSIDE
'''


def test_lines_documentation_and_constants_are_counted(tmp_path):
    (tmp_path / "module.py").write_text(MODULE)
    (found,) = house.sources(tmp_path)
    assert (found.name, found.lines, found.documentation) == ("module.py", 14, 4)
    assert found.constants == ("FIRST", "SECOND", "_THIRD", "NAMES")
    assert found.numbers == ("FIRST", "SECOND", "_THIRD")
    assert found.long_functions == ()


def test_a_function_is_long_from_sixty_one_lines_on(tmp_path):
    for lines, name in ((60, "short"), (61, "long")):
        body = "\n".join(["    pass"] * (lines - 1))
        (tmp_path / f"{name}.py").write_text(f"def {name}():\n{body}\n")
    long, short = house.sources(tmp_path)
    assert long.long_functions == (("long", 61),)
    assert short.long_functions == ()


def test_the_core_is_the_library_without_its_surroundings():
    core = {each.name for each in house.sources(house.LIBRARY) if each.in_core}
    assert {"rows/base.py", "curve/table.py", "estimators/angular.py"} <= core
    assert not {"export/convert.py", "cli/fit.py", "metrics/scores.py"} & core


def test_functions_of_the_core_are_traced_and_others_are_not():
    scores, labels = np.array([0.2, 0.8]), np.array([0, 1])
    called = house.crossed(lambda: (Logit().base(scores), log_loss(labels, scores), scores.mean()))
    names = {house.where(code) for code in called}
    assert "links/families.py: Logit.base" in names
    assert all(name.startswith("links/") for name in names)


def test_all_counts_are_printed(capsys):
    assert house.main(["--names", "--folders"]) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"^wheel +[\d,]+ lines in \d+ files; [\d,]+ without documentation$", printed, re.M
    )
    assert re.search(r"^studies +[\d,]+ lines in \d+ files", printed, re.M)
    assert re.search(r"^functions over 60 lines: \d+$", printed, re.M)
    assert re.search(r"^module constants: \d+ in the core, \d+ in the wheel$", printed, re.M)
    assert re.search(r"^of those in the core \d+ hold numbers", printed, re.M)
    folders = re.findall(r"^  [\w.]+ +([\d,]+) lines in \d+ files$", printed, re.M)
    whole = re.search(r"^wheel +([\d,]+)", printed, re.M)
    assert sum(int(n.replace(",", "")) for n in folders) == int(whole[1].replace(",", ""))
    shared = re.findall(r"(\w[\w ]*) (\d+), ([\w ]+) (\d+), shared (\d+) \((\d+)%", printed)
    assert [(pair[0], pair[2]) for pair in shared] == list(house.PAIRS)
    for _, first, _, second, common, share in shared:
        smaller = min(int(first), int(second))
        assert 0 < int(common) <= smaller
        assert int(share) == round(100 * int(common) / smaller)
    assert "two classes, not three classes:" in printed
