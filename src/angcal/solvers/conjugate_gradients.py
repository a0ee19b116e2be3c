r"""MW = B for many right-hand sides that share their products with M: conjugate gradients, once.

Every column has its own step lengths; columns only share products with M. Started from zero, the
quadratic form bᵀw_k = Σ_j α_j r_jᵀz_j rises towards bᵀM⁻¹b, and what it lacks is the squared error
in M's norm. When to stop is the caller's business:

- :class:`FormAccuracy`: the steps of the form shrink geometrically in the end, which tells what is
  missing. For a few per cent of a form, as sampled leverages need.
- :class:`DelayedAccuracy`: what a form lacked some steps ago is at least what it has gained since
  (Hestenes and Stiefel). For accurate solves with slow convergence, as a pool's covariance needs.
- :class:`ResidualDrop`: the preconditioned residual has fallen by a factor. For Newton steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from angcal._typing import Floats
from angcal.arrays import factor_like, namespace_of, on_host

# Share of rᵀz below which a column is solved to rounding.
ROUNDING = 1e-30
# A residual grows at most by M's condition number; beyond this M is singular to rounding.
LARGEST_GROWTH = 1e12


class NotConvergedError(RuntimeError):
    """Conjugate gradients did not converge, or row sizes do not explain the leverages."""


class StoppingRule(Protocol):
    """Says when to stop, from what one step has changed."""

    missing: Any
    hopeless: bool

    def begin(self, slope: Floats) -> None:
        """Take note of rᵀz before the first step."""

    def done(self, gain: Floats, form: Floats, slope: Floats) -> bool:
        """Whether to stop after a step.

        Parameters
        ----------
        gain : (k,) array
            By how much the step raised each quadratic form.
        form : (k,) array
            The forms so far.
        slope : (k,) array
            rᵀz of the new residuals.
        """


@dataclass(frozen=True, eq=False)
class Solution:
    """W with MW ≈ B.

    Attributes
    ----------
    values : (p, k) array
    forms : (k,) array
        b_jᵀw_j, with what the stopping rule knows to be missing added.
    images : array or None
        What `apply` returned beside its products, carried along: X̃W for M = X̃ᵀDX̃ + Q.
    steps : int
    converged : bool
    """

    values: Any
    forms: Floats
    images: Any
    steps: int
    converged: bool


def conjugate_gradients(
    apply: Callable[[Any], tuple[Any, Any]],
    rhs: Any,
    inverse_diagonal: Any,
    stop: StoppingRule,
    most_steps: int,
) -> Solution:
    """Solve MW = B, preconditioned by the diagonal.

    Parameters
    ----------
    apply : callable
        V -> (MV, images of V or None).
    rhs : (p, k) array or tensor
    inverse_diagonal : array that broadcasts against ``rhs``
    stop : StoppingRule
    most_steps : int

    Returns
    -------
    Solution
        ``converged`` is False where the rule was not met within ``most_steps``, or where a
        direction has no curvature: M is singular there.

    Examples
    --------
    >>> M = np.diag([1.0, 2.0])
    >>> found = conjugate_gradients(
    ...     lambda V: (M @ V, None), np.ones((2, 1)), np.ones((2, 1)), ResidualDrop(1e-12), 10
    ... )
    >>> found.values.ravel().round(6)
    array([1. , 0.5])
    """
    W, r = namespace_of(rhs).zeros_like(rhs), rhs
    z = inverse_diagonal * r
    p, slope = z, columns_dot(r, z)
    stop.begin(slope)
    rounding = ROUNDING * slope
    form, images, converged, step = np.zeros(rhs.shape[1]), None, False, 0
    for step in range(1, most_steps + 1):  # noqa: B007 (its last value is the count)
        Mp, image = apply(p)
        curvature = columns_dot(p, Mp)
        active = slope > rounding
        if np.any(active & ~(curvature > 0)):
            break
        alpha = np.divide(slope, curvature, out=np.zeros_like(slope), where=active)
        length = factor_like(alpha, rhs)
        W, r = W + length * p, r - length * Mp
        if image is not None:
            images = length * image if images is None else images + length * image
        gain = alpha * slope
        form = form + gain
        z = inverse_diagonal * r
        following = columns_dot(r, z)
        if stop.done(gain, form, following):
            converged = not stop.hopeless
            break
        turn = np.divide(following, slope, out=np.zeros_like(slope), where=active)
        p, slope = z + factor_like(turn, rhs) * p, following
    return Solution(W, form + stop.missing, images, step, converged)


def columns_dot(a: Any, b: Any) -> Floats:
    """Σ_i a_ij b_ij of every column, in double precision on the host."""
    xp = namespace_of(a)
    if xp is np:
        return np.einsum("ij,ij->j", a, b, dtype=np.float64)
    return on_host(xp.sum(a * b, axis=0))


class FormAccuracy:
    """Stops when the missing share of the forms, extrapolated, is below their tolerances.

    Parameters
    ----------
    tolerances : (k,) array
        Columns of equal tolerance have to meet it on average.
    """

    hopeless = False

    def __init__(self, tolerances: Floats) -> None:
        self._groups = [(value, tolerances == value) for value in np.unique(tolerances)]
        self._last: Floats | None = None
        self._was_small = False
        self.missing: Any = 0.0

    def begin(self, slope: Floats) -> None:
        """Nothing to note."""

    def done(self, gain: Floats, form: Floats, slope: Floats) -> bool:
        """See :class:`StoppingRule`."""
        last, self._last = self._last, gain
        if last is None:
            return False
        ratio = np.divide(gain, last, out=np.zeros_like(gain), where=last > 0)
        shrink = np.clip(ratio, 0.0, 0.9)
        self.missing = gain * shrink / (1.0 - shrink)
        share = np.divide(self.missing, form, out=np.zeros_like(form), where=form > 0)
        small = all(share[same].mean() < tolerance for tolerance, same in self._groups)
        # Twice in a row: where eigenvalues cluster, a single small step proves little.
        was_small, self._was_small = self._was_small, small
        return small and was_small


class DelayedAccuracy:
    """Stops when every form has gained no more than a share of itself over the last steps.

    The look back is a quarter of all steps: with a fixed one, slow convergence (a pool of few more
    rows than columns) passes for no more change.

    Parameters
    ----------
    accuracy : float
    """

    SHORTEST_DELAY, DELAY_SHARE = 4, 0.25
    # Steps without halving the error after which there is no hope.
    PATIENCE = 100

    def __init__(self, accuracy: float) -> None:
        self._accuracy = accuracy
        self._history: list[Floats] = []
        self._start = np.zeros(0)
        self._best, self._best_step = np.inf, 0
        self.error, self.hopeless = np.inf, False
        self.missing: Any = 0.0

    def begin(self, slope: Floats) -> None:
        """Residuals are measured by where they began."""
        self._start = np.maximum(slope, np.finfo(float).tiny)

    def done(self, gain: Floats, form: Floats, slope: Floats) -> bool:
        """See :class:`StoppingRule`; ``hopeless`` where more steps would not help."""
        self._history.append(form - gain)
        delay = max(self.SHORTEST_DELAY, int(np.ceil(self.DELAY_SHARE * len(self._history))))
        if len(self._history) < delay:
            return False
        shares = (form - self._history[-delay]) / np.maximum(form, np.finfo(float).tiny)
        # Nothing is missing from a solution whose residual is rounding.
        shares[slope <= ROUNDING * self._start] = 0.0
        self.error = float(shares.max(initial=0.0))
        if self.error < 0.5 * self._best:
            self._best, self._best_step = self.error, len(self._history)
        grown = np.any(slope > LARGEST_GROWTH * self._start)
        self.hopeless = bool(grown) or len(self._history) - self._best_step > self.PATIENCE
        return self.error <= self._accuracy or self.hopeless


class ResidualDrop:
    """Stops when rᵀz of every column has fallen to a share of where it began.

    Parameters
    ----------
    share : float or (k,) array
    """

    def __init__(self, share: float | Floats) -> None:
        self._share, self._start = share, np.zeros(0)
        self.missing: Any = 0.0
        self.hopeless = False

    def begin(self, slope: Floats) -> None:
        """Residuals are measured by where they began."""
        self._start = slope

    def done(self, gain: Floats, form: Floats, slope: Floats) -> bool:
        """See :class:`StoppingRule`; ``hopeless`` where more steps would not help."""
        self.hopeless = bool(np.any(slope > LARGEST_GROWTH * self._start))
        return self.hopeless or bool(np.all(slope <= self._share * self._start))
