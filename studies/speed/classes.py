"""Fit + calibrate many classes: ``python -m studies.speed.classes`` (``--device cuda`` on a GPU).

Rows are Gaussian, classes follow a softmax of K indices of standard deviation 3. On the CPU the
time is compared, in alternating fits, with one multinomial LogisticRegression and with
CalibratedClassifierCV(method="temperature", cv=5); on a GPU the log-loss of 20,000 test rows is
compared with that of the best temperature for these very rows, which no method can know.

Writes ``classes.csv`` (``classes-gpu.csv``) to ``studies/results/speed`` and prints the table.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import sklearn
from scipy.special import log_softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier
from angcal.arrays import on_host
from studies import RESULTS
from studies.engine.store import printed
from studies.speed.measure import in_turn, stopwatch

CPU_CASES = [(400, 384, 20), (800, 64, 100), (5000, 500, 10), (2000, 768, 50)]
GPU_CASES = [(20_000, 2_048, 100), (50_000, 2_048, 1_000), (100_000, 1_024, 1_000)]
SIGNAL, TEST_ROWS, REPEATS, GPU_C = 3.0, 20_000, 7, 0.01


def draw(n: int, d: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels; every class has five rows at least."""
    rng = np.random.default_rng([n, d, K])
    X = rng.normal(size=(n, d))
    indices = X @ rng.normal(size=(d, K)) * (SIGNAL / np.sqrt(d))
    y = np.argmax(indices + rng.gumbel(size=indices.shape), axis=1)
    y[: 5 * K] = np.tile(np.arange(K), 5)
    return X, y


def on_cpu(n: int, d: int, K: int) -> dict[str, object]:
    X, y = draw(n, d, K)
    contenders: dict[str, Callable[[], Any]] = {
        "plain": lambda: LogisticRegression().fit(X, y),
        "angcal": lambda: AngularCalibratedClassifier().fit(X, y),
        "cv": lambda: CalibratedClassifierCV(LogisticRegression(), method="temperature", cv=5).fit(
            X, y
        ),
    }
    found = in_turn(contenders, REPEATS)
    return {
        "n": n,
        "d": d,
        "K": K,
        **{f"{name}_seconds": round(value, 4) for name, value in found.items()},
        "over_plain": round(found["angcal"] / found["plain"], 2),
        "over_cv": round(found["angcal"] / found["cv"], 2),
    }


def on_gpu(n: int, d: int, K: int) -> dict[str, object]:
    import torch

    generator = torch.Generator(device="cuda").manual_seed(n + d + K)
    options: dict[str, Any] = {"generator": generator, "device": "cuda"}
    W = torch.randn(d, K, **options) * (SIGNAL / d**0.5)
    X = torch.randn(n + TEST_ROWS, d, **options)
    noise = torch.rand(n + TEST_ROWS, K, **options).clamp(1e-30, 1 - 1e-7)
    y = torch.argmax(X @ W - torch.log(-torch.log(noise)), dim=1)
    del noise
    model = AngularCalibratedClassifier(LogisticRegression(C=GPU_C))
    model.fit(X[:n], y[:n])
    times, _ = stopwatch(lambda: model.fit(X[:n], y[:n]), 5, torch.cuda.synchronize)
    p = on_host(model.predict_proba(X[n:]))
    scores = on_host(X[n:] @ model.coef_.T + model.intercept_)
    codes = np.searchsorted(model.classes_, y[n:].cpu().numpy())
    each = np.arange(TEST_ROWS)
    slopes = np.exp(np.linspace(-1.5, 1.5, 121))
    best = min(float(-log_softmax(a * scores, axis=1)[each, codes].mean()) for a in slopes)
    ours = float(-np.log(p[each, codes]).mean())
    plain = float(-log_softmax(scores, axis=1)[each, codes].mean())
    return {
        "n": n,
        "d": d,
        "K": K,
        "seconds": round(float(np.median(times)), 3),
        "slowest": round(max(times), 3),
        "log_loss": round(ours, 5),
        "plain": round(plain, 5),
        "best_temperature": round(best, 5),
        "over_best": round(ours / best, 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    device = parser.parse_args().device
    measure, cases = (on_cpu, CPU_CASES) if device == "cpu" else (on_gpu, GPU_CASES)
    name = "classes.csv" if device == "cpu" else "classes-gpu.csv"
    with sklearn.config_context(array_api_dispatch=device == "cuda"):
        printed(RESULTS / "speed" / name, (measure(*case) for case in cases))


if __name__ == "__main__":
    main()
