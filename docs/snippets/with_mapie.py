"""MAPIE: Venn-ABERS with its own holdout, a third of the labels."""

from mapie.calibration import VennAbersCalibrator
from sklearn.linear_model import LogisticRegression
from task import X_new, X_train, y_train

base = LogisticRegression(max_iter=1000)
model = VennAbersCalibrator(base, random_state=0).fit(X_train, y_train, stratify=y_train)
p = model.predict_proba(X_new)[:, 1]
