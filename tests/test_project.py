"""What a user gets: a wheel with what it should hold, a light import, one version everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest
import yaml

import angcal

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEAVY = ("matplotlib", "pandas", "polars", "rich", "jinja2", "skops", "onnx", "skl2onnx", "torch")
ASKED_FOR = {"plot", "cli", "report", "onnx", "gpu", "dev"}


@cache
def modules_after(statement):
    """Names in sys.modules of a fresh process that ran a statement."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import angcal", "import angcal.export, angcal.displays"])
def test_importing_pulls_in_nothing_heavy(statement):
    # scikit-learn itself imports pandas where it is installed.
    loaded = modules_after(statement) - modules_after("import sklearn.linear_model")
    assert "angcal" in loaded
    assert not loaded & set(HEAVY)


def test_importing_pulls_in_no_command_line_export_or_dataset():
    loaded = modules_after("import angcal")
    own = ("cli", "demo", "export", "displays", "model_files", "persistence")
    assert not loaded & {"studies", *(f"angcal.{name}" for name in own)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--quiet"]
    command += ["--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    with zipfile.ZipFile(found) as archive:
        yield archive


def test_the_wheel_holds_the_package_and_its_typed_marker(wheel):
    names = wheel.namelist()
    assert "angcal/__init__.py" in names
    assert "angcal/py.typed" in names
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "angcal").rglob("*.py")
    }
    assert sources <= set(names)


def test_the_wheel_holds_nothing_else(wheel):
    top = {name.split("/")[0] for name in wheel.namelist()}
    assert top == {"angcal", f"angcal-{angcal.__version__}.dist-info"}
    assert not [name for name in wheel.namelist() if "test" in name.lower()]


def test_the_wheel_needs_the_core_dependencies_only(wheel):
    text = wheel.read(f"angcal-{angcal.__version__}.dist-info/METADATA").decode()
    needed = re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==)", text, flags=re.MULTILINE)
    assert set(needed) == {"numpy", "scipy", "scikit-learn", "threadpoolctl"}


def test_one_version_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    found = re.search(r"^version: (\S+)$", citation, flags=re.MULTILINE).group(1)
    assert found == angcal.__version__ == PYPROJECT["project"]["version"]
    assert f"## {angcal.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_extras_exist():
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert set(extras) >= ASKED_FOR


def test_extras_named_in_messages_exist():
    """A message that says pip install 'angcal[x]' must not send anyone to nothing."""
    extras = set(PYPROJECT["project"]["optional-dependencies"])
    for path in (ROOT / "src").rglob("*.py"):
        named = set(re.findall(r"angcal\[(\w+)\]", path.read_text()))
        assert named <= extras, path.name


def test_the_citation_is_complete():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)  # what the schema requires
    assert citation["authors"] == [{"name": "The angcal developers"}]
    for reference in (citation["preferred-citation"], *citation["references"]):
        assert {"type", "title", "authors"} <= set(reference)
        assert all({"family-names", "given-names"} <= set(a) for a in reference["authors"])


def test_the_citation_follows_the_schema():
    cffconvert = pytest.importorskip("cffconvert")
    cffconvert.Citation((ROOT / "CITATION.cff").read_text()).validate()


def make_recipes():
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md"])
def test_make_commands_that_pages_name_exist(page):
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", (ROOT / page).read_text(), flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= make_recipes()


def test_the_hooks_are_the_checks_of_make_lint():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = {hook["id"] for repo in config["repos"] for hook in repo["hooks"]}
    recipe = re.search(
        r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE
    ).group(1)
    for tool in ("ruff check", "ruff format --check", "mypy", "lint-imports"):
        assert tool in recipe
    assert {"ruff-check", "ruff-format", "mypy", "imports"} <= hooks


def workflows():
    return sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", workflows(), ids=lambda path: path.name)
def test_workflows_call_recipes_that_exist(path):
    jobs = yaml.safe_load(path.read_text())["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert runs
    assert {run.split()[1] for run in runs if run.startswith("make ")} <= make_recipes()


def test_every_supported_python_is_declared_and_tested():
    named = [c.rsplit(" ", 1)[1] for c in PYPROJECT["project"]["classifiers"] if " :: 3." in c]
    tests = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]
    assert named == tests["strategy"]["matrix"]["python"] == PYPROJECT["tool"]["tox"]["env_list"]
    assert PYPROJECT["project"]["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize(
    "name",
    ["LICENSE", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "SUPPORT.md"],
)
def test_the_files_of_a_project_exist(name):
    assert len((ROOT / name).read_text()) > 200


BRITISH = re.compile(
    "(?i)(?<![a-z])(?:un|mis)?(?:centre[ds]?|centring|(?:col|fav|behavi|neighb)our[a-z]*"
    "|(?:label|travel|model)l(?:ed|ing)|grey|artefacts?"
    "|(?:standard|normal|factor|minim|maxim|summar|recogn|penal|real|general|optim|organ|initial"
    "|visual|special|character|vector|discret|equal|util|emphas|regular|token|random|linear|huber)"
    "is(?:e[ds]?|ers?|ing|ations?))(?![a-z])"
)
# What users write, from before there was one spelling, and an attribute of HTML.
KEPT = re.compile("randomised|[Hh]uberised|labelledby")
TEXTS = ("py", "md", "toml", "html", "js", "css")
PLACES = ("src", "studies", "docs", "tests", "examples")


def british(text):
    """Words that are not spelled as in American English."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", KEPT.sub("", text))
    return BRITISH.findall(apart)


def test_one_spelling():
    paths = [path for place in PLACES for path in (ROOT / place).rglob("*.*")]
    paths = [path for path in [*paths, *ROOT.glob("*.md")] if path.suffix[1:] in TEXTS]
    assert len(paths) > 400
    made = ("api/generated", "auto_examples", "__pycache__")  # by sphinx
    paths = [path for path in paths if not any(name in path.as_posix() for name in made)]
    found = {path.name: british(path.read_text(encoding="utf-8")) for path in paths}
    found.pop(Path(__file__).name)  # which names them
    assert not {name: words for name, words in found.items() if words}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the centre of labelled rows", ["centre", "labelled"]),
        ("def off_centre(): standardiseColumns", ["centre", "standardise"]),
        ("penalise, factorisation, MINIMISED", ["penalise", "factorisation", "MINIMISED"]),
        ('HuberisedHinge, "randomised", aria-labelledby', []),
        ("precise, center, labeled, promised, exercise, series", []),
    ],
)
def test_other_spellings_are_found(text, words):
    assert british(text) == words
