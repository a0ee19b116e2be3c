"""Where the time of a fit on the device goes: ``python -m studies.speed.gpu_profile N D C``."""

from __future__ import annotations

import cProfile
import pstats
import sys
import time

import sklearn
import torch
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier
from studies.speed.gpu import draw

LINES = 45


def main() -> None:
    n, d, C = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with sklearn.config_context(array_api_dispatch=True):
        X, y, _ = draw(n, d, torch.float32, device)
        model = AngularCalibratedClassifier(LogisticRegression(C=C))
        for _ in range(3):
            model.fit(X, y)
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            model.fit(X, y)
            seconds.append(time.perf_counter() - start)
        print("seconds", sorted(round(s, 4) for s in seconds))
        profile = cProfile.Profile()
        profile.runcall(model.fit, X, y)
    pstats.Stats(profile).sort_stats("cumtime").print_stats(LINES)
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
