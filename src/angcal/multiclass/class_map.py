r"""P = Σ_j π_j softmax(a_j∘u + b_j): what is delivered for three and more classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.arrays import is_tensor, namespace_of, on_host, placed_like, softmax
from angcal.links.multiclass import MulticlassLink, Softmax


@dataclass(frozen=True, eq=False)
class ClassMap:
    """Scores of K classes to their probabilities, Σ_j π_j g(a_j∘u + b_j).

    Parameters
    ----------
    link : MulticlassLink
        g: a softmax, or one-vs-rest shares.
    shares : (m,) array
        π, summing to one.
    slopes, offsets : (m, K) arrays
        a and b.
    floor : float, default=0
        Least probability of a class: p becomes floor + (1 − K·floor)·p.

    See Also
    --------
    angcal.multiclass.angular_predictor : The map where all angles are known.

    Examples
    --------
    >>> from angcal.links.multiclass import Softmax
    >>> halved = ClassMap(Softmax(2), np.ones(1), np.full((1, 2), 0.5), np.zeros((1, 2)))
    >>> halved.predict([[0.0, 2.0]]).round(2)
    array([[0.27, 0.73]])
    """

    link: MulticlassLink
    shares: Floats
    slopes: Floats
    offsets: Floats
    floor: float = 0.0

    def predict(self, scores: ArrayLike, moves: Floats | None = None) -> Any:
        """Class probabilities, where the scores are.

        Parameters
        ----------
        scores : (n, K) array or tensor
            Raw scores.
        moves : (n, K) array, optional
            Added to a∘u + b.

        Returns
        -------
        (n, K) array or tensor
            Probabilities.
        """
        u: Any = scores if is_tensor(scores) else np.asarray(scores, dtype=np.float64)
        xp = namespace_of(u)
        K = self.slopes.shape[1]
        if u.ndim != 2 or u.shape[1] != K:
            raise ValueError(f"scores must have the shape (n, {K}); got {u.shape}.")
        if isinstance(self.link, Softmax):
            # A softmax does not see a constant, which class slopes would turn into something else.
            u = u - xp.mean(u, axis=1, keepdims=True)
        elif is_tensor(u):
            return placed_like(self.predict(on_host(u), moves), u)
        total = xp.zeros_like(u)
        for share, slopes, offsets in zip(self.shares, self.slopes, self.offsets, strict=True):
            logits = placed_like(slopes, u) * u + placed_like(offsets, u)
            total += float(share) * self._shares(logits if moves is None else logits + moves)
        # No entry exceeds the sum, so that none exceeds one after the division either.
        p = total / xp.sum(total, axis=1, keepdims=True)
        return floored(p, self.floor)

    def _shares(self, logits: Any) -> Any:
        """g, a softmax where the logits are a tensor."""
        if not is_tensor(logits):
            return self.link(logits)
        return softmax(logits + placed_like(self.link.offset, logits))  # type: ignore[attr-defined]


def floored(p: Any, floor: float) -> Any:
    """floor + (1 − K·floor)·p."""
    return p if floor == 0 else floor + (1.0 - p.shape[1] * floor) * p


def scaled(link: MulticlassLink, slope: float) -> ClassMap:
    """g(slope·u)."""
    K = link.n_indices
    return ClassMap(link, np.ones(1), np.full((1, K), slope), np.zeros((1, K)))


def constant(probabilities: Floats) -> ClassMap:
    """The same probabilities for every row."""
    K = len(probabilities)
    offsets = np.log(probabilities)[None, :]
    return ClassMap(Softmax(K), np.ones(1), np.zeros((1, K)), offsets)
