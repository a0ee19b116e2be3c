r"""What the chosen penalty minimizes: its leave-one-out score, and a little of the evidence.

.. math::
    \mathrm{score}_C + \mathrm{error}_C - \frac{\min(1, n/d)}{\sqrt n} \cdot
    \frac{\log p(y \mid C)}{n}, \qquad
    \frac{d \log p(y \mid C)}{d \log C} = \tfrac12 \big(\|\hat w_C\|^2/C - \mathrm{df}_C\big)

with error what sampled leverages leave open of the score, and df without the intercept's. The
evidence is MacKay's, by Laplace's approximation: the first term of its slope is exact, as ŵ has
the largest penalized likelihood, and the second is that of log|I + C·XᵀDX| at fixed D. Both are at
hand for every fit, also where rows come in blocks or leverages are sampled.

The two fail in different ways. Leave-one-out scores are right in the mean, and penalties often
differ by less than their noise, which falls with √n. The evidence has next to no noise, and an
error for each row that does not fall with n, as no model is quite true. Where rows are far fewer
than columns the labels are separable, and Laplace's approximation takes too much from weak
penalties: without min(1, n/d) it raised held-out losses of gene expression (n/d of 0.01) by a
quarter.

Of rows in groups, n counts those that are no copies: of copies that weigh one together it is the
number of groups, and the criterion that of single rows. Labels that lean on their group's count in
√n alone, for there the noise of leave-one-out scores is that of groups; the evidence of slopes
hardly knows of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.penalty_path.design import Design
from angcal.solvers.newton_cg import Solution

PER_NAT = {"log_loss": 1.0, "brier_score": 0.5}
"""What a nat is worth in each score: (y − p)² moves by 2p(1 − p) as much, which is ½ at p = ½."""


def log_evidence(Cs: Floats, squares: Floats, degrees_of_freedom: Floats) -> Floats:
    """log p(y | C) − log p(y | 0) from ‖w‖² of every fit, by the trapezoidal rule in log C.

    Below the first C both terms are taken as proportional to C, as they are under strong penalties.

    Examples
    --------
    >>> log_evidence(np.array([1.0, 10.0]), np.array([3.0, 20.0]), np.array([1.0, 2.0])).round(2)
    array([1.  , 2.15])
    """
    slopes = 0.5 * (squares / Cs - degrees_of_freedom)
    steps = 0.5 * (slopes[1:] + slopes[:-1]) * np.diff(np.log(Cs))
    return slopes[0] + np.append(0.0, np.cumsum(steps))


def criterion(
    scores: Floats,
    design: Design,
    Cs: Floats,
    solution: Solution,
    degrees_of_freedom: Floats,
    curves: Any,
    scoring: str,
) -> Floats:
    """The formula of this module, from scores with their errors.

    Curves tell what labels of groups are worth (:class:`~angcal.penalty_path.choice.PathCurves`).
    Without evidence for three and more classes, whose df leaves out how the softmax couples them:
    it raised held-out losses there.
    """
    if design.loss.n_scores > 1:
        return scores
    squares = np.array([float(np.sum(solution.problem(c)[0] ** 2)) for c in range(len(Cs))])
    # Penalties that do about as well say the same of groups.
    best = int(np.argmin(scores))
    n, independent = curves.distinct_labels(best), curves.independent_labels(best)
    # In the design's own coordinates, and as if weights were 1 in the mean of distinct labels.
    weight = float(np.mean(design.weights)) * (len(design.labels) / n)
    strengths = design.scaled(1.0 / Cs) / weight
    penalized = degrees_of_freedom - float(design.fit_intercept)
    evidence = log_evidence(1.0 / strengths, squares, penalized)
    share = PER_NAT[scoring] * min(1.0, n / design.n_features) / np.sqrt(independent) / n
    return scores - share * (evidence - evidence.max())
