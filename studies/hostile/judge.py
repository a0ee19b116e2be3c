"""What is asked of every fit: a clear error or valid probabilities, and no silent harm.

Outcomes: "refused" (a ValueError or TypeError that is worded), "valid", "warned" (valid, with a
warning), and those that are failures: "crash" (another exception, or one that names nothing),
"numeric warning", "invalid" (NaN, outside [0, 1], rows that do not sum to one, labels that are no
classes), "not monotone", "harm" (fair, silent, and over 0.1 nats worse than the better of plain and
prevalence on fresh rows), of however few rows. The harm of a classical calibrator that the case
asks for by name is counted apart ("harm, calibrator"), as no failure: it is what that calibrator
does.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from angcal._typing import Floats
from studies.hostile.cases import CALIBRATORS, Case, Data, build, draw

FAILURES = ("crash", "numeric warning", "invalid", "not monotone", "harm")
HARM = 0.1
SUM_TOLERANCE = 1e-12
SMALLEST = 1e-15
"""Probabilities are judged no lower than this, plain ones alike."""
# Errors that come from arithmetic or Python and tell a person nothing about what to change.
UNWORDED = re.compile(
    r"array must not contain infs|SVD did not|Singular matrix|geomspace|Geometric sequence"
    r"|not supported between|broadcast|out of bounds|cannot reshape|object is not|has no attribute"
    r"|unpack|zero-size|math range|too large to convert|cannot convert float"
)


@dataclass(frozen=True)
class Outcome:
    """How a case ended, and a sentence about it."""

    kind: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether it should not be."""
        return self.kind in FAILURES


def judge(case: Case) -> Outcome:
    """Fit the case and look at what comes out."""
    data = draw(case)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = build(case, data)
            options = {} if data.weights is None else {"sample_weight": data.weights}
            model.fit(data.X, data.y, **options)
            fresh = data.fresh
            p = np.asarray(model.predict_proba(fresh))
        except (ValueError, TypeError) as error:
            return _refusal(error)
        except Exception as error:  # whatever it is, it should have been worded
            return Outcome("crash", f"{type(error).__name__}: {error}")
    leaked = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    ours = [w for w in leaked if "angcal" in str(w.filename)]
    if ours:
        place = Path(str(ours[0].filename)).name
        return Outcome("numeric warning", f"{ours[0].message} ({place})")
    found = _invalid(model, p, fresh, case)
    if found is not None:
        return found
    silent = not [w for w in caught if not issubclass(w.category, FutureWarning)]
    if silent and case.fair:
        harm = harm_of(model, data, p, case)
        if harm > HARM:
            kind = "harm, calibrator" if case.model in CALIBRATORS else "harm"
            return Outcome(kind, f"{harm:.3f} nats above the better of plain and prevalence")
    return Outcome("valid" if silent else "warned")


def shrunk(case: Case, kind: str) -> Case:
    """A case that fails alike, with as many of its names as can be as in a plain fit."""
    plain = Case().as_dict()
    for name in plain:
        simpler = Case(**{**case.as_dict(), name: plain[name]})
        if simpler != case and judge(simpler).kind == kind:
            case = simpler
    return case


def _refusal(error: Exception) -> Outcome:
    message = str(error)
    numeric = type(error) is np.linalg.LinAlgError  # angcal's own are worded
    if numeric or not message or UNWORDED.search(message):
        return Outcome("crash", f"{type(error).__name__}: {message}")
    return Outcome("refused", message[:200])


def _invalid(model: Any, p: Floats, fresh: Floats, case: Case) -> Outcome | None:
    if p.shape != (len(fresh), len(model.classes_)):
        return Outcome("invalid", f"shape {p.shape}")
    if not np.all(np.isfinite(p)):
        return Outcome("invalid", "NaN or infinite probabilities")
    if p.min() < 0.0 or p.max() > 1.0:
        return Outcome("invalid", f"probabilities from {p.min()!r} to {p.max()!r}")
    off = float(np.abs(p.sum(axis=1) - 1.0).max())
    if off > SUM_TOLERANCE:
        return Outcome("invalid", f"rows sum to one but for {off:.2g}")
    if not np.all(np.isfinite(model.coef_)):
        return Outcome("invalid", "coef_ is not finite")
    # An average, over the exponents of a pool too, is of several scores.
    one = case.model in ("angular", "path") and getattr(model, "average_", None) is None
    if len(model.classes_) == 2 and one and p.shape[1] == 2:
        scores = np.ravel(_plain_scores(model, fresh))
        if np.all(np.isfinite(scores)) and not _monotone(scores, p[:, 1]):
            return Outcome("not monotone", "probabilities do not follow the scores")
    return None


def _plain_scores(model: Any, rows: Floats) -> Floats:
    """(m, 1) or (m, K) scores of the linear model itself."""
    with np.errstate(all="ignore"):
        found: Floats = rows @ np.atleast_2d(model.coef_).T + np.ravel(model.intercept_)
    return found


def _monotone(scores: Floats, p: Floats) -> bool:
    """Whether p rises with the scores, or falls with them, up to rounding."""
    steps = np.diff(p[np.argsort(scores, kind="stable")])
    return bool(steps.min(initial=0.0) >= -1e-9 or steps.max(initial=0.0) <= 1e-9)


def harm_of(model: Any, data: Data, p: Floats, case: Case) -> float:
    """Expected log-loss on fresh rows beyond the better of plain and prevalence, in nats."""
    classes = list(model.classes_)
    places = [classes.index(name) if name in classes else -1 for name in data.names]
    truth = data.truth[:, [k for k, place in enumerate(places) if place >= 0]]
    order = [place for place in places if place >= 0]
    if len(order) < len(classes):
        return 0.0  # names that the model holds to be equal
    truth = truth / np.maximum(truth.sum(axis=1, keepdims=True), SMALLEST)
    counts = np.array([np.mean(np.ravel(data.y) == name) for name in model.classes_])
    # One temperature moves no offset: a plain model that is off stays off, whoever scales it.
    rivals = [np.tile(counts, (len(p), 1))] if case.model != "temperature" else []
    if case.logistic:
        scores = _plain_scores(model, data.fresh)
        if scores.shape[1] == 1:
            scores = np.column_stack([-0.5 * scores, 0.5 * scores])
        if np.all(np.isfinite(scores)):
            rivals.append(softmax(scores, axis=1))
    losses = [_loss(truth, rival[:, order]) for rival in rivals]
    return _loss(truth, p[:, order]) - min(losses, default=np.inf)


def _loss(truth: Floats, p: Floats) -> float:
    return float(-np.mean(np.sum(truth * np.log(np.clip(p, SMALLEST, 1.0)), axis=1)))
