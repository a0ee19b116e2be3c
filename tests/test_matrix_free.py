"""Σ̂⁻¹ of a pool by conjugate gradients and probes, against the d × d matrix."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from angcal import AngularCalibratedClassifier, Logistic, Logit, Ridge, plan
from angcal.angle import observable_angle
from angcal.covariance import PoolInverse, inverse, matrix_free, precision, score_scale
from angcal.covariance.inverse import cheaper_method
from angcal.covariance.matrix_free import StagnationError, allowed_error, probes_needed
from angcal.observables import observe
from angcal.pools import OneShotPoolError, open_pool
from angcal.problem import LinearFit
from angcal.simulation import AutoregressiveCovariance, simulate
from angcal.solvers.conjugate_gradients import DelayedAccuracy, conjugate_gradients
from angcal.solvers.minimize import minimize

CG = "conjugate gradients"
D, M, N = 40, 130, 70
RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(D, D)) + 3.0 * np.eye(D)
POOL = RNG.normal(size=(M, D)) @ ROOT + 20.0
X = RNG.normal(size=(N, D)) @ ROOT + 20.0
PSI = RNG.normal(size=N)
CONTAINERS = {
    "dense": np.asarray,
    "csr": sparse.csr_array,
    "float32": lambda rows: rows.astype(np.float32),
    "blocks": lambda rows: lambda: iter(np.split(rows, [3, 90])),
    "mixed": lambda rows: [rows[:50], sparse.csr_array(rows[50:])],
}
centering = pytest.mark.parametrize("centered", [False, True])


def moments(rows, centered):
    shift = rows.mean(axis=0) if centered else 0.0
    return (rows - shift).T @ (rows - shift) / (len(rows) - 1)


# ------------------------------------------------------------------ solves


def solved(A, B, weights, accuracy):
    rule = DelayedAccuracy(accuracy)
    return conjugate_gradients(lambda V: (A @ V, None), B, weights[:, None], rule, 500)


@pytest.mark.parametrize("precondition", [False, True])
def test_conjugate_gradients_solve(precondition):
    A, B = moments(POOL, True), RNG.normal(size=(D, 5))
    B[:, 2] = 0.0
    weights = 1.0 / np.diag(A) if precondition else np.ones(D)
    found = solved(A, B, weights, 1e-15)
    exact = np.linalg.solve(A, B)
    assert found.converged
    assert_allclose(found.values, exact, rtol=1e-6, atol=1e-6 * np.abs(exact).max())
    # As exact as the reference: rounding, times the condition number.
    rounding = np.finfo(float).eps * np.linalg.cond(A)
    assert_allclose(found.forms, np.sum(B * exact, axis=0), rtol=rounding)
    assert not found.values[:, 2].any()


@pytest.mark.parametrize(("rho", "m"), [(0.0, 1.2), (0.5, 3.0), (0.9, 1.2), (0.95, 2.0)])
@pytest.mark.parametrize("accuracy", [1e-2, 1e-4, 1e-6])
def test_the_accuracy_that_is_stated_is_reached(rho, m, accuracy):
    """Forms lack at most the stated share, also where convergence is slow."""
    d = 150
    rng = np.random.default_rng(1)
    rows = AutoregressiveCovariance(d, rho).color(rng.normal(size=(int(m * d), d)))
    A, B = moments(rows, True), rng.normal(size=(d, 8))
    found = solved(A, B, 1.0 / np.diag(A), accuracy)
    exact = np.sum(B * np.linalg.solve(A, B), axis=0)
    assert found.converged
    assert np.all(found.forms <= exact * (1 + 1e-9))
    assert np.max(1.0 - found.forms / exact) <= accuracy


def test_an_inconsistent_system_does_not_converge():
    A = np.diag([1.0, 2.0, 0.0])
    found = solved(A, np.ones((3, 1)), np.ones(3), 1e-6)
    assert not found.converged


@centering
@pytest.mark.parametrize("kind", CONTAINERS)
def test_solves_equal_those_of_the_matrix(kind, centered, monkeypatch):
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", 500)
    rows = POOL.astype(np.float32).astype(float) if kind == "float32" else POOL
    inverse = PoolInverse(open_pool(CONTAINERS[kind](rows), D), X, centered=centered)
    V, sigma = RNG.normal(size=(D, 3)), moments(rows, centered)
    assert_allclose(inverse.apply(V), sigma @ V, rtol=1e-9, atol=1e-9 * np.abs(sigma).max())
    exact = np.linalg.solve(sigma, V)
    found = inverse.solve(V, accuracy=1e-15)
    assert_allclose(found, exact, rtol=1e-6, atol=1e-6 * np.abs(exact).max())


@centering
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_products_estimate_those_of_the_matrix(centered, container, monkeypatch):
    """The projections to the solves' accuracy, mean squares to the probes'."""
    monkeypatch.setattr(matrix_free, "SOLVE_SHARE", 1e-13)
    found = precision(None, container(POOL), X, centered=centered, method=CG)
    exact = precision(None, POOL, X, centered=centered, method="exact")
    assert (found.method, exact.method) == (CG, "exact")
    assert (found.rank, found.estimated, found.fresh) == (D, True, True)
    center = X.mean(axis=0) if centered else None
    along, squares = found.products(container(X), center, PSI)
    expected = exact.products(X, center, PSI)
    assert_allclose(along, expected[0], rtol=1e-5, atol=1e-5 * np.abs(expected[0]).max())
    error = found.operator.probe_error
    assert error < 0.1
    assert_allclose(squares.mean(), expected[1].mean(), rtol=4 * error)
    # A row's square is a mean of s squared normals: relative error √(2/s).
    scatter = np.std(squares / expected[1])
    assert_allclose(scatter, np.sqrt(2 / found.operator.n_probes), rtol=0.3)


def test_the_probes_know_their_own_error():
    """Over repeated draws of probes rank/mean(squares) scatters as each of them says."""
    pool, center = open_pool(POOL, D), X.mean(axis=0)
    ratios, errors = [], []
    for seed in range(60):
        inverse = PoolInverse(pool, X, centered=True, random_state=seed)
        inverse.prepare(X, center, PSI)
        ratios.append(inverse.rank / inverse.products(X, center, PSI)[1].mean())
        errors.append(inverse.probe_error)
    exact = precision(None, POOL, X).products(X, center, PSI)[1].mean() / D
    assert_allclose(np.std(ratios) * exact, np.mean(errors), rtol=0.3)
    assert abs(np.mean(ratios) * exact - 1.0) < 4 * np.mean(errors) / np.sqrt(60)
    assert np.mean(errors) <= 1.2 * allowed_error(N, D, 0.1)


def test_more_probes_where_rows_are_few():
    """100·d/n and 50 for an endless pool, twice as many where pool and X have 2d rows each."""
    assert probes_needed(1000, 10**9, 1000) == 101
    assert probes_needed(500, 10**9, 1000) == 201
    assert probes_needed(10**5, 10**9, 100) == 51
    assert probes_needed(2000, 2000, 1000) == 150
    assert probes_needed(10, 10**9, 1000) == matrix_free.MOST_PROBES


def test_probes_are_the_same_each_time():
    first, second = (precision(None, POOL, X, method=CG) for _ in range(2))
    assert_allclose(first.operator.probes, second.operator.probes, rtol=0, atol=0)


# ------------------------------------------------------------------ the angle

LINK = Logit(scale=3, offset=1)


def fitted(n, d, m, rho, seed):
    covariance = AutoregressiveCovariance(d, rho)
    data = simulate(n, d, link=LINK, covariance=covariance, random_state=seed)
    problem = LinearFit(
        data.X, data.y.astype(float), np.ones(n), np.zeros(d), 0.0, Logistic(), Ridge(0.5 / d), True
    )
    return minimize(problem), data.pool(m, random_state=100 + seed)


def angle_of(fit, pool, inverse):
    seen = observe(fit)
    scale = score_scale(seen, fit.coef, fit.intercept, case_weights=fit.labels + 1, pool=pool)
    return observable_angle(fit, seen, inverse, scale, sign=1.0)


class Mixed:
    """Projections of one Σ⁻¹, squares of another."""

    def __init__(self, along, squares):
        self.along, self.squares = along, squares

    def products(self, *arguments):
        return self.along.products(*arguments)[0], self.squares.products(*arguments)[1]


SETTINGS = [(300, 200, 600, 0.5), (300, 200, 600, 0.9), (150, 250, 700, 0.5), (800, 100, 130, 0.5)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_unfinished_solves_move_the_angle_by_less_than_a_hundredth_of_its_error(setting):
    """Projections by conjugate gradients, squares exact: only the solve differs."""
    for seed in range(3):
        fit, pool = fitted(*setting, seed)
        exact = precision(None, pool, fit.X)
        inverse = precision(None, pool, fit.X, method=CG, residuals=observe(fit).residuals)
        mixed = replace(exact, operator=Mixed(inverse, exact))
        expected, found = angle_of(fit, pool, exact), angle_of(fit, pool, mixed)
        assert 0 < abs(found.cosine - expected.cosine) < 0.01 * expected.sampling_error


@pytest.mark.parametrize("setting", SETTINGS)
def test_probes_move_the_angle_by_a_tenth_of_its_error(setting):
    moves, ratios = [], []
    for seed in range(6):
        fit, pool = fitted(*setting, seed)
        expected = angle_of(fit, pool, precision(None, pool, fit.X))
        found = angle_of(fit, pool, precision(None, pool, fit.X, method=CG))
        moves.append((found.cosine - expected.cosine) / expected.sampling_error)
        ratios.append(found.sampling_error / expected.sampling_error)
    # Six moves of standard deviation 0.1 have a root mean square of 0.17 at most, in 99 of 100.
    assert np.sqrt(np.mean(np.square(moves))) < 0.17
    assert_allclose(np.mean(ratios), 1.0, atol=0.05)


def test_the_classifier_takes_the_route(monkeypatch):
    data = simulate(200, 60, link=LINK, random_state=0)
    pool = data.pool(400, random_state=1)
    exact = AngularCalibratedClassifier(pool=pool, angle="observable").fit(data.X, data.y)
    monkeypatch.setattr(plan, "SMALL_SIDE", 1)
    monkeypatch.setattr(inverse, "MEMORY_LIMIT", 0)
    for kind in (np.asarray, sparse.csr_array, lambda rows: lambda: iter([rows[:10], rows[10:]])):
        found = AngularCalibratedClassifier(pool=kind(pool), angle="observable")
        found.fit(data.X, data.y)
        assert "a pool of 400 rows by conjugate gradients (" in found.angle_.reason
        gap = abs(found.angle_.cosine - exact.angle_.cosine)
        assert gap < 0.3 * exact.angle_.sampling_error
        assert_allclose(found.scale_.norm, exact.scale_.norm, rtol=1e-12)


# ------------------------------------------------------------------ rank and stagnation


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_constant_columns_do_not_count(container):
    pool, rows = POOL.copy(), X.copy()
    pool[:, 3], rows[:, 3] = 0.1, 0.1
    found = precision(None, container(pool), rows, method=CG)
    exact = precision(None, pool, rows)
    assert found.rank == exact.rank == D - 1
    along = [p.products(rows, rows.mean(axis=0), PSI)[0] for p in (found, exact)]
    assert_allclose(along[0], along[1], atol=0.05 * np.abs(along[1]).max())


def test_a_pool_of_constants_is_a_reason():
    assert "constant" in precision(None, np.ones((M, D)), X, method=CG)


def test_dependent_columns_lower_the_rank():
    """Half of the columns repeat the other half, in the pool and in X."""
    pool, rows = (np.hstack([A, -2.0 * A]) for A in (POOL, X))
    found, exact = precision(None, pool, rows, method=CG), precision(None, pool, rows)
    assert exact.rank == D
    assert found.method == CG
    assert abs(found.rank - D) <= 2
    center = rows.mean(axis=0)
    along = [p.products(rows, center, PSI)[0] for p in (found, exact)]
    assert_allclose(along[0], along[1], atol=0.05 * np.abs(along[1]).max())


@pytest.mark.parametrize("fits", [True, False])
def test_rows_beyond_the_pools_range_are_found_out(fits, monkeypatch):
    """Columns that depend on each other in the pool only: Σ̂⁻¹Xᵀψ does not exist."""
    pool = POOL.copy()
    pool[:, 5] = -2.0 * pool[:, 0]
    if not fits:
        monkeypatch.setattr(inverse, "MEMORY_LIMIT", 0)
    found = precision(None, pool, X, method=CG)
    if fits:
        assert (found.method, found.rank) == ("exact", D - 1)
        assert "a pool of 130 rows by its 40 × 40 matrix, as conjugate gradients" in found.source
    else:
        assert "conjugate gradients on the pool's covariance stopped after" in found
        assert "drop such columns, or pass a covariance operator" in found


def test_a_direct_solve_that_fails_says_so():
    pool = POOL.copy()
    pool[:, 5] = -2.0 * pool[:, 0]
    inverse = PoolInverse(open_pool(pool, D), X, centered=True)
    with pytest.raises(StagnationError, match="nearly or fully dependent"):
        inverse.solve(np.eye(D)[:, :1])


@pytest.mark.parametrize("m", [D, D + 2])
def test_too_few_rows_are_the_same_reason(m):
    message = precision(None, POOL[:m], X, method=CG)
    assert message == precision(None, POOL[:m], X, method="exact")
    assert f"the pool has {m} rows for 40 columns, too few" in message


# ------------------------------------------------------------------ which route, and what it costs


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="method='fast' is not one of"):
        precision(None, POOL, X, method="fast")


@pytest.mark.parametrize(
    ("n", "m", "d", "density", "resident", "expected"),
    [
        (800, 2000, 384, 1.0, True, "exact"),
        (5000, 6000, 1500, 1.0, True, "exact"),
        (10000, 40000, 20000, 0.001, True, CG),
        (10000, 40000, 20000, 1.0, True, CG),
        (10000, 40000, 8000, 0.001, True, CG),
        (20000, 50000, 900, 0.001, True, "exact"),
        (10000, 30000, 9000, 1.0, False, "exact"),
        (10000, 100000, 30000, 1.0, False, CG),
    ],
)
def test_the_cheaper_route_that_fits(n, m, d, density, resident, expected):
    pool = SimpleNamespace(
        n_rows=m,
        n_features=d,
        stored_entries=int(m * d * density),
        is_sparse=density < 1,
        resident=object() if resident else None,
        columns=None,
    )
    assert cheaper_method(pool, n) == expected


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_passes_are_counted(given, dtype):
    """A survey, one pass for the probes' right-hand sides, one per step."""
    starts, rows = [], X.astype(dtype)

    def blocks():
        starts.append(1)
        return iter([POOL[:60], POOL[60:]])

    pool = open_pool(blocks, D)
    found = precision(None, pool, rows, method=CG, residuals=PSI if given else None)
    before = found.operator.steps
    rounds = len(starts) - 1 - before
    assert rounds in (1, 2)
    assert f"({before} passes, {found.operator.n_probes} probes)" in found.source
    found.products(rows, rows.mean(axis=0), PSI)
    assert (found.operator.steps == before) is given
    assert len(starts) == pool.passes == 1 + rounds + found.operator.steps


def test_a_generator_is_refused():
    with pytest.raises(OneShotPoolError, match="the inverse of its covariance goes over"):
        precision(None, (rows for rows in [POOL]), X)


def test_memory_is_a_few_blocks_and_vectors(tmp_path, monkeypatch):
    """A mapped pool of 40 MB with a Σ̂ of 32 MB: 16 probes and blocks of 0.4 MB take under 5 MB."""
    n, m, d = 300, 5000, 2000
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", 50_000)
    monkeypatch.setattr(matrix_free, "MOST_PROBES", 16)
    mapped = np.memmap(tmp_path / "pool.bin", dtype=np.float32, mode="w+", shape=(m, d))
    rng = np.random.default_rng(0)
    mapped[:] = rng.standard_normal((m, d), dtype=np.float32)
    rows = rng.standard_normal((n, d))
    tracemalloc.start()
    found = precision(None, mapped, rows, method=CG, residuals=np.ones(n))
    found.products(rows, rows.mean(axis=0), np.ones(n))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.method == CG
    assert peak < 5e6
