"""The table of the angular predictor: its proof line by line, and the curve that uses it."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from threading import Barrier

import mpmath
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermeval
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import norm

from angcal import plan
from angcal.covariance import ScoreScale
from angcal.curve import (
    LARGEST_TABLE_ERROR,
    AveragedCurve,
    CalibratedCurve,
    CurvePart,
    CurveTable,
    angular_probability,
)
from angcal.curve.predictor import jet
from angcal.curve.quintics import Quintics
from angcal.curve.table import (
    MOST_CELLS,
    SMALLEST_REACH,
    STRIDES,
    between,
    derivative_bound,
    normal_bound,
)
from angcal.links import CallableLink, Cauchit, ClippedLinear, ComplementaryLogLog, Logit, Probit
from angcal.links.quadrature import PROMISED_ACCURACY

SCALE = ScoreScale(center=0.4, norm=2.5, source="covariance")
LINKS = [
    Logit(3.0, 1.0),
    Logit(0.3, -2.0),
    Logit(60.0, 5.0),
    Probit(2.0, 0.5),
    Probit(40.0),
    ComplementaryLogLog(1.5),
    ComplementaryLogLog(10.0, -3.0),
    Cauchit(2.0, -0.5),
    Cauchit(20.0),
    ClippedLinear(2.0, 0.5),
    ClippedLinear(0.05, 0.5),
    ClippedLinear(50.0),
]
every_link = pytest.mark.parametrize("link", LINKS, ids=repr)
every_cosine = pytest.mark.parametrize("cosine", [-0.95, 0.0, 0.2, 0.6, 0.999])
every_family = pytest.mark.parametrize(
    "family", [Logit, Probit, ComplementaryLogLog, Cauchit, ClippedLinear]
)
MP_BASES = {
    Logit: lambda t: 1 / (1 + mpmath.exp(-t)),
    Probit: mpmath.ncdf,
    ComplementaryLogLog: lambda t: -mpmath.expm1(-mpmath.exp(t)),
    Cauchit: lambda t: mpmath.mpf(1) / 2 + mpmath.atan(t) / mpmath.pi,
}


def curve(link, cosine, scale=SCALE):
    return CalibratedCurve(link, cosine, scale)


def formula(made, scores):
    return angular_probability(made.link, made.cosine, made.scale.standardize(scores))


def scores_between_nodes(made, positions=(0.0, 0.25, 0.5, 0.75)):
    """Raw scores at the given positions within every cell; the remainder peaks at 1/2."""
    table = made.table
    cells = np.arange(table.cells)[:, None] - 0.5 * table.cells
    s = (cells + np.asarray(positions)).ravel() * table.spacing
    s = s[np.abs(s) < table.reach]
    return made.scale.center + made.scale.norm * s


# --- the proof, line by line ------------------------------------------------------------------


BOUNDED = [
    *((family, 4) for family in (Logit, Probit, ComplementaryLogLog, Cauchit, ClippedLinear)),
    (Logit, 8),
    (Probit, 8),
]


# With less noise the sum for an eighth derivative is rounded by more than that derivative.
@pytest.mark.parametrize(
    ("family", "order", "spread"),
    [
        (*kind, spread)
        for kind in BOUNDED
        for spread in (0.05, 0.3, 1.0, 1.5, 4.0)
        if kind[1] == 4 or spread >= 0.3
    ],
)
def test_the_derivative_of_the_smoothed_link_obeys_its_bound(family, order, spread):
    """G⁽ᵏ⁾(v) = E base(v + τZ)·He_k(Z)/τᵏ, by a fine sum over Z that knows nothing of the table."""
    z = np.linspace(-12.0, 12.0, 24_001)
    hermite = hermeval(z, [0.0] * order + [1.0])
    weights = norm.pdf(z) * (z[1] - z[0]) * hermite / spread**order
    v = np.linspace(-6.0, 6.0, 601)
    values = np.array([np.sum(weights * (family().base(m + spread * z) - 0.5)) for m in v])
    bound = derivative_bound(family(), spread, order)
    rounding = 1e-15 * order**2 / spread**order
    assert np.abs(values).max() <= bound + rounding
    assert np.abs(values).max() >= bound / 20


@pytest.mark.parametrize(
    ("family", "order"), [*((family, 4) for family in MP_BASES), *BOUNDED[-2:]]
)
def test_without_noise_the_bound_is_the_links_own_and_is_attained(family, order):
    v = np.linspace(-5.0, 5.0, 401)
    values = [abs(float(mpmath.diff(MP_BASES[family], t, order))) for t in v]
    bound = derivative_bound(family(), 0.0, order)
    assert 0.999 * bound <= max(values) <= bound * (1 + 1e-9)


@pytest.mark.parametrize(("family", "order"), BOUNDED)
def test_much_noise_makes_every_link_a_probit(family, order):
    exact = derivative_bound(Probit(), 1e4, order)
    assert_allclose(derivative_bound(family(), 1e4, order), exact, rtol=1e-6)


def test_a_link_without_a_proof_has_no_bound():
    assert derivative_bound(CallableLink(expit), 1.0) == np.inf
    assert derivative_bound(Cauchit(), 1.0, 8) == np.inf


@pytest.mark.parametrize(
    ("derivative", "constant"), [(0, 1 / 10321920), (1, 3.0 * np.sqrt(7.0) / 21512960)]
)
def test_what_a_septic_misses(derivative, constant):
    """Peano: sup over t of ∫|K(t, s)| ds, K the error of interpolating (t − s)₊⁷/7! on [0, 1]."""
    t, step = np.linspace(0.0, 1.0, 41), 1 / 1000
    s = (np.arange(1000) + 0.5) * step
    powers = [(1.0 - s) ** k / math.factorial(k) for k in (7, 6, 5, 4)]
    nothing = np.zeros_like(s)
    stride = len(t) - 1
    kernel = []
    for at_end in zip(*powers, strict=True):
        jet_of_one = np.array([[0.0, value] for value in at_end])
        kernel.append(between(jet_of_one, 1.0, stride)[derivative])
    power = 7 - derivative
    exact = np.maximum(t[:, None] - s, nothing) ** power / math.factorial(power)
    missed = np.abs(exact - np.transpose(kernel)).sum(axis=1) * step
    assert missed.max() == pytest.approx(constant, rel=0.01)


@every_link
@every_cosine
def test_the_error_stays_below_its_bound_in_every_cell(link, cosine):
    made = curve(link, cosine)
    assert made.table_error <= LARGEST_TABLE_ERROR
    u = scores_between_nodes(made)
    error = np.abs(made.predict(u) - formula(made, u)).max()
    assert error <= made.table_error


@pytest.mark.parametrize("cosine", [0.3, 0.9, 1.0])
def test_the_bound_of_a_probit_is_sharp(cosine):
    """Its fourth derivative is known exactly, so that only the budget for node errors is left."""
    made = curve(Probit(3.0, 0.5), cosine)
    u = scores_between_nodes(made)
    error = np.abs(made.predict(u) - formula(made, u)).max()
    assert error > 0.85 * made.table_error


@pytest.mark.parametrize("family", MP_BASES)
@pytest.mark.parametrize(("scale", "cosine"), [(3.0, 0.6), (0.7, -0.95), (8.0, 0.9)])
def test_the_worst_point_against_thirty_digits(family, scale, cosine):
    link = family(scale, 0.5)
    made = curve(link, cosine)
    u = scores_between_nodes(made, [0.5])
    worst = u[np.argmax(np.abs(made.predict(u) - formula(made, u)))]
    with mpmath.workdps(30):
        sine = mpmath.sqrt(1 - mpmath.mpf(cosine) ** 2)
        mean = cosine * (mpmath.mpf(worst) - SCALE.center) / SCALE.norm

        def integrand(z):
            return MP_BASES[family](scale * (mean + sine * z) + 0.5) * mpmath.npdf(z)

        exact = mpmath.quad(integrand, list(range(-12, 13)))
        assert abs(made.predict(worst) - exact) <= made.table_error


# --- where there is no table ------------------------------------------------------------------


class OtherLogit(Logit):
    """Same name, another base: the parent's bound says nothing about it."""

    def base(self, t):
        return np.where(np.asarray(t) < 0.0, 0.25, 0.75)


NO_TABLE = [
    (ClippedLinear(2.0, 0.5), 1.0),
    (ClippedLinear(2.0, 0.5), 1.0 - 1e-15),
    (CallableLink(lambda t: expit(3.0 * t)), 0.6),
    (CallableLink(lambda t: expit(3.0 * t)), 0.0),
    (Logit(5000.0), 1.0),
    (Logit(1e150), 1.0),
    (OtherLogit(), 1.0),
]


@pytest.mark.parametrize(
    ("link", "cosine"), NO_TABLE, ids=lambda part: getattr(part, "name", repr(part))
)
def test_without_a_proof_the_formula_is_evaluated(link, cosine):
    made = curve(link, cosine)
    assert made.table is None
    assert made.table_error is None
    u = np.linspace(-3.0, 3.0, 7)
    assert_array_equal(made.predict(u), formula(made, u))


def one(link, cosine):
    return CurveTable.build([CurvePart(1.0, link, cosine)])


def test_steepness_decides_how_far_a_table_reaches():
    reaches = [one(Logit(scale), 1.0).reach for scale in (1.0, 30.0, 50.0, 75.0)]
    assert reaches[0] == pytest.approx(12.0)
    assert np.all(np.diff(reaches) <= 0)
    assert reaches[-1] >= SMALLEST_REACH
    assert one(Logit(75.0), 1.0).cells <= MOST_CELLS
    assert one(Logit(90.0), 1.0) is None
    # A little noise rounds the same link off.
    assert one(Logit(90.0), 0.99) is not None


# ------------------------------------------------------------------ averages of curves


def average(*parts):
    weights = np.array([weight for weight, _, _ in parts])
    shares = weights / weights.sum()
    return AveragedCurve(
        tuple(CurvePart(w, link, c) for w, (_, link, c) in zip(shares, parts, strict=True)), SCALE
    )


AVERAGES = [
    average((1.0, Logit(3.0, 1.0), 0.6)),
    average((1.0, Logit(3.0, 1.0), 0.6), (2.0, Logit(0.3, -2.0), 0.1)),
    average((1.0, Logit(60.0, 5.0), 0.95), (1e-3, Logit(2.0), 1.0), (1.0, Logit(8.0), -0.4)),
    average((1.0, Probit(2.0, 0.5), 0.2), (3.0, Probit(40.0), 0.99)),
    average((1.0, Cauchit(2.0, -0.5), 0.2), (3.0, ComplementaryLogLog(1.5), 0.7)),
]


@pytest.mark.parametrize("made", AVERAGES, ids=range(len(AVERAGES)))
def test_the_table_of_an_average_keeps_its_bound(made):
    u = scores_between_nodes(made)
    s = made.scale.standardize(u)
    exact = sum(p.weight * angular_probability(p.link, p.cosine, s) for p in made.parts)
    assert made.table_error <= LARGEST_TABLE_ERROR
    assert np.abs(made.predict(u) - exact).max() <= made.table_error
    far = SCALE.center + SCALE.norm * np.array([-40.0, 40.0])
    s = made.scale.standardize(far)
    exact = sum(p.weight * angular_probability(p.link, p.cosine, s) for p in made.parts)
    assert_allclose(made.predict(far), exact, rtol=1e-14)


def test_an_average_with_itself_is_the_curve():
    made, parts = curve(Logit(3.0, 1.0), 0.6), 4 * [(1.0, Logit(3.0, 1.0), 0.6)]
    u = scores_between_nodes(made)
    assert_allclose(average(*parts).predict(u), made.predict(u), atol=2e-9)
    # Equal parts need a table like that of one of them, with a smaller budget for its spacing.
    whole = STRIDES[-1] / made.table.cells
    assert 1.0 < average(*parts).table.cells / made.table.cells < 1.04 + whole


def test_parts_are_looked_at_as_seldom_as_they_allow(monkeypatch):
    """A steep curve of weight 1/2 decides the spacing; septics of a flat one reach further."""
    seen, evaluate = [], CurvePart.jet

    def counting(part, nodes):
        seen.append((part.link.scale, len(nodes)))
        return evaluate(part, nodes)

    monkeypatch.setattr(CurvePart, "jet", counting)
    table = average((1.0, Logit(20.0), 1.0), (1.0, Logit(1.0), 0.9)).table
    assert seen == [(20.0, table.cells // 8 + 1), (1.0, table.cells // 48 + 1)]


@pytest.mark.parametrize("stride", [2, 4, 16])
def test_nodes_in_between_lie_on_the_same_septic(stride):
    nodes = np.linspace(-2.0, 2.0, 33)
    septic = np.polynomial.Polynomial([0.3, -1.0, 0.5, 2.0, 0.2, -0.1, 0.05, -0.02])
    derivatives = [septic, *(septic.deriv(k) for k in (1, 2, 3))]
    at_ends = np.array([polynomial(nodes[::stride]) for polynomial in derivatives])
    value, slope = between(at_ends, stride * 0.125, stride)
    assert_allclose(value, septic(nodes), atol=1e-13)
    assert_allclose(slope, septic.deriv()(nodes), atol=1e-12)


def test_every_stride_divides_the_last():
    assert {STRIDES[-1] % stride for stride in STRIDES} == {0}


def test_without_a_closed_form_there_is_no_second_derivative():
    with pytest.raises(TypeError, match="no mixture of probits"):
        jet(Cauchit(), 0.5, np.zeros(1))


def test_an_average_without_a_proof_is_evaluated():
    made = average((1.0, Logit(3.0), 0.6), (1.0, Logit(150.0), 1.0))
    assert made.table is None
    p = made.predict(np.array([SCALE.center]))
    assert_allclose(p, 0.5, atol=1e-12)


def test_an_average_is_pickled_without_its_table():
    made = AVERAGES[1]
    fresh = pickle.dumps(AveragedCurve(made.parts, made.scale))
    made.predict(np.zeros(3))
    assert pickle.dumps(made) == fresh
    assert pickle.loads(fresh) == made


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e4, 1e160])
@pytest.mark.parametrize("cosine", [0.0, 0.5, 1.0])
def test_extreme_links_overflow_nothing(scale, cosine):
    made = curve(Logit(scale), cosine)
    u = np.linspace(-9.0, 9.0, 50)
    assert_allclose(made.predict(u), formula(made, u), atol=1e-9)


@pytest.mark.parametrize("size", [5e-324, 1e-309, 1e-200, 1e200, 1e307])
def test_extreme_units_of_the_score(size):
    made = curve(Logit(3.0, 1.0), 0.6, ScoreScale(0.0, size, "covariance"))
    u = np.array([-3.0, 0.0, 1.0, 2.0]) * size
    assert_allclose(made.predict(u), formula(made, u), atol=1e-9)


@pytest.mark.parametrize("center", [1e9, 1e15, -1e15])
def test_a_distant_center_costs_no_accuracy(center):
    """Next to 1e15 scores are an eighth apart, more than a cell, and so are the table's ends."""
    made = curve(Logit(0.5, 1.0), 0.9, ScoreScale(center, 1.01, "covariance"))
    assert made.table.spacing < 0.125
    u = center + np.arange(-20.0, 20.0, 0.125)
    assert np.abs(made.predict(u) - formula(made, u)).max() <= made.table_error


# --- the curve as a map from scores to probabilities ------------------------------------------


@every_link
@every_cosine
def test_sorted_scores_have_sorted_probabilities_within_0_and_1(link, cosine):
    made = curve(link, cosine)
    u = np.sort(np.random.default_rng(0).normal(0.4, 6.0, 40_000))
    p = made.predict(u)
    assert p.min() >= 0.0
    assert p.max() <= 1.0
    direction = -1.0 if cosine < 0 else 1.0
    # Across the table's ends it may fall back by the table's error; within by rounding only.
    assert np.diff(direction * p).min() >= -made.table_error
    within = np.abs(u - SCALE.center) < made.table.reach * SCALE.norm
    assert np.diff(direction * p[within]).min() >= -1e-14


@pytest.mark.parametrize("link", [Logit(3.0, -4.0), Logit(12.0), Probit(2.0)], ids=repr)
@pytest.mark.parametrize("cosine", [0.6, 0.99])
def test_small_probabilities_stay_positive(link, cosine):
    """A zero would make the log-loss of a surprise infinite."""
    made = curve(link, cosine)
    u = scores_between_nodes(made, [0.1, 0.5, 0.9])
    exact = formula(made, u)
    p, exact = made.predict(u)[exact > 0], exact[exact > 0]
    assert p.min() > 0.0
    assert exact.min() < made.table_error
    assert np.abs(np.log(p / exact)).max() < 0.01


def test_outlying_scores_are_exact():
    made = curve(Logit(3.0, 1.0), 0.6)
    far = SCALE.center + SCALE.norm * np.array([-1e6, -40.0, -12.1, 12.1, 40.0, 1e300])
    near = np.linspace(-2.0, 2.0, 6)
    mixed = np.stack([far, near], axis=1).ravel()
    p = made.predict(mixed)
    assert_array_equal(p[::2], formula(made, far))
    assert_array_equal(p[1::2], made.predict(near))


def test_the_ends_of_the_table_belong_to_it():
    for link in LINKS:
        made = curve(link, 0.6)
        ends = SCALE.center + SCALE.norm * made.table.reach * np.array([-1.0, 1.0])
        beyond = np.concatenate([ends, np.nextafter(ends, [-np.inf, np.inf])])
        assert np.abs(made.predict(beyond) - formula(made, beyond)).max() <= made.table_error


def test_equal_scores_have_equal_probabilities_to_the_last_bit():
    made = curve(Logit(3.0, 1.0), 0.6)
    few = np.random.default_rng(0).normal(size=101)
    many = np.tile(few, 3 * plan.CACHE_ENTRIES // 101)
    p = made.predict(few)
    assert_array_equal(made.predict(many).reshape(-1, 101), np.tile(p, (len(many) // 101, 1)))
    assert_array_equal([made.predict(few[i : i + 1])[0] for i in range(101)], p)
    # Company of outliers changes nothing.
    assert_array_equal(made.predict(np.append(few, 1e5))[:-1], p)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4), (0, 2)])
def test_shapes_are_kept(shape):
    made = curve(Logit(3.0, 1.0), 0.6)
    u = np.random.default_rng(0).normal(size=shape)
    assert made.predict(u).shape == shape
    assert_allclose(made.predict(u), formula(made, u), atol=1e-9)


def test_scores_are_not_written_to():
    u = np.random.default_rng(0).normal(size=100)
    u.setflags(write=False)
    strided = np.repeat(u, 2)[::2]
    made = curve(Logit(3.0, 1.0), 0.6)
    assert_array_equal(made.predict(u), made.predict(strided))
    assert_array_equal(made.predict(u.astype(np.float32)), made.predict(np.float64(np.float32(u))))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="must be finite"):
        curve(Logit(3.0, 1.0), 0.6).predict(np.array([0.0, wrong, 1.0]))


# --- the table is an inner matter of the curve ------------------------------------------------


def test_the_table_is_made_once_and_only_on_demand():
    made = curve(Logit(3.0, 1.0), 0.6)
    assert "table" not in vars(made)
    made.predict(np.zeros(1))
    table = made.table
    made.predict(np.zeros(9))
    assert made.table is table


def test_a_used_curve_equals_a_fresh_one():
    used, fresh = curve(Logit(3.0, 1.0), 0.6), curve(Logit(3.0, 1.0), 0.6)
    before = pickle.dumps(used)
    used.predict(np.zeros(1))
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert repr(used) == repr(fresh)
    assert pickle.dumps(used) == before


def test_copies_predict_the_same():
    made = curve(Logit(3.0, 1.0), 0.6)
    u = np.random.default_rng(0).normal(size=500)
    p = made.predict(u)
    for copy in (pickle.loads(pickle.dumps(made)), deepcopy(made)):
        assert copy == made
        assert_array_equal(copy.predict(u), p)


def test_threads_may_come_first_at_once():
    u = np.random.default_rng(0).normal(size=5000)
    expected = curve(Logit(3.0, 1.0), 0.6).predict(u)
    made, start = curve(Logit(3.0, 1.0), 0.6), Barrier(4)

    def predict(_):
        start.wait()
        return made.predict(u)

    with ThreadPoolExecutor(4) as pool:
        for p in pool.map(predict, range(4)):
            assert_array_equal(p, expected)


def test_bounds_are_real_whatever_the_type_of_the_roots(monkeypatch):
    # Some versions of NumPy give eigenvalues as complex numbers even where all are real.
    from angcal.curve import table as bounds

    roots, before = bounds.hermeroots, bounds.normal_bound(4)
    monkeypatch.setattr(bounds, "hermeroots", lambda c: roots(c).astype(complex))
    assert bounds.normal_extremes(2).dtype == np.float64
    assert bounds.normal_bound.__wrapped__(4) == before


# -- many curves at many scores ----------------------------------------------------------------


def many_curves(n, reach):
    """Noises of 30 curves, centers of n scores for each, and by how much these may move."""
    rng = np.random.default_rng(0)
    noises = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 29)])
    centers = rng.uniform(-1.0, 1.0, (30, n)) * reach * rng.uniform(0.1, 1.0, (30, 1))
    return noises, centers, rng.uniform(0.0, 0.5, 30)


@pytest.mark.parametrize("reach", [0.5, 6.0, 25.0, 1e3])
def test_quintics_keep_their_bounds(reach):
    """F by PROMISED_ACCURACY, F′ by what the same spacing leaves of it."""
    noises, centers, margins = many_curves(6000, reach)
    low, high = centers.min(axis=1) - margins, centers.max(axis=1) + margins
    table = Quintics.where_fewer(Logit.mixture, low, high, noises, 6000)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], centers.shape)
    for moved in (centers, centers + signs * margins[:, None]):
        values, slopes = table.values_and_slopes(moved)
        expected = Logit.mixture.values_and_slopes(moved, noises)
        assert np.abs(values - expected[0]).max() < PROMISED_ACCURACY + 1e-15
        left = np.sqrt(5.0) / 30000.0 * 46080.0 * PROMISED_ACCURACY / table.spacing
        assert np.all(np.abs(slopes - expected[1]) < left + 1e-12)


def test_the_sixth_derivative_of_a_mixture_is_bounded():
    """The bound that spacings follow, against differences of the slope."""
    mixture, h, m = Logit.mixture, 0.05, np.linspace(-12.0, 12.0, 4801)
    for noise in (0.0, 0.4, 2.0):
        steps = [
            (-1) ** k * math.comb(5, k) * mixture.smooth(m + (2.5 - k) * h, noise)[1]
            for k in range(6)
        ]
        found = np.abs(np.sum(steps, axis=0)).max() / h**5
        cubes = (mixture.widths**2 + noise**2) ** -3.0
        assert 0.3 < found / (normal_bound(6) * float(cubes @ mixture.weights)) < 1.0


def test_no_quintics_where_scores_are_few_or_the_formula_is_short():
    noises, centers, margins = many_curves(50, 6.0)
    ends = centers.min(axis=1) - margins, centers.max(axis=1) + margins
    assert Quintics.where_fewer(Logit.mixture, *ends, noises, 50) is None
    assert Quintics.where_fewer(Probit.mixture, *ends, noises, 10**6) is None
