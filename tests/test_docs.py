"""What README and docs show runs and prints what they say; what they point at exists."""

from __future__ import annotations

import inspect
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import angcal
import angcal.displays
from angcal import AngularCalibratedClassifier, MEstimator

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pages import ROOT, executed, look_up, pages, prepared, python_blocks

DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = pages()
names = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


run = cache(executed)


def test_there_are_blocks_to_run():
    assert len(python_blocks(ROOT / "README.md")) >= 3
    assert len(python_blocks(DOCS / "extending.md")) >= 4


@names
def test_every_block_runs_and_prints_what_the_page_says(page):
    _, results = run(page)
    for match, printed in results:
        assert printed == (match["output"] or "")


def test_the_readmes_classifier_predicts():
    namespace, _ = run(ROOT / "README.md")
    p = namespace["clf"].predict_proba(namespace["X_new"])
    assert p.shape == (10, 2)
    assert np.ptp(p[:, 1]) > 0.1


def test_the_guides_own_loss_penalty_and_link_fit():
    namespace, _ = run(DOCS / "extending.md")
    X, y = namespace["X"], namespace["y"]
    labels = np.array([0.0, 1.0, 1.0])
    scores, h = np.array([-0.7, 0.2, 3.0]), 1e-5
    loss = namespace["LogCosh"]()
    slope = (loss.value(scores + h, labels) - loss.value(scores - h, labels)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(scores, labels), slope, atol=1e-8)
    bend = (loss.gradient(scores + h, labels) - loss.gradient(scores - h, labels)) / (2 * h)
    np.testing.assert_allclose(loss.hessian(scores, labels), bend, atol=1e-8)
    model = MEstimator(loss, namespace["WeightedRidge"](np.linspace(0.01, 0.1, X.shape[1])))
    assert AngularCalibratedClassifier(model).fit(X, y).angle_.cosine > 0
    clf = namespace["clf"].fit(X, y)
    assert clf.link_ is namespace["link"]
    assert np.all((clf.predict_proba(X) >= 0.05 - 1e-9) & (clf.predict_proba(X) <= 0.95 + 1e-9))


# -- commands ----------------------------------------------------------------------------------


def make_commands(text):
    return set(re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.MULTILINE))


@names
def test_make_commands_on_a_page_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:(.*)$", makefile, flags=re.MULTILINE).group(1).split()
    for command in make_commands(page.read_text()):
        assert re.search(rf"^{command}:", makefile, flags=re.MULTILINE)
        assert command in phony


def test_the_tests_of_the_oldest_versions_exist():
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    named = re.search(r"^CORE := .*?\.py,(.*?)\)\)$", makefile, flags=re.MULTILINE).group(1).split()
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / "tests" / f"test_{name}.py").exists()]


def test_the_readme_has_the_two_commands():
    assert make_commands((ROOT / "README.md").read_text()) == {"demo", "test"}


def shell_commands(page):
    """Lines of fenced or indented blocks that call us: (program, arguments without comments)."""
    without_output = re.sub(r"^```text\n.*?^```", "", page.read_text(), flags=re.DOTALL | re.M)
    pattern = r"^(?: {4})?(?:python -m )?(angcal|studies) (.*)$"
    lines = re.findall(pattern, without_output, flags=re.MULTILINE)
    return [(program, shlex.split(line, comments=True)) for program, line in lines]


@names
def test_shell_commands_on_a_page_are_understood(page, capsys):
    parsers = {"angcal": "angcal.cli", "studies": "studies.__main__"}
    for program, arguments in shell_commands(page):
        if "COMMAND" in arguments:
            continue
        with suppress(SystemExit):
            import_module(parsers[program]).build_parser().parse_args(arguments)
        assert not capsys.readouterr().err, f"{program} {' '.join(arguments)}"


def test_there_are_shell_commands_to_understand():
    assert len(shell_commands(DOCS / "guide" / "command_line.md")) >= 6


# -- names and links ---------------------------------------------------------------------------


@names
def test_links_and_named_files_exist(page):
    text = page.read_text()
    targets = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", text))
    missing = [target for target in targets if not (page.parent / target).exists()]
    missing += [s for s in re.findall(r"`python ([\w/.]+)`", text) if not (ROOT / s).exists()]
    assert not missing


@names
def test_names_imported_on_a_page_are_public(page):
    for block in python_blocks(page):
        for line in re.findall(r"^from angcal import (.+)$", block, flags=re.MULTILINE):
            assert {name.strip() for name in line.split(",")} <= set(angcal.__all__)


@names
def test_dotted_names_on_a_page_exist(page):
    assert all(look_up(path) is not None for path in dotted_names(page))


def dotted_names(page):
    return set(re.findall(r"`(angcal\.[\w.]+)", page.read_text()))


def test_there_are_dotted_names_to_look_up():
    assert len(dotted_names(DOCS / "symbols.md")) > 30
    with pytest.raises(AttributeError):
        look_up("angcal.nowhere")


# Phrases that a reader has to solve, each with a plainer one in its place.
RIDDLES = {
    "come by": "computed",
    "told apart": "determined, separated",
    "tells rows apart": "the same for every row",
    "so-manieth": "every k-th",
    "it buys": "what you gain",
    "cannot be had": "not available",
    "to be had": "available",
    "lean on each other": "depend on each other",
}


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"],
    ids=lambda page: page.name,
)
def test_a_page_has_no_riddles(page):
    text = " ".join(page.read_text().split()).lower()
    assert not {riddle: plain for riddle, plain in RIDDLES.items() if riddle in text}


def test_sources_have_no_riddles():
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.html")]
    files += [*(ROOT / "studies").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    texts = {path.name: " ".join(path.read_text().split()).lower() for path in files}
    assert len(texts) > 100
    assert not {
        (name, riddle) for name, text in texts.items() for riddle in RIDDLES if riddle in text
    }


def test_every_expression_on_the_page_of_symbols_works():
    text = (DOCS / "symbols.md").read_text()
    data = prepared()
    clf = AngularCalibratedClassifier(LogisticRegression(C=5.0)).fit(data["X"], data["y"])
    expressions = set(re.findall(r"`(\(?clf\.[^`]+)`", text))
    assert len(expressions) > 15
    for expression in expressions:
        eval(expression, {"clf": clf})


# -- the site ----------------------------------------------------------------------------------

MODULES = {
    name: f"angcal.{name}"
    for name in (
        *("metrics", "simulation", "displays", "persistence", "export", "dask", "theory"),
        "planner",
    )
} | {"angcal": "angcal", "datasets": "studies.datasets"}


def build_site(folder):
    """The site from a copy of its sources, beside which Sphinx writes what it makes of them.

    The course is not run here; tests/test_examples.py runs it.
    """
    source = folder / "root" / "docs"
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("course", "generated", "build"))
    for path in ROOT.iterdir():
        if path.name not in ("docs", "build", ".git"):
            (source.parent / path.name).symlink_to(path)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-D", "plot_gallery=0", "-d", str(folder / "doctrees")]
    command += [str(source), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


# One test for the whole site: each worker that runs a test of it has to build it.
def test_the_site_builds_without_a_warning_with_every_name_and_no_network(tmp_path):
    for package in ("sphinx", "sphinx_gallery", "myst_parser", "furo"):
        pytest.importorskip(package)
    site = build_site(tmp_path)
    assert 'src="_images/overconfidence.svg"' in (site / "index.html").read_text()
    # Mathematics is drawn by the browser; an index of an accented letter is beside it, not below.
    formulas = (site / "angle.html").read_text()
    assert formulas.count('<math xmlns="http://www.w3.org/1998/Math/MathML"') > 30
    assert "$" not in re.sub(r"<script.*?</script>", "", formulas, flags=re.DOTALL)
    assert "munderover" not in formulas
    assert_reference_has_every_public_name(site)
    assert_displays_are_drawn_where_they_are_named(site)
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not loaded, page.name


def assert_reference_has_every_public_name(site):
    for module, path in MODULES.items():
        owner = import_module(path)
        group = (site / "api" / f"{module}.html").read_text()
        for name in owner.__all__:
            found = getattr(owner, name)
            # Constants are listed where their docstrings are; a Literal is callable too.
            if isinstance(found, type) or inspect.isfunction(found):
                page = f"generated/{owner.__name__}.{name}.html"
                assert f'href="{page}' in group, f"{module}: {name}"
                html = (site / "api" / page).read_text()
                assert f'id="{owner.__name__}.{name}"' in html, f"{module}: {name}"


def assert_displays_are_drawn_where_they_are_named(site):
    for name in set(angcal.displays.__all__) - {"STYLES"}:
        html = (site / "api" / "generated" / f"angcal.displays.{name}.html").read_text()
        assert re.search(rf'<img alt="{name}"[^>]*display_pictures_{name}\.png', html), name


# -- tables that a command fills ---------------------------------------------------------------


def test_the_side_by_side_page_is_what_its_rows_give(tmp_path):
    page_module = import_module("fill_side_by_side")
    copy = tmp_path / "side_by_side.md"
    copy.write_text((DOCS / "side_by_side.md").read_text())
    page_module.write_page(page=copy)
    assert copy.read_text() == (DOCS / "side_by_side.md").read_text()
    assert "| MAPIE |" in copy.read_text()


@pytest.mark.parametrize("snippet", ["uncalibrated", "with_angcal", "with_angcal_tuned"])
def test_our_snippets_of_the_comparison_run(snippet, monkeypatch):
    folder = ROOT / "docs" / "snippets"
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "task", raising=False)
    names = runpy.run_path(str(folder / f"{snippet}.py"))
    assert names["p"].shape == (1697,)


def test_the_readme_is_what_its_command_gives(monkeypatch):
    fill_readme = import_module("fill_readme")
    blocks = {found[2]: found[3] for found in fill_readme.BLOCK.finditer(README)}
    assert blocks["results"] == fill_readme.results()
    assert blocks["results"].count("\n") == len(fill_readme.TOOLS) + 2
    first = fill_readme.demo.TASKS[:1]
    outcomes = fill_readme.demo.run(fill_readme.SPLITS, fill_readme.SEED, first)
    assert blocks["demo"].splitlines()[0] == fill_readme.demo_words(outcomes).strip()


def test_the_readme_is_short():
    assert len(README.splitlines()) < 130
