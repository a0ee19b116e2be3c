"""Fit + angle + calibrated link on a GPU, X already there: ``python -m studies.speed.gpu``.

Rows are drawn on the device: x ~ N(0, I), P(y = 1 | x) = sigmoid(3w*ᵀx + 1), ‖w*‖ = 1, so that the
true cosine is known. Every case is warmed up, then timed with the device synchronised. The floor
of a case is (bytes that its passes over X read)/(measured bandwidth of a product with X): a pass
over a copy in half precision reads half as many.

Writes ``results.csv`` and ``results.json`` (device, versions) to ``studies/results/gpu`` and prints
the table.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import sklearn
import torch
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit
from angcal.files import write_text
from angcal.rows.tensors import HalfTensorRows
from studies import RESULTS
from studies.engine.store import as_csv
from studies.speed.measure import stopwatch

FOLDER = RESULTS / "gpu"
LINK = Logit(3.0, 1.0)
# n, d, dtype, C; C is that of columns of unit variance
CASES = [
    (4_000, 4_000, "float32", 0.01),
    (4_000, 4_000, "float64", 0.01),
    (20_000, 4_096, "float32", 0.01),
    (100_000, 8_192, "float32", 0.01),
    (100_000, 8_192, "float32", 1.0),
    (100_000, 100_000, "float32", 0.001),
    (100_000, 100_000, "float32", 0.01),
]
REPEATS = 5
LARGEST_HOST_ENTRIES, LARGEST_EXACT_ENTRIES = 1_000_000_000, 20_000_000


def draw(n: int, d: int, dtype: torch.dtype, device: str, seed: int = 0) -> Any:
    """(X, y, w*) on the device, rows in blocks so that nothing of X's size is made twice."""
    generator = torch.Generator(device=device).manual_seed(seed)
    weights = torch.randn(d, generator=generator, device=device, dtype=dtype)
    weights /= weights.norm()
    X = torch.empty((n, d), device=device, dtype=dtype)
    signal = torch.empty(n, device=device, dtype=dtype)
    step = max(1, 200_000_000 // d)
    for start in range(0, n, step):
        block = X[start : start + step]
        block.normal_(generator=generator)
        signal[start : start + step] = block @ weights
    p = torch.sigmoid(LINK.scale * signal + LINK.offset)
    y = (torch.rand(n, generator=generator, device=device, dtype=dtype) < p).to(torch.int64)
    return X, y, weights


def timed(function: Callable[[], Any], device: str, repeats: int) -> tuple[list[float], Any]:
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    return stopwatch(function, repeats, wait)


def passes_in_half(function: Callable[[], Any]) -> int:
    """Passes over a copy in half precision that a call takes."""
    usual, counts = HalfTensorRows._count, [0]

    def counted(self: HalfTensorRows, products: int) -> None:
        counts.append(products)
        usual(self, products)

    HalfTensorRows._count = counted  # type: ignore[method-assign]
    try:
        function()
    finally:
        HalfTensorRows._count = usual  # type: ignore[method-assign]
    return sum(counts)


def bandwidth(X: torch.Tensor, device: str) -> float:
    """Bytes of X per second in X @ v and Xᵀ @ u, the products that the fit consists of."""
    v = torch.ones(X.shape[1], device=device, dtype=X.dtype)
    u = torch.ones(X.shape[0], device=device, dtype=X.dtype)

    def both() -> Any:
        return X @ v, X.T @ u

    timed(both, device, 2)
    seconds, _ = timed(both, device, 5)
    return 2 * X.element_size() * X.numel() / float(np.median(seconds))


def measure(n: int, d: int, name: str, C: float, device: str) -> dict[str, object]:
    X, y, weights = draw(n, d, getattr(torch, name), device)
    model = LogisticRegression(C=C, tol=1e-4)

    def fit(**options: Any) -> Any:
        return AngularCalibratedClassifier(model, **options).fit(X, y)

    rate = bandwidth(X, device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    timed(fit, device, 1)
    seconds, found = timed(fit, device, REPEATS)
    known = fit(link=LINK)
    predict_seconds, _ = timed(lambda: found.predict_proba(X), device, REPEATS)
    coef = found.coef_[0]
    cosine = float((coef @ weights) / coef.norm())
    grid = np.linspace(-3, 3, 61) * float(coef.norm()) + float(found.intercept_[0])
    truth = LINK.smooth(
        cosine * (grid - float(found.intercept_[0])) / float(coef.norm()), np.sqrt(1 - cosine**2)
    )
    size = X.element_size() * X.numel()
    half = passes_in_half(fit)
    floor = (found.passes_ - 0.5 * half) * size / rate
    row = {
        "n": n,
        "d": d,
        "dtype": name,
        "C": C,
        "seconds": round(float(np.median(seconds)), 4),
        "slowest": round(max(seconds), 4),
        "passes": found.passes_,
        "passes_in_half": half,
        "newton_steps": int(found.estimator_.n_iter_[0]),
        "bandwidth_GBps": round(rate / 1e9, 1),
        "floor_seconds": round(floor, 4),
        "over_floor": round(float(np.median(seconds)) / floor, 2),
        "predict_seconds": round(float(np.median(predict_seconds)), 4),
        "peak_GB": round(torch.cuda.max_memory_allocated() / 1e9, 2) if device == "cuda" else "",
        "X_GB": round(size / 1e9, 2),
        "cosine_true": round(cosine, 4),
        "cosine_known_link": round(known.angle_.cosine, 5),
        "cosine_se": round(known.angle_.standard_error, 4),
        "curve_error": round(float(np.abs(found.curve_.predict(grid) - truth).mean()), 5),
        "cosine_host": "",
        "cosine_exact": "",
    }
    if n * d <= LARGEST_HOST_ENTRIES:
        # The same algorithm in double precision on the CPU, and the factorization.
        host = AngularCalibratedClassifier(model, link=LINK).fit(X.double().cpu(), y.cpu())
        row["cosine_host"] = round(host.angle_.cosine, 5)
    if n * d <= LARGEST_EXACT_ENTRIES:
        with sklearn.config_context(array_api_dispatch=False):
            exact = AngularCalibratedClassifier(
                LogisticRegression(C=C, tol=1e-8, max_iter=5000),
                link=LINK,
                angle="loo",
                observables="exact",
            ).fit(X.double().cpu().numpy(), y.cpu().numpy())
        row["cosine_exact"] = round(exact.angle_.cosine, 5)
    return row


def profile(n: int, d: int, C: float, device: str) -> None:
    """Print where the time of a fit goes, after three to warm up."""
    with sklearn.config_context(array_api_dispatch=True):
        X, y, _ = draw(n, d, torch.float32, device)
        model = AngularCalibratedClassifier(LogisticRegression(C=C))
        timed(lambda: model.fit(X, y), device, 3)
        seconds, _ = timed(lambda: model.fit(X, y), device, REPEATS)
        print("seconds", sorted(round(s, 4) for s in seconds))
        found = cProfile.Profile()
        found.runcall(model.fit, X, y)
    for key, lines in (("cumtime", 45), ("tottime", 25)):
        pstats.Stats(found).sort_stats(key).print_stats(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--small", action="store_true", help="only cases below 100 MB")
    parser.add_argument("--profile", nargs=3, metavar=("N", "D", "C"), help="profile one fit")
    options = parser.parse_args()
    if options.profile:
        n, d, C = options.profile
        profile(int(n), int(d), float(C), options.device)
        return
    rows = []
    with sklearn.config_context(array_api_dispatch=True):
        for n, d, name, C in CASES:
            if options.small and n * d > 20_000_000:
                continue
            rows.append(measure(n, d, name, C, options.device))
            print(rows[-1], flush=True)
            if options.device == "cuda":
                torch.cuda.empty_cache()
    write(rows, options)


def write(rows: list[dict[str, object]], options: argparse.Namespace) -> None:
    about = {
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "repeats": REPEATS,
    }
    write_text(options.out / "results.json", json.dumps(about, indent=1) + "\n")
    write_text(options.out / "results.csv", as_csv(rows))


if __name__ == "__main__":
    main()
