"""The committed study: complete, shown as it is in the docs, and made by the committed code."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from threadpoolctl import threadpool_limits

from studies.engine.command import present
from studies.engine.runner import read_tables, trial_generator
from studies.engine.store import Store, formatted
from studies.paper.command import RESULTS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "studies" / "results" / "paper"
EXPERIMENTS = {result.experiment.name: result.experiment for result in RESULTS.values()}


def filler():
    spec = importlib.util.spec_from_file_location("fill_study", ROOT / "docs" / "fill_study.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_trial_of_the_full_study_is_there_once(name):
    experiment = EXPERIMENTS[name]
    settings = json.loads((FOLDER / f"{name}.json").read_text())
    assert settings == {"experiment": name, **json.loads(json.dumps(asdict(experiment.full)))}
    store = Store(FOLDER, experiment, experiment.full)
    seen = set()
    for table, columns in experiment.tables.items():
        with store.path(table).open() as file:
            header, *rows = csv.reader(file)
        assert header == ["trial", *columns]
        numbers = [int(row[0]) for row in rows]
        assert numbers == sorted(numbers)
        seen |= set(numbers)
    assert seen == set(range(len(experiment.trials(experiment.full))))


@pytest.mark.parametrize("name", RESULTS)
def test_summary_and_docs_show_what_the_rows_say(name):
    result = RESULTS[name]
    settings = result.experiment.full
    summary = result.summarize(read_tables(result.experiment, settings, FOLDER), settings)
    assert summary.strip() + "\n" == (FOLDER / f"{name}.md").read_text()
    shown = [(ROOT / "docs" / page).read_text() for page in filler().PAGES]
    assert any(f"<!-- table: {name} -->\n{summary.strip()}\n<!-- end -->" in page for page in shown)


SVG = "{http://www.w3.org/2000/svg}"
DOTS_PER_POINT = 200 / 72
NARROWEST = 900  # pixels; the narrowest picture is 4.68 inches wide


@pytest.mark.parametrize("name", RESULTS)
def test_both_pictures_open_and_show_something_at_the_same_size(name):
    drawing = ElementTree.parse(FOLDER / f"{name}.svg").getroot()
    assert drawing.tag == f"{SVG}svg"
    assert len({path.get("d") for path in drawing.iter(f"{SVG}path")}) > 20
    with Image.open(FOLDER / f"{name}.png") as image:
        assert image.format == "PNG"
        image.load()
        size, colors = image.size, image.convert("RGB").getcolors(maxcolors=2**24)
    assert size[0] >= NARROWEST
    assert len(colors) > 20
    points = [float(drawing.get(side).removesuffix("pt")) for side in ("width", "height")]
    assert size == pytest.approx([DOTS_PER_POINT * length for length in points], abs=1)


@pytest.mark.slow
def test_a_committed_picture_is_drawn_by_the_committed_code(tmp_path):
    result = RESULTS["sign"]
    experiment = result.experiment
    store = Store(FOLDER, experiment, experiment.full)
    for table in experiment.tables:
        shutil.copy(store.path(table), tmp_path)
    present(result, experiment.full, tmp_path)
    with Image.open(FOLDER / "sign.png") as before, Image.open(tmp_path / "sign.png") as now:
        assert now.size == before.size
    kept = (FOLDER / "sign.svg").read_text()
    creator = re.search(r"<dc:title>Matplotlib v([^,]+),", kept)
    assert creator, "the picture does not say what drew it"
    import matplotlib as mpl

    if creator[1] != mpl.__version__:
        pytest.skip(
            f"drawn by matplotlib {creator[1]}; {mpl.__version__} may place marks elsewhere"
        )
    same = (tmp_path / "sign.svg").read_bytes() == kept.encode()
    assert same, "the rows give another picture than the committed one; draw it again"


def test_filling_the_pages_again_changes_nothing():
    module = filler()
    for name, folders in module.PAGES.items():
        text = (ROOT / "docs" / name).read_text()
        assert module.filled(text, *(FOLDER.parent / folder for folder in folders)) == text


# Where one trial is cheap enough to be run here; its number.
CHEAP = {
    "gaussian": 3,
    "pools": 3,
    "theorems": 2,
    "sign-bound": 0,
    "phase": 1979,
    "draws": 7,
    "intercept": 5,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_a_committed_row_is_made_by_the_committed_code(name):
    """Up to the rounding that another processor's linear algebra may bring."""
    experiment, number = EXPERIMENTS[name], CHEAP[name]
    settings = experiment.full
    with threadpool_limits(limits=1):
        made = experiment.run(settings, experiment.trials(settings)[number])
    store = Store(FOLDER, experiment, settings)
    for table, columns in experiment.tables.items():
        with store.path(table).open() as file:
            stored = [row[1:] for row in csv.reader(file) if row[0] == str(number)]
        rows = [[formatted(row[column]) for column in columns] for row in made.get(table, ())]
        assert len(rows) == len(stored)
        for row, kept in zip(rows, stored, strict=True):
            for cell, before in zip(row, kept, strict=True):
                if cell != before:
                    assert float(cell) == pytest.approx(float(before), rel=1e-4, abs=1e-7)


class AskedForError(Exception):
    """Raised in place of a trial's work, once its generator is known."""


def test_no_two_trials_of_the_study_share_their_random_numbers(monkeypatch):
    """Of all experiments together, with the labels that the trials themselves ask with."""
    asked = []

    def recorder(*seed_and_labels):
        asked.append(seed_and_labels)
        raise AskedForError

    n_trials = 0
    for experiment in EXPERIMENTS.values():
        module = sys.modules[experiment.run.__module__]
        monkeypatch.setattr(module, "trial_generator", recorder)
        for trial in experiment.trials(experiment.full):
            with pytest.raises(AskedForError):
                experiment.run(experiment.full, trial)
            n_trials += 1
    assert {seed for seed, *_ in asked} == {2025}
    first = {tuple(trial_generator(*each).integers(2**63, size=2)) for each in asked}
    assert len(first) == len(asked) == n_trials
