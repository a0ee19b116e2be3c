"""Golden outputs: what a comparison finds, and the table of what moved."""

from __future__ import annotations

import numpy as np

from studies.golden import DESIGNS, differences, posterior_table, run

NAME = "few rows"


def test_a_state_does_not_differ_from_itself():
    outputs = run(NAME)
    assert {f"{NAME}/{part}" for part in ("probabilities", "log_loss", "cosine")} <= set(outputs)
    assert NAME in DESIGNS
    assert set(differences(outputs, run(NAME)).values()) == {0.0}


def test_the_table_shows_what_moved_and_what_did_not():
    before = run(NAME)
    after = {name: values.copy() for name, values in before.items()}
    after[f"{NAME}/cosine"] -= 0.25
    after[f"{NAME}/log_loss"] += 0.01
    loss = float(before[f"{NAME}/log_loss"][0])
    table = posterior_table(before, after)
    assert f"| {NAME} | 0 | 0.2500 | 0 | {loss:.4f} | {loss + 0.01:.4f} | +0.0100 |" in table
    assert "fell in 0 and rose in 1, by +0.0100" in table


def test_missing_and_infinite_outputs_are_said():
    before = {"Platt/probabilities": np.ones(2), "Platt/log_loss": np.array([np.inf])}
    table = posterior_table(before, {"Platt/log_loss": np.array([np.inf])})
    assert "| Platt | — | — | — | inf | inf | 0 |" in table
