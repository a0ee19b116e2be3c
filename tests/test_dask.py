"""angcal.dask: the same answers wherever blocks are, and whatever happens to workers."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import angcal
from angcal import Logit, plan
from angcal.rows import as_rows
from angcal.simulation import simulate

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
dask_angcal = pytest.importorskip("angcal.dask")

from angcal.dask.engine import BlockSizeError, ClusterError, Engine, Patience  # noqa: E402
from angcal.dask.rows import aligned, open_rows  # noqa: E402

DATA = simulate(1500, 30, link=Logit(3.0), random_state=1)
X, Y = DATA.X + 0.4, DATA.y
BLOCKS = da.from_array(X, chunks=(220, 30))
THREE = np.digitize(X[:, 0] + np.random.default_rng(0).normal(size=1500), [0.0, 1.0])
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, 1500)
POOL = simulate(900, 30, link=Logit(3.0), random_state=2).X + 0.4
TIGHT = LogisticRegression(C=0.5, tol=1e-10, solver="newton-cholesky")
MEMORY = 700_000_000  # of a worker; its libraries take some 250 MB


def fitted(rows=BLOCKS, **options):
    return dask_angcal.AngularCalibratedClassifier(TIGHT, **options).fit(rows, Y)


@pytest.fixture(scope="module")
def local():
    return angcal.AngularCalibratedClassifier(TIGHT, observables="exact").fit(X, Y)


@pytest.fixture(scope="module")
def threaded():
    return fitted()


# -- without a cluster -----------------------------------------------------------------------


def test_products_are_those_of_the_matrix():
    rows, dense = open_rows(BLOCKS, True, Engine(), "auto").rows, as_rows(X, True)
    V, U = np.random.default_rng(0).normal(size=(31, 3)), WEIGHTS[:, None] * np.ones(2)
    D = np.column_stack([WEIGHTS, WEIGHTS**2, np.sqrt(WEIGHTS)])
    assert_allclose(rows.forward(V), dense.forward(V), atol=1e-12)
    assert_allclose(rows.backward(U), dense.backward(U), atol=1e-10)
    assert_allclose(rows.curve(V, D), dense.curve(V, D), atol=1e-9)
    index = np.array([7, 1499, 220, 3])
    assert_array_equal(rows.lines(index), dense.lines(index))
    for found, expected in zip(
        rows.column_squares(WEIGHTS), dense.column_squares(WEIGHTS), strict=True
    ):
        assert_allclose(found, expected, rtol=1e-12)
    sizes = (np.full(30, 9.0), (X**2).max(axis=0), WEIGHTS)
    assert_allclose(rows.row_sizes(*sizes), dense.row_sizes(*sizes), rtol=1e-12)
    assert_allclose(rows.mean(), X.mean(axis=0), atol=1e-14)


def test_threads_give_the_answers_of_rows_in_memory(local, threaded):
    assert threaded.passes_ <= 9
    assert_allclose(threaded.predict_proba(X), local.predict_proba(X), atol=1e-6)
    assert_allclose(threaded.angle_.cosine, local.angle_.cosine, atol=1e-6)
    assert_allclose(threaded.loo_proba_, local.loo_proba_, atol=1e-6)
    lazy = threaded.predict_proba(BLOCKS)
    assert isinstance(lazy, da.Array)
    assert_array_equal(lazy.compute(), threaded.predict_proba(X))


@pytest.mark.parametrize("labels", [Y, THREE], ids=["two", "three"])
def test_intervals_are_lazy(labels):
    model = angcal.AngularCalibratedClassifier(LogisticRegression()).fit(X, labels)
    for options in ({}, {"kind": "row", "confidence": 0.8}):
        lazy = model.predict_interval(BLOCKS, **options)
        expected = model.predict_interval(X, **options)
        assert lazy.shape == expected.shape
        assert_allclose(lazy.compute(), expected, atol=1e-12)


@pytest.mark.parametrize("persist", [True, False])
@pytest.mark.parametrize("chunks", [(1500, 30), (40, 11)], ids=str)
def test_chunks_do_not_matter(chunks, persist, threaded):
    found = fitted(BLOCKS.rechunk(chunks), persist=persist)
    assert_allclose(found.predict_proba(X), threaded.predict_proba(X), atol=1e-12)


def test_unknown_lengths_are_counted(threaded):
    unknown = BLOCKS[da.from_array(np.ones(1500, bool), chunks=220)]
    found = fitted(unknown)
    assert_array_equal(found.predict_proba(X), threaded.predict_proba(X))
    assert found.passes_ == threaded.passes_ + 1


def test_three_classes_and_weights():
    model = LogisticRegression(tol=1e-9, max_iter=10_000)
    expected = angcal.AngularCalibratedClassifier(model, observables="exact").fit(X, THREE, WEIGHTS)
    found = dask_angcal.AngularCalibratedClassifier(model).fit(
        BLOCKS, da.from_array(THREE, chunks=100), da.from_array(WEIGHTS, chunks=700)
    )
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-5)


def test_the_path_of_penalties():
    options = {"Cs": 5, "tol": 1e-7}
    expected = angcal.AngularLogisticRegressionCV(**options, observables="exact").fit(X, Y)
    found = dask_angcal.AngularLogisticRegressionCV(**options).fit(BLOCKS, Y)
    assert found.C_ == pytest.approx(expected.C_)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)


def test_a_pool_of_blocks():
    options = {"link": Logit(3.0), "angle": "observable"}
    expected = angcal.AngularCalibratedClassifier(
        TIGHT, pool=POOL, observables="exact", **options
    ).fit(X, Y)
    found = fitted(pool=da.from_array(POOL, chunks=(200, 13)), **options)
    assert expected.angle_.method == found.angle_.method == "observable"
    assert_allclose(found.angle_.cosine, expected.angle_.cosine, atol=1e-8)
    with pytest.raises(ValueError, match="pool has 29 columns, but X has 30"):
        fitted(pool=da.from_array(POOL[:, :29], chunks=200))


def test_frames_with_target_and_weights_by_name():
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    names = [f"x{j}" for j in range(30)]
    frame = pd.DataFrame(X, columns=names)
    labels = np.where(Y > 0, "yes", "no")
    expected = angcal.AngularCalibratedClassifier(TIGHT, observables="exact")
    expected.fit(frame, labels, WEIGHTS)
    blocks = dd.from_pandas(frame.assign(label=labels, weight=WEIGHTS), npartitions=4)
    classifier = dask_angcal.AngularCalibratedClassifier(TIGHT)
    found = classifier.fit(blocks, "label", "weight")
    assert found.classes_.tolist() == ["no", "yes"]
    assert list(found.feature_names_in_) == names
    p = found.predict_proba(blocks[names])
    assert_allclose(p.compute(), expected.predict_proba(frame), atol=1e-6)
    with pytest.raises(ValueError, match="no column 'target'"):
        classifier.fit(blocks, "target")


def test_columns_that_are_many_are_sampled(monkeypatch):
    monkeypatch.setattr(plan, "SMALL_SIDE", 0)
    data = simulate(900, 300, link=Logit(3.0), random_state=1)
    exact = angcal.AngularCalibratedClassifier(observables="exact").fit(data.X, data.y)
    found = dask_angcal.AngularCalibratedClassifier()
    found.fit(da.from_array(data.X, chunks=(200, 300)), data.y)
    assert found.observables_.side == "randomised"
    assert found.observables_.gamma == pytest.approx(exact.observables_.gamma, rel=0.1)
    assert_allclose(found.predict_proba(data.X), exact.predict_proba(data.X), atol=0.02)


def test_rough_products_come_from_one_copy_in_single_precision():
    engine, rng = Engine(None), np.random.default_rng(0)
    rows = open_rows(BLOCKS, True, engine, "auto").rows
    single, before = rows.single(), rows.passes
    assert rows.narrows
    assert single.dtype == rows.single().take(np.arange(3)).dtype == np.float32
    assert single._blocks is rows.single()._blocks
    assert {block.dtype for block in single._blocks.graph.values()} == {np.dtype(np.float32)}
    V, D = rng.normal(size=(31, 4)).astype(np.float32), rng.random((1500, 1)).astype(np.float32)
    found = single.curve(V, D)
    assert found.dtype == np.float32
    expected = rows.curve(V.astype(float), D.astype(float))
    assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert rows.passes - before == 3  # a look at three rows, and a product in each precision


@pytest.mark.parametrize("change", ["float32", "streamed", "no room"])
def test_no_copy_is_made_where_it_does_not_pay(change, monkeypatch):
    blocks, persist = BLOCKS, "auto"
    if change == "float32":
        blocks = BLOCKS.astype(np.float32)
    elif change == "streamed":
        persist = False
    else:
        memory = 2.2 * X.nbytes  # half of it has room for the rows, and not for the copy
        monkeypatch.setattr(Engine, "_workers", lambda self: [(memory, 1)])
        monkeypatch.setattr(Engine, "check_memory", lambda *arguments: None)
    rows = open_rows(blocks, True, Engine(None), persist).rows
    assert not rows.narrows
    assert rows.single()._blocks is rows._blocks


@pytest.mark.parametrize("unit", [1e20, 1e3, 1e-20])
def test_steps_that_single_precision_cannot_hold_are_made_in_double(unit, monkeypatch):
    monkeypatch.setattr(plan, "SMALL_SIDE", 0)
    model = LogisticRegression(C=unit**-2, tol=1e-6 * unit)
    rows = da.from_array(unit * X, chunks=(500, 30))
    found = dask_angcal.AngularCalibratedClassifier(model).fit(rows, Y)
    exact = LogisticRegression(tol=1e-10, solver="newton-cholesky").fit(X, Y)
    assert_allclose(unit * found.coef_, exact.coef_, rtol=1e-3, atol=1e-3)


def test_steps_in_single_precision_do_not_lose_columns_far_from_zero(monkeypatch):
    """The intercept is free, so that it takes the level: nothing else moves."""
    monkeypatch.setattr(plan, "SMALL_SIDE", 0)
    model, found = LogisticRegression(tol=1e-5), []
    for level in (0.0, 1e5):
        rows = X + level * (np.arange(30) == 3)
        classifier = dask_angcal.AngularCalibratedClassifier(model)
        classifier.fit(da.from_array(rows, chunks=(500, 30)), Y)
        found.append(classifier.predict_proba(rows)[:, 1])
        assert classifier.distance_to_optimum_ < 1e-3
    assert_allclose(found[1], found[0], atol=1e-3)


def test_partitions_without_rows_are_nothing(monkeypatch):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    monkeypatch.setattr(plan, "SMALL_SIDE", 0)
    frame = pd.DataFrame(X[:300], columns=[f"x{j}" for j in range(30)]).assign(y=Y[:300])
    whole = dd.from_pandas(frame, npartitions=3, sort=False)
    empty = dd.from_pandas(frame.iloc[:0], npartitions=1, sort=False)
    found = dask_angcal.AngularCalibratedClassifier().fit(dd.concat([whole, empty]), "y")
    expected = dask_angcal.AngularCalibratedClassifier().fit(whole, "y")
    assert_allclose(found.coef_, expected.coef_, rtol=1e-5, atol=1e-7)


def test_what_is_left_is_small_and_ordinary(threaded):
    small = threaded.to_local()
    assert type(small) is angcal.AngularCalibratedClassifier
    assert not hasattr(small, "client")
    assert len(pickle.dumps(small)) < 20_000 < len(pickle.dumps(threaded))
    assert_array_equal(small.predict_proba(X), threaded.predict_proba(X))
    with pytest.raises(AttributeError, match="not saved with this model"):
        _ = small.observables_
    assert clone(threaded).persist == "auto"


@pytest.mark.parametrize("name", ["AngularCalibratedClassifier", "AngularLogisticRegressionCV"])
def test_the_classes_take_and_say_what_their_namesakes_do(name):
    own, local = getattr(dask_angcal, name), getattr(angcal, name)
    found, given = (inspect.signature(kind).parameters for kind in (own, local))
    places = {"client": None, "persist": "auto", "callback": None}
    assert list(found) == [*given, *places]
    for key, parameter in found.items():
        default = places[key] if key in places else given[key].default
        assert parameter.default == default
        assert f"\n{key} : " in inspect.getdoc(own)
    # Every parameter arrives, and travels with a clone.
    values = {key: object() for key in found}
    assert own(**values).get_params(deep=False) == values
    assert own(*list(values.values())[:1]).get_params(deep=False)[next(iter(found))] is next(
        iter(values.values())
    )
    with pytest.raises(TypeError, match="unexpected keyword argument 'rarety'"):
        own(rarety=1.0)


def test_classes_are_weighed_and_exponents_chosen_as_by_the_namesake():
    options = {"Cs": 4, "tol": 1e-7, "class_weight": "balanced", "rarity": 1.0, "spectrum": "one"}
    draw = np.random.default_rng(3).random
    rare, pool = X * (draw(X.shape) < 0.05), POOL * (draw(POOL.shape) < 0.05)
    local = angcal.AngularLogisticRegressionCV(**options, observables="exact", pool=pool)
    found = dask_angcal.AngularLogisticRegressionCV(
        **options, pool=da.from_array(pool, chunks=(200, 30))
    )
    local.fit(rare, Y)
    found.fit(da.from_array(rare, chunks=(400, 30)), Y)
    assert found.rarities_.tolist() == local.rarities_.tolist() == [1.0] * 2
    assert found.exponent_ == local.exponent_
    assert found.average_ is None
    assert_allclose(found.predict_proba(rare), local.predict_proba(rare), atol=1e-5)


def test_a_path_of_penalties_is_resumed():
    points, options = [], {"Cs": 4, "tol": 1e-6}
    path = dask_angcal.AngularLogisticRegressionCV(callback=points.append, **options)
    whole = path.fit(BLOCKS, Y)
    assert points[0].shape == (31, 4)
    again = dask_angcal.AngularLogisticRegressionCV(**options).fit(BLOCKS, Y, resume=points[-1])
    assert again.passes_ < whole.passes_ - 5
    assert_allclose(again.coefs_paths_, whole.coefs_paths_, atol=1e-5)


def test_a_fit_is_resumed():
    points = []
    whole = fitted(callback=points.append)
    again = dask_angcal.AngularCalibratedClassifier(TIGHT).fit(BLOCKS, Y, resume=points[-2])
    assert again.passes_ == whole.passes_ - len(points) + 1
    assert_allclose(again.coef_, whole.coef_, atol=1e-9)


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        (X, {}, TypeError, "use the class of the same name in angcal"),
        (BLOCKS[0], {}, ValueError, "X must be a matrix"),
        (BLOCKS, {"persist": "maybe"}, ValueError, "persist='maybe' must be True, False or"),
        (da.where(BLOCKS > 0.6, np.nan, BLOCKS), {}, ValueError, "NaN or infinity"),
    ],
)
def test_what_cannot_be_fitted_is_named(X, options, error, message):
    with pytest.raises(error, match=message):
        fitted(X, **options)


@pytest.mark.parametrize("module", [angcal, dask_angcal])
@pytest.mark.parametrize("name", ["covariance", "sign_holdout"])
def test_what_would_be_loaded_whole_is_refused_with_the_line_to_write(module, name):
    def make():
        raise AssertionError("it was loaded")

    lazy = da.from_delayed(dask.delayed(make)(), (30, 30), float)
    given = {name: (lazy, np.ones(30)) if name == "sign_holdout" else lazy}
    rows = BLOCKS if module is dask_angcal else X
    with pytest.raises(TypeError, match=rf"{name} is a Dask collection.*{name}\.compute\(\)"):
        module.AngularCalibratedClassifier(**given).fit(rows, Y)
    model = angcal.AngularCalibratedClassifier().fit(X, Y)
    with pytest.raises(TypeError, match=r"X\.partitions\[0\]\.compute\(\)"):
        model.plan([3000], pool=lazy)


def test_rows_that_traveled_are_put_right():
    raw = np.empty(8 * 12 + 3, np.uint8)[3:]
    odd = np.frombuffer(raw.data, dtype=np.float64).reshape(3, 4)
    assert not odd.flags.aligned
    assert aligned((odd, [odd]))[1][0].flags.aligned
    assert aligned(np.asfortranarray(np.eye(3)[:2])).flags.c_contiguous


class Workers:
    """What a client says of its workers."""

    def __init__(self, *limits, threads=1):
        self._limits, self._threads = limits, threads

    def scheduler_info(self, n_workers=5):
        each = {"nthreads": self._threads}
        return {"workers": {w: {**each, "memory_limit": m} for w, m in enumerate(self._limits)}}


def test_blocks_that_do_not_fit_are_refused_with_a_size_that_does():
    small = Engine(Workers(10**9, 2 * 10**9, threads=2))
    with pytest.raises(BlockSizeError, match=r"X\.rechunk\(\((\d+), -1\)\)") as caught:
        small.check_memory(rows=400_000, row_bytes=800.0, n_bytes=0.0, width=101)
    fitting = int(str(caught.value).split("rechunk((")[1].split(",")[0])
    assert 10_000 < fitting < 400_000
    small.check_memory(rows=fitting, row_bytes=800.0, n_bytes=0.0, width=101)
    with pytest.raises(BlockSizeError, match="pass persist=False"):
        small.check_memory(rows=10, row_bytes=800.0, n_bytes=1.9e9, width=101)
    assert small.persists(1.4e9, "auto")
    assert not small.persists(1.6e9, "auto")


# -- on processes ----------------------------------------------------------------------------


def local_cluster():
    return distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        memory_limit=MEMORY,
        dashboard_address=":0",
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def cluster():
    with local_cluster() as running:
        yield running


@pytest.fixture
def own_client():
    """Of a cluster that a test may leave without workers."""
    with local_cluster() as running, distributed.Client(running, set_as_default=False) as connected:
        yield connected


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as connected:
        yield connected


def worker_pids(client):
    return list(client.run(os.getpid).values())


def assert_same_bits(found, expected):
    assert_array_equal(found.coef_, expected.coef_)
    assert_array_equal(found.observables_.leverages, expected.observables_.leverages)
    assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def once(flag):
    """Blocks of which the first to be made after the flag was set kills its worker."""

    def block(rows):
        try:
            os.remove(flag)
        except FileNotFoundError:
            return rows
        return os.kill(os.getpid(), signal.SIGKILL)

    return block


def test_workers_may_be_many_or_few_or_die(cluster, client, threaded, tmp_path):
    # The first block of the pass after the second step kills its worker, in the middle of that
    # pass; after the fourth step all workers go at once.
    flag, points = str(tmp_path / "flag"), []
    dying = BLOCKS.map_blocks(once(flag), meta=np.empty((0, 0)))

    def lose(point):
        points.append(point)
        if len(points) == 2:
            open(flag, "w").close()
        if len(points) == 4:
            for pid in worker_pids(client):
                os.kill(pid, signal.SIGKILL)

    assert_same_bits(fitted(dying, persist=False, callback=lose), threaded)
    assert len(points) >= 4
    assert not os.path.exists(flag)
    cluster.scale(3)
    client.wait_for_workers(3, timeout=60)
    points.clear()

    def lose_blocks(point):
        points.append(point)
        if len(points) in (1, 2, 3):
            os.kill(worker_pids(client)[0], signal.SIGKILL)

    # Three in a row. Blocks that a worker held in memory are made anew; the current client is
    # found.
    assert_same_bits(fitted(persist=True, callback=lose_blocks), threaded)


def test_a_copy_in_single_precision_dies_with_its_worker_and_is_made_anew(
    cluster, client, monkeypatch
):
    monkeypatch.setattr(plan, "SMALL_SIDE", 0)
    expected, points = fitted(persist=True), []

    def lose_blocks(point):
        points.append(point)
        if len(points) in (1, 3):
            os.kill(worker_pids(client)[0], signal.SIGKILL)

    assert_same_bits(fitted(persist=True, callback=lose_blocks), expected)
    assert len(points) >= 3


def test_a_worker_that_runs_out_of_memory_is_an_error(own_client):
    """After as many deaths as Dask allows a task by default."""

    def devour(rows):
        held = np.ones(MEMORY // 8)
        time.sleep(30)  # until the nanny looks
        return rows + held[0]

    assert own_client.cluster.scheduler.allowed_failures == 3
    dying = da.from_array(X, chunks=(750, 30)).map_blocks(devour, meta=np.empty((0, 0)))
    started = time.monotonic()
    with pytest.raises(ClusterError, match=r"lack of memory.*750 rows \(0 MB\)"):
        fitted(dying, client=own_client, persist=False)
    assert time.monotonic() - started < 60


def test_a_block_that_stands_still_is_an_error_and_one_that_works_is_not(own_client, monkeypatch):
    usual = Engine.patience
    assert usual.work + usual.ask + usual.look < 60
    # What other programs of this machine read and send says nothing here.
    # Workers tell of themselves once in a while, on a busy machine some seconds late.
    hasty = Patience(work=8.0, longer=0.0, ask=1.0, traffic=np.inf)
    monkeypatch.setattr(Engine, "patience", hasty)

    def block(kind, rows):
        until = time.monotonic() + 15.0
        while kind == "work" and time.monotonic() < until:
            np.sqrt(rows)
        while kind == "stand":
            time.sleep(0.5)
        return rows

    engine = Engine(own_client)
    works = dask.delayed(block)("work", X).persist(scheduler=own_client)
    engine._watch(distributed.futures_of(works), gather=True)
    stands = dask.delayed(block)("stand", X, dask_key_name="stands").persist(scheduler=own_client)
    started = time.monotonic()
    with pytest.raises(ClusterError, match="No block has started or ended for"):
        engine._watch(distributed.futures_of(stands), gather=True)
    assert time.monotonic() - started < 30


@pytest.fixture
def processes():
    """Starts scheduler and workers as users do, in processes of their own, without a nanny."""
    started = []

    def start(*arguments):
        command = [sys.executable, "-m", f"distributed.cli.dask_{arguments[0]}", *arguments[1:]]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=-3))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_one_worker_will_do_and_without_any_or_a_scheduler_there_is_an_error(
    processes, monkeypatch, threaded, tmp_path
):
    place, started = str(tmp_path / "scheduler.json"), time.monotonic()
    where = ("--no-dashboard", "--scheduler-file", place)
    scheduler = processes("scheduler", "--port", "0", *where)
    worker = processes("worker", "--no-nanny", "--nthreads", "1", *where)
    while not os.path.exists(place) and time.monotonic() - started < 60:
        time.sleep(0.1)
    with distributed.Client(scheduler_file=place, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        assert_same_bits(fitted(client=client), threaded)
        monkeypatch.setattr(Engine, "patience", Patience(workers=2.0))
        with pytest.raises(ClusterError, match="no worker for 2 s") as caught:
            fitted(client=client, callback=lambda point: worker.kill())
        monkeypatch.setattr(Engine, "patience", Patience(workers=60.0))
        threading.Timer(1.0, scheduler.kill).start()
        with pytest.raises(ClusterError, match="connection to the scheduler is lost"):
            fitted(client=client)
    assert caught.value.point.shape == (31, 1)
    again = dask_angcal.AngularCalibratedClassifier(TIGHT).fit(BLOCKS, Y, resume=caught.value.point)
    assert_allclose(again.coef_, threaded.coef_, atol=1e-8)
