r"""Steps γ_i that all classes of a row share, where each of its own would cost too much.

    γ_i = h_i/(1 − h_iw_i),   w_i the mean over the classes of what the row's steps leave of D_i

The steps depend on what they leave, so that they are found in rounds. One function does this for a
fit, for all penalties of a path, and for rows on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import namespace_of, on_host, placed_like
from angcal.leverages.many import Leverages
from angcal.leverages.steps import left_out
from angcal.losses import Multinomial, curvature_of

LeveragesOf = Callable[[list[Floats], list[int]], list[Leverages]]
"""(curvatures, the places of the fits that they belong to) -> leverages of each."""


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Probabilities of K classes at the rows of one fit, wherever they are stored.

    Attributes
    ----------
    loss : Multinomial
    p : (n, K) array or tensor
    codes, weights : (n,) arrays
        Of the classes, and ω; on the host.
    """

    loss: Multinomial
    p: Any
    codes: np.ndarray
    weights: Floats

    def held_back(self, steps: Floats) -> Any:
        """E_ik under these steps (:meth:`angcal.losses.Multinomial.held_back`), where p is."""
        omega, placed = placed_like(self.weights, self.p), placed_like(steps, self.p)
        return self.loss.held_back(self.p, omega, placed)

    @property
    def mean_curvature(self) -> Floats:
        """ω(1 − Σ_k p_k²)/(K − 1): the mean of the classes' curvatures, (n, 1)."""
        rest = 1.0 - namespace_of(self.p).sum(self.p * self.p, axis=1)
        total = on_host(placed_like(self.weights, self.p) * rest)
        return total[:, None] / (self.loss.n_classes - 1.0)

    def residuals(self, classes: np.ndarray) -> Floats:
        """ψ of some classes, on the host."""
        missed = (self.codes[:, None] == classes) - on_host(columns(self.p, classes))
        return self.weights[:, None] * missed


@dataclass(frozen=True, eq=False)
class SharedSteps:
    """What the rounds found for one fit.

    Attributes
    ----------
    leverages : Leverages
        Of the last round, (n, 1).
    steps : (n, 1) array
        γ.
    held : (n, K) array or tensor
        By how much each class is held back under these steps: where p is.
    """

    leverages: Leverages
    steps: Floats
    held: Any

    def curvatures(self, classes: np.ndarray | None = None) -> Floats:
        """What is left of the curvature of all classes or of some, on the host."""
        held = self.held if classes is None else columns(self.held, classes)
        return curvature_of(on_host(held), self.steps)


def shared_steps(rows: list[ClassRows], leverages: LeveragesOf) -> list[SharedSteps]:
    """Steps of every fit, in as many rounds as each of them takes.

    Parameters
    ----------
    rows : list of ClassRows
    leverages : callable
    """
    means = [each.mean_curvature for each in rows]
    shared: dict[int, SharedSteps] = {}
    left = list(range(len(rows)))
    for _ in range(plan.MOST_ROUNDS):
        found = leverages([means[c] for c in left], left)
        unsettled = []
        for c, each in zip(left, found, strict=True):
            before, steps = means[c], left_out(each.values, means[c])
            held = rows[c].held_back(steps)
            shared[c] = SharedSteps(each, steps, held)
            mean = on_host(namespace_of(held).sum(held, axis=1))[:, None] / held.shape[1]
            means[c] = curvature_of(mean, steps)
            # Another round would hardly change the curvature that is left.
            if not means[c].sum() > 0.95 * before.sum():
                unsettled.append(c)
        left = unsettled
        if not left:
            break
    return [shared[c] for c in range(len(rows))]


def corrected_steps(
    rows: list[ClassRows], shared: list[SharedSteps], totals: list[Floats], leverages: LeveragesOf
) -> list[Floats]:
    """γ times Σψ²γ_ik/Σψ²γ_i over a few classes: by how much shared steps fall short of their own.

    Parameters
    ----------
    rows, shared : lists
        The fits, and the steps that their classes share.
    totals : list of (K,) arrays
        By which the classes of each fit are put in order: the few are those at even steps.
    leverages : callable
    """
    some = [typical_classes(each) for each in totals]
    few = [each.curvatures(classes) for each, classes in zip(shared, some, strict=True)]
    found = leverages(few, list(range(len(rows))))
    corrected = []
    for each, own, D, classes, given in zip(shared, found, few, some, rows, strict=True):
        squares = given.residuals(classes) ** 2
        total = max(float(np.sum(squares * each.steps)), np.finfo(float).tiny)
        ratio = float(np.sum(squares * left_out(own.values, D))) / total
        corrected.append(ratio * each.steps)
    return corrected


def typical_classes(totals: Floats) -> np.ndarray:
    """A few classes, from those of the least total to those of the most."""
    count = min(plan.SAMPLED_CLASSES, len(totals))
    places = (np.arange(count) + 0.5) * len(totals) / count
    return np.argsort(totals)[places.astype(np.intp)]


def columns(values: Any, index: np.ndarray) -> Any:
    """Some columns, where the values are."""
    if isinstance(values, np.ndarray):
        return values[:, index]
    return values[:, namespace_of(values).asarray(index, device=values.device)]
