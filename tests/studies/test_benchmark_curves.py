"""`studies benchmark curves`: variants of the average on packaged data, end to end."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from studies.engine.command import run_and_present
from studies.engine.runner import read_tables
from studies.peers.curves import BELIEFS, KEPT, LABELS, RESULTS, SINGLE, TRUTH


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("curves")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANGCAL_DATA", raising=False)
        patch.setenv("ANGCAL_CACHE", str(folder / "cache"))
        with redirect_stdout(io.StringIO()) as printed:
            run_and_present(RESULTS, folder=folder, quick=True)
        return folder, printed.getvalue()


def test_every_variant_is_judged_on_the_same_rows(quick):
    rows = read_tables(LABELS, LABELS.quick, quick[0])[""]
    cells = rows[rows["variant"] != "none"].groupby(["dataset", "ratio"])
    assert set(rows["dataset"]) == {"digits", "breast_cancer"}
    for _, cell in cells:
        assert list(cell["variant"]) == [SINGLE, *BELIEFS]
        assert cell["n"].nunique() == 1
        assert cell["log_loss"].nunique() > len(BELIEFS) // 2


def test_the_kept_variant_is_what_the_classifier_does(quick):
    """The same split, fitted by the library alone."""
    from angcal import AngularLogisticRegressionCV
    from angcal.metrics import log_loss
    from studies.engine.runner import trial_generator
    from studies.peers.benchmark import CLIP
    from studies.peers.real import FULL as REAL
    from studies.peers.tasks import draw_split, load_task, training_rows

    rows = read_tables(LABELS, LABELS.quick, quick[0])[""]
    task = load_task("digits")
    n = training_rows(task, 2.0, REAL)
    rng = trial_generator(LABELS.quick.seed, "real", "digits", 2.0, 0)
    split = draw_split(task, n, REAL.max_test, rng)
    model = AngularLogisticRegressionCV(REAL.n_penalties).fit(split.X_train, split.y_train)
    p = np.clip(model.predict_proba(split.X_test)[:, 1], CLIP, 1.0 - CLIP)
    here = rows[(rows["dataset"] == "digits") & (rows["ratio"] == 2.0)].set_index("variant")
    assert here.loc[KEPT, "log_loss"] == pytest.approx(log_loss(split.y_test, p), abs=1e-6)


def test_the_summary_has_both_tables(quick):
    folder, text = quick
    for name in ("labels", "truth"):
        assert (folder / f"{name}.md").read_text() in text
    assert all(f"| {name} |" in text for name in (SINGLE, *BELIEFS))
    truth = read_tables(TRUTH, TRUTH.quick, folder)[""]
    assert all(f"| {name} |" in text for name in truth["variant"].unique())
    assert np.all(truth[["error", "error_best", "kl"]] > 0)


def test_finished_trials_are_not_run_again(quick, monkeypatch, capsys):
    monkeypatch.setattr("studies.engine.command.run_experiment", lambda *args, **kwargs: None)
    run_and_present(RESULTS, folder=quick[0], quick=True)
    assert capsys.readouterr().out == quick[1]
