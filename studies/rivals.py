"""Classifiers that need no held-out labels either: evidence, bbai, LDA, SVM, elastic net, TabPFN.

Each takes labeled rows and labels 0 and 1, and returns P(y = 1) of other rows. All but TabPFN are
linear.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.svm import LinearSVC

from angcal._typing import Floats
from angcal.arrays import dense
from studies.peers.methods import Folds


def evidence(X: Any, y: np.ndarray, X_new: Any, moderated: bool = True) -> Floats:
    """Ridge at the largest Laplace evidence.

    log p(y | C) ≈ −Σℓ − ‖w‖²/2C − ½log|I + C·W^½KW^½| − ½log(1 + 25·sᵀ(I + C·W^½KW^½)⁻¹s),
    W = p(1 − p), s = W^½1, the last term being that of an intercept with a prior deviation of 5.
    Moderated probabilities are MacKay's p = σ(u/√(1 + πv/8)), v the posterior variance of a row's
    score; the others are σ(u).
    """
    rows, center = dense(X), dense(X).mean(axis=0)
    _, lengths, Vt = linalg.svd(rows - center, full_matrices=False)
    Vt = Vt[lengths > 1e-9 * lengths[0]]
    Z, Z_new = (rows - center) @ Vt.T, (dense(X_new) - center) @ Vt.T
    K, best, answer = Z @ Z.T, -np.inf, np.full(len(Z_new), y.mean())
    for C in np.geomspace(4.0, 4e6, 20) / np.trace(K):
        model = LogisticRegression(C=C, tol=1e-6, max_iter=1000).fit(Z, y)
        u, w = model.decision_function(Z), model.coef_[0]
        root = np.sqrt(expit(u) * expit(-u))
        factor = linalg.cholesky(np.eye(len(y)) + C * root[:, None] * K * root, lower=True)
        level = linalg.solve_triangular(factor, root, lower=True)
        found = -np.logaddexp(0.0, -(2.0 * y - 1.0) * u).sum() - 0.5 * float(w @ w) / C
        found -= np.log(np.diag(factor)).sum() + 0.5 * np.log(1.0 + 25.0 * float(level @ level))
        if found > best:
            best, scores = found, model.decision_function(Z_new)
            half = linalg.solve_triangular(factor, root[:, None] * (Z @ Z_new.T), lower=True)
            variance = C * np.sum(Z_new**2, axis=1) - C**2 * np.sum(half**2, axis=0)
            noise = np.sqrt(1.0 + np.pi / 8.0 * np.maximum(variance, 0.0) * moderated)
            answer = expit(scores / noise)
    return answer


def by_bbai(X: Any, y: np.ndarray, X_new: Any) -> Floats:
    """bbai: ridge at the optimum of approximate leave-one-out likelihood."""
    model = import_module("bbai.glm").LogisticRegression()
    model.fit(dense(X), y)
    return np.asarray(model.predict_proba(dense(X_new)))[:, 1]


def shrunken_lda(X: Any, y: np.ndarray, X_new: Any) -> Floats:
    """Linear discriminants with Ledoit and Wolf's covariance, and their own probabilities."""
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(dense(X), y)
    return np.asarray(model.predict_proba(dense(X_new)))[:, 1]


def linear_svm(X: Any, y: np.ndarray, X_new: Any) -> Floats:
    """A linear support vector machine, C chosen by five folds, with Platt scaling on folds."""
    found = []
    for C in np.geomspace(1e-6, 1.0, 7):
        base = LinearSVC(C=C, max_iter=5000, random_state=0)
        model = CalibratedClassifierCV(base, method="sigmoid", cv=Folds(), ensemble=False)
        losses = []
        for kept, left in Folds().split(X, y):
            p = np.clip(model.fit(X[kept], y[kept]).predict_proba(X[left])[:, 1], 1e-6, 1.0 - 1e-6)
            losses.append(-np.mean(np.log(np.where(y[left] == 1, p, 1.0 - p))))
        found.append((float(np.mean(losses)), C, model))
    return min(found, key=lambda each: each[:2])[2].fit(X, y).predict_proba(X_new)[:, 1]


def elastic_net(X: Any, y: np.ndarray, X_new: Any) -> Floats:
    """LogisticRegressionCV over seven C and three ℓ₁ ratios, five folds."""
    model = LogisticRegressionCV(
        Cs=np.geomspace(1e-3, 10.0, 7),
        l1_ratios=(0.0, 0.5, 1.0),
        solver="saga",
        cv=Folds(),
        scoring="neg_log_loss",
        max_iter=100,
        tol=1e-3,
        random_state=0,
        use_legacy_attributes=False,
    )
    return np.asarray(model.fit(X, y).predict_proba(X_new))[:, 1]


def by_tabpfn(X: Any, y: np.ndarray, X_new: Any) -> Floats:
    """TabPFN 1 with four views of the rows: at most 1,000 of them, 100 columns by their PCA."""
    model = import_module("tabpfn.scripts.transformer_prediction_interface").TabPFNClassifier(
        device="cpu", N_ensemble_configurations=4
    )
    rows, new, most = dense(X), dense(X_new), 100
    if rows.shape[1] > most:
        axes = PCA(min(most, *rows.shape), random_state=0).fit(rows)
        rows, new = axes.transform(rows), axes.transform(new)
    if len(rows) > 1000:
        raise ValueError(f"{len(rows)} rows are more than the 1,000 that TabPFN 1 is made for")
    model.fit(rows, y)
    parts = np.array_split(new, max(1, len(new) // 1000))
    return np.concatenate([np.asarray(model.predict_proba(part))[:, 1] for part in parts])


RIVALS = {
    "ridge by Laplace evidence": evidence,
    "shrunken LDA": shrunken_lda,
    "linear SVM, Platt scaling, tuned": linear_svm,
    "elastic net, LogisticRegressionCV": elastic_net,
} | ({"bbai": by_bbai} if find_spec("bbai") else {})
"""Those whose packages are there, by name."""
