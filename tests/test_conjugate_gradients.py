"""Conjugate gradients and their stopping rules against direct solves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from angcal.solvers.conjugate_gradients import (
    DelayedAccuracy,
    FormAccuracy,
    ResidualDrop,
    conjugate_gradients,
)


def problem(dtype=np.float64, columns=5):
    rng = np.random.default_rng(1)
    root = rng.normal(size=(60, 40))
    M = (root.T @ root + 5.0 * np.eye(40)).astype(dtype)
    return M, rng.normal(size=(40, columns)).astype(dtype)


@pytest.mark.parametrize(
    ("rule", "tolerance"),
    [
        (lambda: FormAccuracy(np.full(5, 1e-4)), 1e-4),
        (lambda: DelayedAccuracy(1e-8), 1e-8),
        (lambda: ResidualDrop(1e-16), 1e-10),
    ],
    ids=["form", "delayed", "residual"],
)
def test_every_rule_reaches_its_accuracy(rule, tolerance):
    M, B = problem()
    found = conjugate_gradients(lambda V: (M @ V, None), B, (1 / np.diag(M))[:, None], rule(), 200)
    expected = np.linalg.solve(M, B)
    assert found.converged
    assert_allclose(found.forms, np.einsum("ij,ij->j", B, expected), rtol=tolerance)


def test_forms_are_extrapolated_in_single_precision():
    M, B = problem(np.float32)
    found = conjugate_gradients(
        lambda V: (M @ V, None), B, (1 / np.diag(M))[:, None], FormAccuracy(np.full(5, 1e-4)), 150
    )
    expected = np.linalg.solve(M.astype(float), B)
    assert_allclose(found.values, expected, atol=0.02 * np.abs(expected).max())
    assert_allclose(found.forms, np.einsum("ij,ij->j", B, expected), rtol=1e-4)


def test_images_are_carried_along():
    M, B = problem()
    found = conjugate_gradients(
        lambda V: (M @ V, 3.0 * V), B, np.ones((40, 1)), ResidualDrop(1e-12), 100
    )
    assert_allclose(found.images, 3.0 * found.values, rtol=1e-12)


def test_columns_do_not_see_each_other():
    M, B = problem()
    rule = lambda: ResidualDrop(0.0)  # noqa: E731
    both = conjugate_gradients(lambda V: (M @ V, None), B, np.ones((40, 1)), rule(), 7)
    one = conjugate_gradients(lambda V: (M @ V, None), B[:, 1:2], np.ones((40, 1)), rule(), 7)
    assert_allclose(both.values[:, 1], one.values[:, 0], rtol=1e-12)


def test_a_zero_column_stays_zero():
    M, B = problem()
    B[:, 2] = 0.0
    found = conjugate_gradients(
        lambda V: (M @ V, None), B, np.ones((40, 1)), DelayedAccuracy(1e-8), 200
    )
    assert found.converged
    assert not found.values[:, 2].any()


def test_hopeless_conditioning_is_said():
    values = np.geomspace(1e-12, 1.0, 400).astype(np.float32)[:, None]
    rhs = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    found = conjugate_gradients(
        lambda V: (values * V, None),
        rhs,
        np.ones((400, 1), dtype=np.float32),
        FormAccuracy(np.full(3, 1e-6)),
        150,
    )
    assert not found.converged


def test_a_singular_matrix_is_not_solved():
    M = np.diag([1.0, 0.0])
    found = conjugate_gradients(
        lambda V: (M @ V, None), np.ones((2, 1)), np.ones((2, 1)), DelayedAccuracy(1e-8), 300
    )
    assert not found.converged
