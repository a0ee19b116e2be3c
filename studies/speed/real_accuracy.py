"""How near fits to real rows are to exact ones: ``python -m studies.speed.real_accuracy``.

The designs of :mod:`studies.speed.real_designs` whose smaller side is at most 2,000, by default and
with a factorization for each fit: the leave-one-out log-loss of twenty penalties and the penalty
chosen, and the cosine at C = 1. Writes ``real-accuracy.csv`` to ``studies/results/speed``.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from studies import RESULTS
from studies.engine.store import printed
from studies.speed.real_designs import design, names

LONGEST_SIDE = 2000


def compared(name: str) -> dict[str, object] | None:
    """A row of the table; None for a design that is too large."""
    X, y = design(name)
    if min(X.shape) > LONGEST_SIDE:
        return None
    plain = LogisticRegression()
    ways = ("auto", "exact")
    paths = [AngularLogisticRegressionCV(Cs=20, observables=way).fit(X, y) for way in ways]
    fits = [AngularCalibratedClassifier(plain, observables=way).fit(X, y) for way in ways]
    fast, exact = (path.path_ for path in paths)
    gaps = np.abs(fast.log_loss - exact.log_loss)
    chosen = exact.log_loss[fast.index] - exact.log_loss[exact.index]
    return {
        "design": f"{name} {X.shape[0]}x{X.shape[1]}",
        "log_loss": round(float(exact.log_loss.min()), 5),
        "largest_gap": round(float(gaps.max()), 5),
        "in_standard_errors": round(float(np.max(gaps / exact.log_loss_se)), 3),
        "choice_costs": round(float(chosen), 6),
        "cosine": round(fits[0].angle_.cosine, 4),
        "exact_cosine": round(fits[1].angle_.cosine, 4),
        "cosine_se": round(fits[1].angle_.standard_error, 4),
    }


if __name__ == "__main__":
    every = map(compared, names())
    printed(RESULTS / "speed" / "real-accuracy.csv", (row for row in every if row is not None))
