"""Inverse links and their Gaussian smoothing, against 50-digit references and exact identities."""

from __future__ import annotations

import inspect
import itertools
import pickle
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr

from angcal import plan
from angcal.links import (
    LINKS,
    CallableLink,
    Cauchit,
    ClippedLinear,
    ComplementaryLogLog,
    Link,
    Logit,
    Probit,
    as_link,
)
from angcal.links.base import kolmogorov_density

JUMP_AT = 0.37


def kinked(t: np.ndarray) -> np.ndarray:
    """Kinks at ±2, not declared anywhere below."""
    return np.clip(0.5 + 0.25 * t, 0.0, 1.0)


def jumping(t: np.ndarray) -> np.ndarray:
    return 0.1 + 0.3 * (t >= JUMP_AT) + 0.6 * ndtr(t)


EXAMPLES: dict[str, Link] = {
    **{name: family() for name, family in LINKS.items()},
    "kinked": CallableLink(kinked),
    "jumping": CallableLink(jumping, breakpoints=(JUMP_AT,)),
}
SYMMETRIC = {"logit": 0.0, "probit": 0.0, "cauchit": 0.0, "clipped-linear": 0.5, "kinked": 0.0}
every_link = pytest.mark.parametrize("link", EXAMPLES.values(), ids=EXAMPLES.keys())


# ------------------------------------------------------------------ 50-digit references

REFERENCE_BASES: dict[str, Callable[[mp.mpf], mp.mpf]] = {
    "logit": lambda t: 1 / (1 + mp.exp(-t)),
    # exp(−exp(12)) = 10^−70683: the cap changes nothing and avoids absurd exponents.
    "cloglog": lambda t: -mp.expm1(-mp.exp(min(t, 12))),
    "cauchit": lambda t: mp.mpf(1) / 2 + mp.atan(t) / mp.pi,
    "probit": lambda t: mp.ncdf(t),
    "clipped-linear": lambda t: min(max(t, mp.mpf(0)), mp.mpf(1)),
}
GRADED_BREAKS = (0, 1, 2, 3, 6, 12, 25, 60, 250, 1000)


def reference_by_quadrature(name: str, center: float, spread: float) -> mp.mpf:
    """E base(center + spread·Z): panels end at graded arguments t and are at most 4 wide in z."""
    m, tau, limit = mp.mpf(center), mp.mpf(spread), mp.mpf(12)
    base = REFERENCE_BASES[name]
    if tau == 0:
        return base(m)
    images = [(sign * t - m) / tau for t in GRADED_BREAKS for sign in (-1, 1)]
    even = [mp.mpf(z) for z in range(-12, 13, 4)]
    edges = sorted({z for z in images + even if -limit <= z <= limit})
    total, error = mp.quad(
        lambda z: base(m + tau * z) * mp.npdf(z), edges, error=True, method="gauss-legendre"
    )
    assert error < mp.mpf(10) ** -30
    return total


def reference_ramp(center: mp.mpf, spread: mp.mpf) -> mp.mpf:
    if spread == 0:
        return max(center, mp.mpf(0))
    return center * mp.ncdf(center / spread) + spread * mp.npdf(center / spread)


def reference_clipped(center: mp.mpf, spread: mp.mpf) -> mp.mpf:
    return reference_ramp(center, spread) - reference_ramp(center - 1, spread)


def reference_probit(center: mp.mpf, spread: mp.mpf) -> mp.mpf:
    return mp.ncdf(center / mp.sqrt(1 + spread**2))


def reference_jumping(center: mp.mpf, spread: mp.mpf) -> mp.mpf:
    distance = center - mp.mpf(JUMP_AT)
    above = mp.ncdf(distance / spread) if spread else mp.mpf(distance >= 0)
    tenth = mp.mpf(1) / 10
    return tenth + 3 * tenth * above + 6 * tenth * reference_probit(center, spread)


CLOSED_FORMS: dict[str, Callable[[mp.mpf, mp.mpf], mp.mpf]] = {
    "probit": reference_probit,
    "clipped-linear": reference_clipped,
    "kinked": lambda m, tau: reference_clipped((m + 2) / 4, tau / 4),
    "jumping": reference_jumping,
}

SCORES = (-40.0, -7.5, -0.4, 0.0, 3.0, 40.0)
COSINES = (-1.0, -0.999999, -0.6, 0.0, 1e-6, 0.6, 0.999999, 1.0)
SCALES = (0.01, 1.0, 3.0, 50.0)
OFFSETS = (-3.0, 0.0, 1.0)
GRID = list(itertools.product(SCORES, COSINES, SCALES, OFFSETS))
# Quadrature at 50 digits costs 0.1 s a point: a fixed tenth of the grid, every value included.
SAMPLE = [GRID[i] for i in np.random.default_rng(20).choice(len(GRID), 60, replace=False)]


def smoothing_error(
    name: str, case: tuple[float, float, float, float], reference: Callable[..., mp.mpf]
) -> float:
    score, cosine, scale, offset = case
    mean, sd = cosine * score, float(np.sqrt(1.0 - cosine**2))
    smoothed = float(EXAMPLES[name].with_parameters(scale, offset).smooth(mean, sd))
    center = mp.mpf(scale) * mp.mpf(mean) + mp.mpf(offset)
    return float(abs(mp.mpf(smoothed) - reference(center, mp.mpf(scale) * mp.mpf(sd))))


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def test_sample_contains_every_value_of_the_grid():
    for position, values in enumerate((SCORES, COSINES, SCALES, OFFSETS)):
        assert {case[position] for case in SAMPLE} == set(values)


@pytest.mark.parametrize("name", ["probit", "clipped-linear"])
@pytest.mark.parametrize(("center", "spread"), [(-0.7, 0.3), (1.5, 2.0), (-40.0, 50.0)])
def test_reference_quadrature_equals_closed_forms(name, center, spread):
    exact = CLOSED_FORMS[name](mp.mpf(center), mp.mpf(spread))
    assert abs(reference_by_quadrature(name, center, spread) - exact) < mp.mpf(10) ** -30


@pytest.mark.parametrize("name", ["logit", "cloglog", "cauchit"])
def test_smooth_equals_fifty_digit_quadrature(name):
    errors = [
        smoothing_error(name, c, lambda *a: reference_by_quadrature(name, *a)) for c in SAMPLE
    ]
    assert max(errors) < 1e-13


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_smooth_equals_fifty_digit_closed_form(name):
    assert max(smoothing_error(name, case, CLOSED_FORMS[name]) for case in GRID) < 2e-12


@pytest.mark.parametrize(
    ("center", "spread", "accuracy"),
    [(-60.0, 0.999, 1e-13), (-60.0, 1.001, 1e-13), (-99, 10, 1e-10)],
)
def test_small_logit_probabilities_keep_relative_accuracy(center, spread, accuracy):
    smoothed = float(Logit().smooth(center, spread))
    exact = reference_by_quadrature("logit", center, spread)
    assert abs(smoothed / exact - 1) < accuracy


def test_small_logit_slopes_keep_relative_accuracy():
    # Far to the left F is an exponential, and its own slope.
    slope, value = Logit().smooth_derivative(-200.0, 3.0), Logit().smooth(-200.0, 3.0)
    assert float(slope / value) == pytest.approx(1.0, abs=1e-13)


# ------------------------------------------------------------------ base, derivative, parameters


def concrete_subclasses(cls: type) -> set[type]:
    found = {s for sub in cls.__subclasses__() for s in concrete_subclasses(sub) | {sub}}
    return {s for s in found if not inspect.isabstract(s)}


def test_every_family_is_tested():
    # Other tests may have made families of their own.
    families = {s for s in concrete_subclasses(Link) if s.__module__.startswith("angcal.")}
    assert families == {type(link) for link in EXAMPLES.values()}


@every_link
def test_base_is_monotone_with_values_in_unit_interval(link):
    t = np.concatenate([[-1e300, -2000.0], np.linspace(-45.0, 45.0, 4001), [2000.0, 1e300]])
    values = link.base(t)
    assert values.dtype == np.float64
    assert values.min() >= 0.0
    assert values.max() <= 1.0
    assert np.all(np.diff(values) >= 0.0)
    assert values[-1] - values[0] > 0.89


@pytest.mark.parametrize(
    ("link", "t", "value"),
    [
        (Logit(), np.log(3.0), 0.75),
        (Probit(), 1.959963984540054, 0.975),
        (ComplementaryLogLog(), np.log(np.log(2.0)), 0.5),
        (Cauchit(), -1.0, 0.25),
        (ClippedLinear(), 0.3, 0.3),
        (CallableLink(kinked), 1.0, 0.75),
    ],
)
def test_base_at_known_points(link, t, value):
    assert float(link.base(t)) == pytest.approx(value, abs=1e-15)
    assert link.base(t).shape == ()


@every_link
def test_derivative_equals_fourth_order_differences(link):
    link = link.with_parameters(1.3, -0.2)
    t = np.array([-9.1, -2.3, -0.61, -0.05, 0.21, 0.7, 1.5, 3.9])  # no kink within 0.05
    step = 4e-4
    near, far = link(t + step) - link(t - step), link(t + 2 * step) - link(t - 2 * step)
    np.testing.assert_allclose(
        link.derivative(t), (8 * near - far) / (12 * step), rtol=0, atol=1e-11
    )


@every_link
def test_scale_and_offset_act_on_the_argument(link):
    changed = link.with_parameters(scale=2.5, offset=-0.7)
    t = np.linspace(-3.0, 3.0, 13)
    assert type(changed) is type(link)
    assert (changed.scale, changed.offset) == (2.5, -0.7)
    np.testing.assert_array_equal(changed(t), link.base(2.5 * t - 0.7))
    np.testing.assert_array_equal(changed.derivative(t), 2.5 * link.base_derivative(2.5 * t - 0.7))
    np.testing.assert_allclose(
        changed.smooth(t, 0.8), link.smooth(2.5 * t - 0.7, 2.0), rtol=0, atol=1e-13
    )


@every_link
@pytest.mark.parametrize(
    ("scale", "offset", "argument"),
    [
        (0.0, 0.0, "scale=0.0"),
        (-1.0, 0.0, "scale=-1.0"),
        (np.inf, 0.0, "scale=inf"),
        (np.nan, 0.0, "scale=nan"),
        (1.0, np.nan, "offset=nan"),
        (1.0, -np.inf, "offset=-inf"),
    ],
)
def test_invalid_parameters_are_named(link, scale, offset, argument):
    with pytest.raises(ValueError, match=argument):
        link.with_parameters(scale, offset)


# ------------------------------------------------------------------ identities of the smoothing

MEANS = np.array([-30.0, -3.3, -1.0, -0.2, 0.0, 0.4, 1.1, 2.7, 30.0])


@every_link
def test_smooth_without_noise_is_the_link(link):
    link = link.with_parameters(3.0, 0.4)
    np.testing.assert_array_equal(link.smooth(MEANS, 0.0), link(MEANS))
    np.testing.assert_array_equal(link.smooth_derivative(MEANS, 0.0), link.derivative(MEANS))


@every_link
def test_smooth_is_continuous_at_zero_noise(link):
    np.testing.assert_allclose(link.smooth(MEANS, 1e-9), link(MEANS), rtol=0, atol=1e-9)


@every_link
def test_zero_cosine_gives_one_constant(link):
    smoothed = link.smooth(0.0 * MEANS, 1.0)
    assert np.ptp(smoothed) == 0.0
    assert 0.0 < smoothed[0] < 1.0


@every_link
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_equal_scores_get_equal_probabilities(link, scale):
    repeated = np.tile(MEANS, 203)
    smoothed = link.with_parameters(scale, 0.1).smooth(repeated, 0.9).reshape(203, -1)
    assert np.all(np.ptp(smoothed, axis=0) == 0.0)


@every_link
@pytest.mark.parametrize("scale", [1.2, 20.0])
def test_variances_of_nested_smoothings_add(link, scale):
    link = link.with_parameters(scale, 0.3)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    # scale 1.2: spread 0.96 inside and 1.13 in total, on both sides of the change of rule.
    inner = link.smooth(MEANS[:, None] + 0.5 * nodes, 0.8)
    nested = inner @ (weights / weights.sum())
    np.testing.assert_allclose(nested, link.smooth(MEANS, np.hypot(0.8, 0.5)), rtol=0, atol=2e-12)


@pytest.mark.parametrize(("name", "center"), SYMMETRIC.items())
@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 40.0])
def test_symmetric_links_stay_symmetric(name, center, spread):
    link = EXAMPLES[name]
    reflected = 1.0 - link.smooth(center - MEANS, spread)
    np.testing.assert_allclose(link.smooth(center + MEANS, spread), reflected, rtol=0, atol=1e-12)


@every_link
@pytest.mark.parametrize("sd", [0.02, 0.6, 1.0])
def test_smooth_is_monotone_in_the_mean(link, sd):
    means = np.linspace(-40.0, 40.0, 401)
    smoothed = link.with_parameters(3.0, 0.0).smooth(means, sd)
    assert np.all(np.diff(smoothed) > -1e-12)
    assert smoothed[-1] - smoothed[0] > 0.89


@every_link
@pytest.mark.parametrize("scale", [0.7, 4.0, 50.0])
def test_smooth_derivative_equals_differences_of_smooth(link, scale):
    link = link.with_parameters(scale, -0.1)
    means, sd, step = np.linspace(-3.0, 3.0, 17), 0.8, 2e-3
    near = link.smooth(means + step, sd) - link.smooth(means - step, sd)
    far = link.smooth(means + 2 * step, sd) - link.smooth(means - 2 * step, sd)
    slope = link.smooth_derivative(means, sd)
    np.testing.assert_allclose(slope, (8 * near - far) / (12 * step), rtol=0, atol=2e-9)


@every_link
def test_broadcasting_and_chunks_do_not_change_results(link):
    link = link.with_parameters(2.0, 0.0)
    means, sds = np.linspace(-4.0, 4.0, 1500), np.array([[0.0], [0.3], [0.9]])
    together = link.smooth(means, sds)
    assert together.shape == (3, 1500)
    for row, sd in enumerate(sds[:, 0]):
        alone = [float(link.smooth(mean, sd)) for mean in means[::250]]
        np.testing.assert_allclose(together[row, ::250], alone, rtol=0, atol=1e-12)
    assert link.smooth([], 0.5).shape == (0,)


@every_link
@pytest.mark.parametrize("sd", [0.0, 1e-300, 1e-8, 0.7, 40.0])
def test_extreme_arguments_stay_finite_without_warnings(link, sd):
    means = np.array([-1e300, -2000.0, 2000.0, 1e300])
    smoothed, slope = link.smooth(means, sd), link.smooth_derivative(means, sd)
    low, high = link.base(-1e300), link.base(1e300)
    np.testing.assert_allclose(smoothed, [low, low, high, high], rtol=0, atol=1e-3)
    np.testing.assert_allclose(slope, 0.0, rtol=0, atol=1e-6)
    np.testing.assert_allclose(link.derivative(means), 0.0, rtol=0, atol=1e-6)


@every_link
@pytest.mark.parametrize(
    ("mean", "sd", "message"),
    [
        (np.nan, 1.0, "mean.*nan"),
        (np.inf, 1.0, "mean.*inf"),
        (0.0, -0.5, "sd.*-0.5"),
        (0.0, np.nan, "sd.*nan"),
        (0.0, np.inf, "sd.*inf"),
    ],
)
def test_invalid_mean_or_sd_is_named(link, mean, sd, message):
    for smoothing in (link.smooth, link.smooth_derivative):
        with pytest.raises(ValueError, match=message):
            smoothing([0.0, mean], sd)


# ------------------------------------------------------------------ callable links

RANDOM_MEANS = np.random.default_rng(4).uniform(-6.0, 6.0, size=2000)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0])
def test_undeclared_kinks_are_resolved_wherever_they_fall(scale):
    exact = ClippedLinear(scale=scale / 4, offset=0.5)
    smoothed = CallableLink(kinked, scale=scale)
    np.testing.assert_allclose(
        smoothed.smooth(RANDOM_MEANS, 0.8), exact.smooth(RANDOM_MEANS, 0.8), rtol=0, atol=1e-11
    )
    np.testing.assert_allclose(
        smoothed.smooth_derivative(RANDOM_MEANS[:300], 0.8),
        exact.smooth_derivative(RANDOM_MEANS[:300], 0.8),
        rtol=0,
        atol=1e-10,
    )


def test_undeclared_jumps_are_resolved_wherever_they_fall():
    exact = (
        0.1 + 0.3 * ndtr((RANDOM_MEANS - JUMP_AT) / 0.8) + 0.6 * Probit().smooth(RANDOM_MEANS, 0.8)
    )
    smoothed = CallableLink(jumping).smooth(RANDOM_MEANS, 0.8)
    np.testing.assert_allclose(smoothed, exact, rtol=0, atol=1e-11)


def test_breakpoints_save_function_values():
    counts = {}
    for breakpoints in ((), (-2.0, 2.0)):
        evaluated = []
        link = CallableLink(lambda t, e=evaluated: (e.append(t.size), kinked(t))[1], breakpoints)
        evaluated.clear()
        link.smooth(0.1, 1.0)
        counts[breakpoints] = sum(evaluated)
    assert counts[(-2.0, 2.0)] < 0.5 * counts[()]


def test_declared_breakpoints_reveal_a_bump_too_narrow_to_be_seen():
    def bump(t: np.ndarray) -> np.ndarray:
        return np.where(np.abs(t - 1.0) < 0.005, 0.9, 0.1)

    means = np.linspace(-1.0, 1.0, 11)
    exact = 0.1 + 0.8 * (ndtr((1.005 - 50 * means) / 40) - ndtr((0.995 - 50 * means) / 40))
    link = CallableLink(bump, breakpoints=(0.995, 1.005), scale=50.0)
    np.testing.assert_allclose(link.smooth(means, 0.8), exact, rtol=0, atol=1e-12)


def test_noise_ends_with_a_warning_that_states_the_error(monkeypatch):
    monkeypatch.setattr(plan, "CACHE_ENTRIES", 1000)
    noisy = CallableLink(lambda t: 0.5 + 0.1 * np.sin(1e9 * t))
    with pytest.warns(RuntimeWarning, match=r"estimated error of \d\.\de-0\d"):
        noisy.smooth(0.3, 1.0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t: 0.5 + t, "returned -59.5 at t = -60.0"),
        (lambda t: np.where(t > 59.95, np.nan, 0.5), "returned nan at t = 60.0"),
        (lambda t: expit(t) + 1e-11, r"returned 1\.000000000001\d+ at t = 25"),
        (lambda t: 0.5, r"returned shape \(\)"),
        (lambda t: t[:3] * 0.0, r"returned shape \(3,\)"),
        (lambda t: 0.5 if t > 0 else 0.0, "numpy.vectorize"),
        (lambda t: np.full(t.shape, 0.5 + 0j), "failed"),
    ],
)
def test_callable_that_is_no_link_is_rejected_on_construction(function, message):
    with pytest.raises(ValueError, match=message):
        CallableLink(function)


def test_callable_is_checked_again_when_used():
    overflowing = CallableLink(lambda t: np.exp(t) / (1.0 + np.exp(t)))
    with pytest.raises(ValueError, match=r"returned nan at t = 2000\.0"):
        overflowing(2000.0)
    with pytest.raises(ValueError, match="returned nan at t = "):
        overflowing.smooth(2000.0, 1.0)


def test_rounding_outside_the_unit_interval_is_clipped():
    assert float(CallableLink(lambda t: expit(t) + 1e-13)(50.0)) == 1.0


def test_callable_arguments_are_checked():
    with pytest.raises(TypeError, match="function=3"):
        CallableLink(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="breakpoints"):
        CallableLink(expit, breakpoints=(0.0, np.inf))
    assert CallableLink(kinked, [2, -2], 3.0, 1.0).breakpoints == (-2.0, 2.0)


# ------------------------------------------------------------------ names and pickles


@pytest.mark.parametrize("name", LINKS)
def test_names_round_trip(name):
    link = as_link(name)
    assert type(link) is LINKS[name]
    assert link.name == name
    assert as_link(link) is link


def test_functions_become_callable_links():
    link = as_link(kinked)
    assert link == CallableLink(kinked)
    assert link.name == "callable:kinked"


def test_as_link_says_what_it_accepts():
    with pytest.raises(ValueError, match=r"'logist'.*'logit', 'probit', 'cloglog'"):
        as_link("logist")
    with pytest.raises(TypeError, match=r"Logit\(\.\.\.\)"):
        as_link(Logit)
    with pytest.raises(TypeError, match=r"3\.5 of type float"):
        as_link(3.5)


@pytest.mark.parametrize("link", [*LINKS.values(), lambda **k: CallableLink(expit, (0.0,), **k)])
def test_pickling_keeps_the_link(link):
    original = link(scale=2.0, offset=-1.0)
    restored = pickle.loads(pickle.dumps(original))
    assert restored == original
    np.testing.assert_array_equal(restored.smooth(MEANS, 0.7), original.smooth(MEANS, 0.7))


# ------------------------------------------------------------------ mixtures of probits


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.7, 3.0, 20.0])
@pytest.mark.parametrize("family", [Logit(), Probit()], ids=repr)
def test_mixture_is_the_smoothed_link(family, spread):
    m = np.linspace(-20, 20, 801)
    value, slope, bend = family.mixture.smooth(m, spread)
    sd = np.full_like(m, spread)
    assert_allclose(value, family.smooth(m, sd), atol=3e-9)
    assert_allclose(slope, family.smooth_derivative(m, sd), atol=1e-8)
    h = 1e-4
    difference = (
        family.mixture.smooth(m + h, spread)[1] - family.mixture.smooth(m - h, spread)[1]
    ) / (2 * h)
    assert_allclose(bend, difference, atol=1e-7)


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.7, 3.0, 20.0])
@pytest.mark.parametrize("family", [Logit(), Probit()], ids=repr)
def test_fine_mixture_is_the_smoothed_link_to_eleven_digits(family, spread):
    """Tables promise 1e-10 at their nodes."""
    m = np.linspace(-400, 400, 2001)
    value, slope, bend, twist = family.fine_mixture.smooth(m, spread, 3)
    sd = np.full_like(m, spread)
    assert_allclose(value, family.smooth(m, sd), atol=1e-11)
    assert_allclose(slope, family.smooth_derivative(m, sd), atol=1e-11)
    rows = family.mixture.values_and_slopes(m[None], np.array([spread]))
    np.testing.assert_allclose(
        rows, [found[None] for found in family.mixture.smooth(m, spread)[:2]]
    )
    up, down = (family.smooth_derivative(m + step, sd) for step in (1e-4, -1e-4))
    assert_allclose(bend, (up - down) / 2e-4, atol=1e-8)
    up, down = (family.fine_mixture.smooth(m + step, spread)[2] for step in (1e-3, -1e-3))
    assert_allclose(twist, (up - down) / 2e-3, atol=3e-7)


def test_fine_mixture_of_the_logit_keeps_small_probabilities():
    for spread in (0.0, 1.7, 6.0):
        m = np.linspace(-300, 0, 601)
        value, slope, bend, twist = Logit().fine_mixture.smooth(m, spread, 3)
        assert_allclose(value, Logit().smooth(m, np.full_like(m, spread)), rtol=1e-8)
        # Far to the left the curve is an exponential, and its own slope.
        far = m < -(spread**2) - 10.0 * spread - 40.0
        assert_allclose(slope[far], value[far], rtol=1e-11)
        assert_allclose(bend[far], value[far], rtol=1e-11)
        assert_allclose(twist[far], value[far], rtol=1e-11)


def test_heat_equation_of_the_mixture():
    m, spread, h = np.linspace(-5, 5, 41), 0.8, 1e-5
    up, down = (Logit.mixture.smooth(m, spread + step)[0] for step in (h, -h))
    assert_allclose((up - down) / (2 * h), spread * Logit.mixture.smooth(m, spread)[2], atol=1e-9)


def test_kolmogorov_density_is_a_density_with_the_right_distribution():
    from scipy.special import kolmogorov

    k = np.linspace(1e-3, 3.0, 30_001)
    density = kolmogorov_density(k)
    assert np.all(density >= 0)
    cumulated = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(k))])
    assert_allclose(cumulated, 1.0 - kolmogorov(k), atol=1e-7)
