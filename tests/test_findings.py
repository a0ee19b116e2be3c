"""What an adversary found in angcal 0.1.0, and tests of each: `FINDINGS` names them row by row.

Reproducers that no other file has are here.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from angcal import AngleWarning, AngularCalibratedClassifier, Logit, PoolWarning

TESTS = Path(__file__).parent
FINDINGS = {
    "several classes, scores of too low a rank": (
        "test_estimators_multiclass.py::test_fewer_directions_than_classes_ask_for",
        "test_multiclass_angles.py::test_directions_that_hold_only_a_row_s_own_label_are_not_trusted",
    ),
    "intervals of the angle too short": (
        "theory/test_observable_error.py::test_the_error_is_that_over_draws",
        "theory/test_observable_error.py::test_a_weak_signal_has_a_long_interval_and_says_so",
    ),
    "an endless loop over one huge column": (
        "test_iterative.py::test_sampling_ends_where_single_precision_leaves_few_rows",
    ),
    "crafted model files": (
        "test_model_files.py::test_models_of_others_are_refused",
        "test_model_files.py::test_forged_files_are_refused_or_valid",
        "test_hostile_cases.py::test_what_a_forged_file_does_is_seen",
    ),
    "copies of rows": (
        "test_doubtful_input.py::test_near_copies_and_copies_under_a_strong_penalty_are_noticed",
    ),
    "a pool of one row": (
        "test_findings.py::test_a_pool_of_one_row_again_and_again_has_no_spread",
        "test_findings.py::test_a_pool_of_few_rows_says_what_it_tells",
    ),
    "classes that merge or vanish": (
        "test_tables_targets.py::test_whole_numbers_beyond_2_to_the_53_stay_apart",
        "test_tables_targets.py::test_a_word_for_nothing_that_recurs_among_words_is_a_class",
    ),
    "units": (
        "test_scale_of_x.py::test_a_path_follows_the_unit_of_X",
        "test_units.py::test_one_column_in_another_unit_is_named_once",
        "test_units.py::test_a_path_reaches_the_penalties_of_ordinary_columns_beside_a_large_one",
        "test_scale_of_x.py::test_a_unit_whose_square_is_no_number_is_refused",
        "test_hostile_fits.py::"
        "test_a_cell_at_the_end_of_arithmetic_leaves_all_rows_their_probabilities",
    ),
    "probabilities above one": (
        "test_findings.py::test_no_probability_of_several_classes_exceeds_one",
    ),
    "outputs that are not UTF-8": (
        "test_cli_fit.py::test_an_output_that_is_not_utf8_loses_no_verdict",
        "test_cli_predict.py::test_csv_to_an_output_that_is_not_utf8",
    ),
    "formulas, links, bombs, inputs that are overwritten": (
        "test_cli_predict.py::test_formulas_are_made_harmless",
        "test_cli_predict.py::test_a_file_gives_none_either",
        "test_cli_predict.py::test_the_input_is_overwritten_by_force_alone",
        "test_files.py::test_the_name_meanwhile_cannot_be_guessed",
        "test_files.py::test_a_file_that_is_in_the_way_is_not_written_through",
        "test_files.py::test_a_kill_leaves_nothing",
        "test_model_files.py::test_bombs_take_no_memory",
        "test_tables_reading.py::test_svmlight_on_one_endless_line",
    ),
    "workers that outlive their parent": (
        "studies/test_orphans.py::test_a_killed_parent_leaves_no_worker",
    ),
    "datasets": (
        "studies/test_datasets.py::test_every_file_that_is_there_has_its_checksum",
        "studies/test_datasets_fetching.py::test_https_is_all_that_is_allowed",
        "studies/test_datasets_fetching.py::test_downloads_have_a_largest_size",
    ),
    "harm without a word": (
        "test_hostile_cases.py::test_what_was_found_stays_mended",
        "test_findings.py::test_maps_that_chance_may_explain_are_doubted",
        "test_few_labels.py::test_a_gain_that_chance_explains_is_said",
    ),
    "errors that are no sentence": (
        "test_hostile_cases.py::test_no_case_fails",
        "test_hostile_fits.py::test_a_singular_matrix_is_worded",
    ),
    "flipped bits of ONNX": (
        "test_export.py::test_a_flipped_bit_anywhere_in_an_onnx_file_is_refused",
    ),
    "forks inside the thread limit": (
        "test_threads.py::test_a_child_inherits_neither_the_lock_nor_a_limit",
    ),
}


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_has_its_test(finding):
    for place in FINDINGS[finding]:
        file, name = place.split("::")
        assert re.search(rf"^def {name}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE), place


def drawn(n, d, n_classes, seed, signal=2.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 2000, d))
    P = softmax(signal * X @ rng.normal(size=(d, n_classes)) / np.sqrt(d), axis=1)
    y = (P.cumsum(axis=1) < rng.random((len(X), 1))).sum(axis=1).clip(max=n_classes - 1)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.parametrize("copies", [3, 6, 30])
def test_a_pool_of_one_row_again_and_again_has_no_spread(copies):
    """Its rounding was taken for one: log-loss 11 to 14, where the prevalence has 0.7."""
    X, y, fresh, labels = drawn(100, 20, 2, 0)
    pool = np.repeat(fresh[:1], copies, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoolWarning)
        with pytest.warns(AngleWarning, match="the fitted score does not vary"):
            model = AngularCalibratedClassifier(pool=pool).fit(X, y)
    assert log_loss(labels, model.predict_proba(fresh)) < 0.75


def test_a_pool_of_few_rows_says_what_it_tells():
    X, y, fresh, _ = drawn(100, 20, 2, 0)
    with pytest.warns(PoolWarning, match="The pool has 5 rows, .* no better than 35%"):
        AngularCalibratedClassifier(link=Logit(3.0), pool=fresh[:5]).fit(X, y)


@pytest.mark.parametrize("n_classes", [3, 4, 6])
def test_no_probability_of_several_classes_exceeds_one(n_classes):
    """By 2e-16 they did, and scikit-learn's log_loss refused them."""
    X, y, fresh, labels = drawn(300, 5, n_classes, 1, signal=20.0)
    base = LogisticRegression(C=1e3, tol=1e-8, max_iter=5000)
    p = AngularCalibratedClassifier(base).fit(X, y).predict_proba(50.0 * fresh)
    assert p.max() <= 1.0
    assert p.min() >= 0.0
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0.0, atol=1e-12)
    log_loss(labels, p, labels=np.arange(n_classes))


def test_maps_that_chance_may_explain_are_doubted():
    """Without any signal, none of 12 maps of three classes costs 0.1 nats without a word."""
    harms: list[float] = []
    told: list[str] = []
    for seed in range(12):
        X, y, fresh, labels = drawn(60, 20, 3, 100 + seed, signal=0.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = AngularCalibratedClassifier().fit(X, y)
        prevalence = np.tile(np.bincount(y) / len(y), (len(labels), 1))
        harms.append(log_loss(labels, model.predict_proba(fresh)) - log_loss(labels, prevalence))
        told.append(" ".join(str(each.message) for each in caught))
    assert max(harms) > 0.05
    assert not any(harm > 0.1 and not said for harm, said in zip(harms, told, strict=True))
    assert any("Hardly any signal found" in said for said in told)
