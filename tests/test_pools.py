"""Pools of every kind: the same moments, the same classifier, no more passes than needed."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import AngularCalibratedClassifier, Logit, PoolWarning
from angcal.pools import Moments, OneShotPoolError, Pool, open_pool, row_slices
from angcal.simulation import simulate

# Not part of the core; without them there is nothing to compare with here.
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

SIM = simulate(90, 12, link=Logit(scale=3), random_state=0)
POOL = SIM.pool(200, random_state=1)
CUTS = (17, 18, 120)


class Source:
    """Blocks that can be iterated again; counts how often they were."""

    def __init__(self, blocks):
        self.blocks, self.starts = blocks, 0

    def __iter__(self):
        self.starts += 1
        return iter(self.blocks)


class Indexed:
    """Blocks by number only, with a shape, as a chunked array's view of its blocks has."""

    def __init__(self, rows):
        self.blocks, self.shape = np.split(rows, CUTS), (4, 1)

    def __getitem__(self, number):
        return self.blocks[number]


def memory_map(rows, folder, dtype=np.float64):
    path = folder / "pool.bin"
    mapped = np.memmap(path, dtype=dtype, mode="w+", shape=rows.shape)
    mapped[:] = rows
    mapped.flush()
    return np.memmap(path, dtype=dtype, mode="r", shape=rows.shape)


KINDS = {
    "array": lambda rows, folder: rows,
    "nested lists": lambda rows, folder: rows.tolist(),
    "csr": lambda rows, folder: sparse.csr_array(rows),
    "coo": lambda rows, folder: sparse.coo_matrix(rows),
    "pandas": lambda rows, folder: pd.DataFrame(rows),
    "polars": lambda rows, folder: pl.DataFrame(rows),
    "memory map": memory_map,
    "list of arrays": lambda rows, folder: np.split(rows, CUTS),
    "tuple of frames": lambda rows, folder: tuple(map(pd.DataFrame, np.split(rows, CUTS))),
    "iterable": lambda rows, folder: Source(np.split(rows, CUTS)),
    "indexed": lambda rows, folder: Indexed(rows),
    "callable": lambda rows, folder: lambda: iter(np.split(rows, CUTS)),
    "sparse blocks": lambda rows, folder: lambda: map(sparse.csr_array, np.split(rows, CUTS)),
    "mixed blocks": lambda rows, folder: [rows[:30], sparse.csr_array(rows[30:])],
    "an empty block": lambda rows, folder: [rows[:30], rows[:0], rows[30:]],
}
kinds = pytest.mark.parametrize("kind", KINDS)


# ------------------------------------------------------------------ moments


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_merged_moments_are_those_of_all_rows(shift):
    rows = POOL + shift
    first, *others = [Moments.of(block) for block in np.split(rows, CUTS)]
    for other in others:
        first = first.merge(other)
    exact = rows.astype(np.longdouble)
    assert first.count == 200
    assert_allclose(first.mean, exact.mean(axis=0).astype(float), rtol=1e-14, atol=1e-16)
    assert_allclose(first.deviation, exact.std(axis=0).astype(float), rtol=1e-9 if shift else 1e-12)


@kinds
@pytest.mark.parametrize("entries", [30, 10**6])
def test_one_pass_gives_columns_and_scores(kind, entries, tmp_path, monkeypatch):
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", entries)
    pool = open_pool(KINDS[kind](POOL + 2.0, tmp_path), 12)
    w = np.linspace(-1.0, 2.0, 12)
    scores = pool.survey(w)
    expected = (POOL + 2.0) @ w
    assert_allclose(scores.deviation[0], expected.std(), rtol=1e-12)
    assert_allclose(scores.mean[0], expected.mean(), rtol=1e-12)
    assert_allclose(pool.columns.mean, POOL.mean(axis=0) + 2.0, rtol=1e-12)
    assert_allclose(pool.columns.deviation, POOL.std(axis=0), rtol=1e-10)
    assert (pool.n_rows, pool.passes) == (200, 1)


@pytest.mark.parametrize("rows", [POOL, sparse.csr_array(POOL * (POOL > 0))], ids=["dense", "csr"])
def test_slices_are_bounded_and_cover_all_rows(rows, monkeypatch):
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", 100)
    slices = list(row_slices(rows))
    assert_array_equal(np.concatenate([np.arange(200)[part] for part in slices]), np.arange(200))
    # The bound holds on average over a sparse matrix's rows, to the row.
    per_row = (rows.nnz if sparse.issparse(rows) else rows.size) / 200
    assert max(part.stop - part.start for part in slices) * per_row <= 100
    assert [part.stop for part in row_slices(np.ones((3, 500)))] == [1, 2, 3]


# ------------------------------------------------------------------ the classifier


def fitted(pool, **options):
    model = make_pipeline(StandardScaler(), LogisticRegression())
    return AngularCalibratedClassifier(model, pool=pool, **options).fit(5.0 + SIM.X, SIM.y)


# A polars frame has column names, which rows without names in X would not match.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "polars"])
@pytest.mark.parametrize("link", [None, Logit(scale=3)], ids=["unknown link", "known link"])
def test_every_kind_of_pool_gives_the_same_classifier(kind, link, tmp_path):
    """Raw blocks pass through the pipeline like X, which centers: sparse ones cannot."""
    rows = 5.0 + POOL
    if "sparse" in kind or kind in ("csr", "coo", "mixed blocks"):
        X = sparse.csr_array(5.0 + SIM.X)
        make = lambda pool: AngularCalibratedClassifier(pool=pool, link=link).fit(X, SIM.y)  # noqa: E731
    else:
        make = lambda pool: fitted(pool, link=link)  # noqa: E731
    expected, found = make(rows), make(KINDS[kind](rows, tmp_path))
    assert found.angle_.method == ("observable" if link is None else "combined")
    assert "a pool of 200 rows" in found.angle_.reason or link is not None
    assert_allclose(found.scale_.norm, expected.scale_.norm, rtol=1e-12)
    assert_allclose(found.angle_.cosine, expected.angle_.cosine, atol=1e-6)
    proba = found.predict_proba(5.0 + SIM.X)
    assert_allclose(proba, expected.predict_proba(5.0 + SIM.X), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({"angle": "loo"}, 1),
        ({"angle": 0.5}, 1),
        ({"angle": "auto", "covariance": SIM.covariance}, 1),
        ({"angle": "loo", "covariance": EmpiricalCovariance()}, 1),
        ({"angle": "auto"}, 2),
        ({"angle": "observable"}, 2),
    ],
)
def test_no_more_passes_than_needed(options, passes):
    """One for scores and column moments, warning included; one more for the Gram matrix."""
    source = Source(np.split(POOL, CUTS))
    AngularCalibratedClassifier(pool=source, **options).fit(SIM.X, SIM.y)
    assert source.starts == passes


@pytest.mark.parametrize(
    "options", [{"angle": "loo"}, {"angle": 0.5}, {"covariance": SIM.covariance}]
)
def test_a_generator_is_enough_where_one_pass_is(options):
    blocks = np.split(POOL, CUTS)
    once = AngularCalibratedClassifier(pool=(b for b in blocks), **options).fit(SIM.X, SIM.y)
    again = AngularCalibratedClassifier(pool=POOL, **options).fit(SIM.X, SIM.y)
    assert_allclose(once.predict_proba(SIM.X), again.predict_proba(SIM.X), atol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"angle": "observable"}, {"covariance": EmpiricalCovariance()}]
)
def test_a_generator_is_refused_unread_where_it_is_not(options):
    generator = (block for block in [POOL])
    with pytest.raises(OneShotPoolError, match=r"used up after one pass, but angle=.*a callable"):
        AngularCalibratedClassifier(pool=generator, **options).fit(SIM.X, SIM.y)
    assert next(generator) is POOL


def test_a_generator_that_is_used_up_is_noticed():
    classifier = AngularCalibratedClassifier(pool=(b for b in [POOL]), angle="loo")
    classifier.fit(SIM.X, SIM.y)
    with pytest.raises(ValueError, match=r"pool gave no rows.*Pass a callable"):
        clone(classifier).fit(SIM.X, SIM.y)


def test_a_callable_that_gives_the_same_iterator_twice_is_noticed():
    iterator = iter([POOL])
    with pytest.raises(ValueError, match=r"200 rows at first and 0 on pass 2.*fresh iterator"):
        AngularCalibratedClassifier(pool=lambda: iterator).fit(SIM.X, SIM.y)


def test_streamed_blocks_that_are_unlike_X_warn():
    raw = [50.0 + 3.0 * block for block in np.split(POOL, CUTS)]
    with pytest.warns(PoolWarning, match="pool does not look like X"):
        AngularCalibratedClassifier(pool=lambda: iter(raw), angle="loo").fit(SIM.X, SIM.y)


@pytest.mark.parametrize("kind", ["array", "callable"])
def test_an_estimator_sees_the_whole_pool(kind, tmp_path):
    pool = KINDS[kind](POOL, tmp_path)
    options = {"covariance": EmpiricalCovariance(), "angle": "observable"}
    found = AngularCalibratedClassifier(pool=pool, **options).fit(SIM.X, SIM.y)
    assert found.angle_.reason == "Σ⁻¹ from EmpiricalCovariance on a pool of 200 rows"


# ------------------------------------------------------------------ what is refused


def spoiled(value):
    blocks = [block.copy() for block in np.split(POOL, CUTS)]
    blocks[2][3, 4] = value
    return blocks


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize(
    ("pool", "error", "message"),
    [
        (spoiled(np.nan), ValueError, "block 2 of pool contains NaN"),
        (spoiled(np.inf), ValueError, "block 2 of pool.* contains infinity"),
        ([POOL, POOL[:, :5]], ValueError, "block 1 of pool does not fit X.*5 features.*expecting"),
        (lambda: iter([POOL, POOL[0]]), ValueError, "block 1 of pool does not fit X"),
        (lambda: 3, TypeError, "callable returned int, which is not an iterator"),
        (5, TypeError, "pool=5 is neither rows"),
        ([POOL[:1]], ValueError, "pool has 1 row; a spread needs at least 2"),
        (lambda: iter([]), ValueError, "pool gave no rows"),
    ],
)
def test_bad_pools_are_named(pool, error, message, piped):
    base = LogisticRegression()
    model = make_pipeline(StandardScaler(), base) if piped else base
    with pytest.raises(error, match=message):
        AngularCalibratedClassifier(model, pool=pool).fit(SIM.X, SIM.y)


def test_a_memory_map_names_its_bad_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", 120)
    rows = POOL.copy()
    rows[57, 0] = np.nan
    with pytest.raises(ValueError, match="rows 50 to 59 of pool contains NaN"):
        AngularCalibratedClassifier(pool=memory_map(rows, tmp_path)).fit(SIM.X, SIM.y)


def test_blocks_without_checks_still_need_the_right_columns():
    with pytest.raises(ValueError, match=r"block 1 of pool has shape \(200, 5\), but X has 12"):
        open_pool([POOL, POOL[:, :5]], 12).survey()


def test_a_second_pass_over_a_generator_is_refused():
    pool = open_pool((b for b in [POOL]), 12)
    pool.survey()
    with pytest.raises(OneShotPoolError, match="a second look"):
        list(pool.blocks())


def test_an_open_pool_stays_open():
    pool = open_pool(POOL, 12)
    assert isinstance(pool, Pool)
    assert open_pool(pool, 12) is pool


# ------------------------------------------------------------------ memory


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("angle", ["loo", "observable"])
def test_a_memory_map_is_never_loaded(dtype, angle, tmp_path, monkeypatch):
    """The pool has 12 MB as float64, the blocks 80 kB: it takes no more than a few blocks do."""
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", 10_000)
    sim = simulate(60, 10, link=Logit(scale=3), random_state=0)
    few = 100.0 * sim.pool(1000, random_state=1)
    mapped = memory_map(np.tile(few, (150, 1)), tmp_path, dtype)

    def peak(pool):
        classifier = AngularCalibratedClassifier(angle=angle, pool=pool)
        classifier.fit(100.0 * sim.X, sim.y)  # imports and caches come first
        tracemalloc.start()
        classifier.fit(100.0 * sim.X, sim.y)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(mapped) < peak(few.astype(dtype)) + 5 * 80_000
