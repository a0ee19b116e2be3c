"""The committed study: complete, shown as it is in the docs, and made by the committed code."""

from __future__ import annotations

import csv
import importlib.util
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from angcal.reproduce.catalogue import RESULTS
from angcal.reproduce.runner import read_tables, trial_generator
from angcal.reproduce.store import Store, formatted

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "reproduce"
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
    summary = result.summarise(read_tables(result.experiment, settings, FOLDER), settings)
    assert summary.strip() + "\n" == (FOLDER / f"{name}.md").read_text()
    assert (FOLDER / f"{name}.png").stat().st_size > 10_000
    assert "<svg" in (FOLDER / f"{name}.svg").read_text()[:500]
    shown = [page.read_text() for page in filler().PAGES]
    assert any(
        f"<!-- result: {name} -->\n{summary.strip()}\n<!-- end -->" in page for page in shown
    )


def test_filling_the_pages_again_changes_nothing():
    module = filler()
    for page in module.PAGES:
        assert module.filled(page.read_text(), FOLDER) == page.read_text()


# Where one trial is cheap enough to be run here; its number.
CHEAP = {"pools": 3, "theorems": 2, "sign-bound": 0, "phase": 1979, "draws": 7, "intercept": 5}


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


def test_no_two_draws_share_their_random_numbers():
    first = {trial_generator(2025, "draws", draw).integers(2**63) for draw in range(5000)}
    assert len(first) == 5000
    for experiment in EXPERIMENTS.values():
        labels = [tuple(trial.values()) for trial in experiment.trials(experiment.full)]
        numbers = {
            trial_generator(2025, experiment.name, *label).integers(2**63) for label in labels
        }
        assert len(numbers) == len(labels)
        assert np.all(np.array(sorted(numbers)) >= 0)
