r"""K exchangeable classes: the state of a multinomial ridge fit.

P(y = k | x) = softmax(κg)_k, g = W*ᵀx with covariance P = I − 11ᵀ/K: every class is as common as
every other, and every contrast between classes as strong. Scores of a new row are
Ũ = q·(c·g + √(1−c²)ζ), ζ ~ N(0, P) independent of g, and a label of its own takes them to
U = Ũ + γ(e_y − softmax U). With π = softmax(U), S = diag π − ππᵀ, π* = softmax(κg) and
Ψ_y = e_y − π, every contrast has

    v = E Σ_y π*_y tr[S(I+γS)⁻¹]/(K−1)
    r² = E Σ_y π*_y‖Ψ_y‖²/(K−1)
    t = E Σ_y π*_y κ(e_y−π*)ᵀΨ_y/(K−1)

and the rest is as for two classes (:mod:`angcal.theory.solve`). The expectations are sums over
Sobol points of (g, ζ), with all K labels of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import entr, logsumexp, ndtri, softmax
from scipy.stats import qmc

from angcal._typing import Floats
from angcal.theory.channel import Channel
from angcal.theory.solve import Problems
from angcal.theory.spectrum import Spectra, Spectrum
from angcal.theory.state import LARGEST_GAP, solve_hard, spread_and_cosine


@dataclass(frozen=True)
class ClassState:
    """What a multinomial ridge fit to n labels of K exchangeable classes is expected to be.

    Attributes
    ----------
    n, C, n_classes : float, float, int
        Labels, scikit-learn's inverse strength, and K.
    cosine, norm : float
        Of every contrast between classes: fitted against true weights, and the deviation of a new
        row's score.
    degrees_of_freedom, step, v, r2, t : float
        As in `FitState`, for each of the K − 1 contrasts.
    log_loss, accuracy, ece : float
        Of the fit's own probabilities on new rows; the error is E|p − F|, mean over classes.
    calibrated_log_loss, calibrated_accuracy : float
        Of the best map of the scores.
    bayes_log_loss, bayes_accuracy : float
        Of the truth.
    converged : bool
        Whether the equations were solved.
    residual : float
        How far they are from it.

    See Also
    --------
    state_of_classes : Computes it.

    Examples
    --------
    >>> from angcal.theory import Spectrum
    >>> state = state_of_classes(300, Spectrum.isotropic(150), n_classes=3, scale=3.0, C=0.1)
    >>> state.converged, round(state.cosine, 2)
    (True, 0.74)
    """

    n: float
    C: float
    n_classes: int
    cosine: float
    norm: float
    degrees_of_freedom: float
    step: float
    v: float
    r2: float
    t: float
    log_loss: float
    accuracy: float
    ece: float
    calibrated_log_loss: float
    calibrated_accuracy: float
    bayes_log_loss: float
    bayes_accuracy: float
    converged: bool
    residual: float


def state_of_classes(
    n: float, spectrum: Spectrum, *, n_classes: int, scale: float, C: float = 1.0
) -> ClassState:
    r"""The expected state of min_{W,b} C·Σ_i −log softmax(Wᵀx_i + b)_{y_i} + ½‖W‖² on n labels.

    Parameters
    ----------
    n : float
        Labels of all classes together.
    spectrum : Spectrum
        Of the features, with the shares of every contrast's signal.
    n_classes : int
        K, 2 to 50, all equally common.
    scale : float
        κ: the logits of the truth have deviation κ√(1 − 1/K).
    C : float, default=1.0
        Inverse strength as in scikit-learn, finite.

    Returns
    -------
    ClassState
        ``converged`` is False where the equations could not be solved.

    See Also
    --------
    state_of_fit : Two classes, with any loss, link and prevalence.

    Examples
    --------
    >>> from angcal.theory import Spectrum
    >>> given = {"n_classes": 4, "scale": 4.0, "C": 0.1}
    >>> few, many = (state_of_classes(n, Spectrum.isotropic(99), **given) for n in (99, 400))
    >>> few.calibrated_log_loss > many.calibrated_log_loss
    True
    """
    _check(n, n_classes, scale, C)
    labels = ClassLabels(np.array([float(scale)]), int(n_classes))
    spectra = Spectra(spectrum.values, spectrum.counts, spectrum.shares[None])
    problems = Problems(np.array([float(n)]), np.array([1.0 / (n * C)]), spectra, labels)
    solution = solve_hard(problems)
    found = labels.channel(*solution.unknowns)
    q, cosine = spread_and_cosine(problems, found)
    df1 = spectra.functions(problems.mu(found.v))[0]
    b_sd = np.sqrt(found.r2 / n) / found.v
    return ClassState(
        n=float(n),
        C=float(C),
        n_classes=int(n_classes),
        cosine=float(cosine[0]),
        norm=float(q[0]),
        degrees_of_freedom=float(df1[0]),
        step=float(solution.unknowns[2][0]),
        v=float(found.v[0]),
        r2=float(found.r2[0]),
        t=float(found.t[0]),
        **_on_new_rows(labels, float(cosine[0]), float(q[0]), float(b_sd[0])),
        converged=bool(solution.residual[0] <= LARGEST_GAP),
        residual=float(solution.residual[0]),
    )


def _check(n: float, n_classes: int, scale: float, C: float) -> None:
    if not (np.isfinite(n) and n >= n_classes):
        raise ValueError(f"n={n!r} must be a number of labels, one for each class at least.")
    if not 2 <= n_classes <= 50:
        raise ValueError(f"n_classes={n_classes!r} must lie between 2 and 50.")
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale={scale!r} must be positive.")
    if not (np.isfinite(C) and C > 0):
        raise ValueError(f"C={C!r} must be positive and finite: a penalty keeps W unique.")


@lru_cache(maxsize=4)
def _points(n_classes: int, count: int, parts: int) -> tuple[Floats, ...]:
    """Sobol points of `parts` independent N(0, P), (count, K) each."""
    sampler = qmc.Sobol((n_classes - 1) * parts, scramble=True, seed=0)
    normal = ndtri(np.clip(sampler.random(count), 1e-12, 1.0 - 1e-12))
    # Orthonormal contrasts between classes.
    basis, _ = np.linalg.qr(np.column_stack([np.ones(n_classes), np.eye(n_classes)[:, 1:]]))
    return tuple(part @ basis[:, 1:].T for part in np.split(normal, parts, axis=1))


@dataclass(frozen=True, eq=False)
class ClassLabels:
    """Softmax labels of many problems with the same K, as `angcal.theory.solve` asks of them."""

    scale: Floats  # (B,): κ
    n_classes: int

    def take(self, chosen: Any) -> ClassLabels:
        """The problems of these numbers."""
        return replace(self, scale=self.scale[chosen])

    def channel(self, q: Floats, c: Floats, gamma: Floats, b: Floats) -> Channel:
        """v, r² and t of each problem; by symmetry b is 0, which its gap −b says."""
        found = np.array(
            [self._one(*numbers) for numbers in zip(self.scale, q, c, gamma, strict=True)]
        ).reshape(len(q), 3)
        v, r2, t = found.T
        return Channel(v, r2, t, -b * v)

    def _one(self, scale: float, q: float, c: float, gamma: float) -> tuple[float, float, float]:
        K = self.n_classes
        g, noise = _points(K, _count(K), 2)
        truth = softmax(scale * g, axis=1)
        scores = q * (c * g + np.sqrt(max(1.0 - c * c, 0.0)) * noise)
        v = r2 = t = 0.0
        for label in range(K):
            unit = np.eye(K)[label]
            p = moved_classes(scores, label, gamma)
            weight = truth[:, label] / len(g) / (K - 1.0)
            residual = unit - p
            # tr S(I+γS)⁻¹, with (I+γS)⁻¹ by Sherman and Morrison.
            a = 1.0 / (1.0 + gamma * p)
            trace = a.sum(axis=1) + gamma * ((p * a) ** 2).sum(axis=1) / (p * a).sum(axis=1)
            v += float(weight @ ((K - trace) / gamma))
            r2 += float(weight @ (residual**2).sum(axis=1))
            t += float(weight @ (scale * (unit - truth) * residual).sum(axis=1))
        return max(v, 1e-12), r2, t


def _count(n_classes: int) -> int:
    """Sobol points for K classes, a power of two."""
    # With so many points K = 2 agrees with one-dimensional sums to 1e-4.
    return int(2 ** np.floor(np.log2(max(2**14 / n_classes, 256))))


def moved_classes(scores: Floats, label: int, gamma: float) -> Floats:
    """softmax(U) with U = Ũ + γ(e_y − softmax U), by Newton's method with shortened steps."""
    target = scores.copy()
    target[:, label] += gamma

    def gap(u: Floats) -> tuple[Floats, Floats]:
        p = softmax(u, axis=1)
        return u - target + gamma * p, p

    u = target - gamma / scores.shape[1]
    residual, p = gap(u)
    for _ in range(60):
        size = np.abs(residual).max(axis=1)
        if size.max() < 1e-11 * (1.0 + gamma):
            break
        a = 1.0 / (1.0 + gamma * p)
        first = a * residual
        factor = gamma * (p * first).sum(axis=1) / (p * a).sum(axis=1)
        step = first + factor[:, None] * a * p
        length = np.ones(len(u))
        for _ in range(12):
            newer, newer_p = gap(u - length[:, None] * step)
            # The gap is the gradient of a convex function, so that some length lessens it.
            worse = np.linalg.norm(newer, axis=1) > np.linalg.norm(residual, axis=1) * (1 + 1e-12)
            if not worse.any():
                break
            length[worse] *= 0.4
        u, residual, p = u - length[:, None] * step, newer, newer_p
    return p


def _on_new_rows(labels: ClassLabels, cosine: float, q: float, b_sd: float) -> dict[str, float]:
    """Losses of the fit's own probabilities, of calibrated ones, and of the truth."""
    scale, K = float(labels.scale[0]), labels.n_classes
    g, noise, shift = _points(K, _count(K), 3)
    direction = cosine * g + np.sqrt(max(1.0 - cosine**2, 0.0)) * noise
    truth = softmax(scale * g, axis=1)
    own = q * direction + b_sd * shift
    logs = own - logsumexp(own, axis=1, keepdims=True)
    places = np.arange(len(g))
    # F(s) = E softmax(κ(c·s + √(1−c²)ζ)) by points of its own, on the first few scores.
    few = direction[: min(len(g), 1024)]
    (inner,) = _points(K, 256, 1)
    shifted = scale * (cosine * few[:, None, :] + np.sqrt(max(1.0 - cosine**2, 0.0)) * inner)
    F = softmax(shifted, axis=2).mean(axis=1)
    return {
        "log_loss": float(-np.mean(np.sum(truth * logs, axis=1))),
        "accuracy": float(np.mean(truth[places, own.argmax(axis=1)])),
        "ece": float(np.mean(np.abs(softmax(own[: len(few)], axis=1) - F))),
        "calibrated_log_loss": float(np.mean(entr(F).sum(axis=1))),
        "calibrated_accuracy": float(np.mean(F.max(axis=1))),
        "bayes_log_loss": float(np.mean(entr(truth).sum(axis=1))),
        "bayes_accuracy": float(np.mean(truth.max(axis=1))),
    }
