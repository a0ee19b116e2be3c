"""probmetrics: its recommended calibrator on a quarter of the labels."""

from probmetrics.calibrators import get_calibrator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from task import X_new, X_train, y_train

X_fit, X_held, y_fit, y_held = train_test_split(
    X_train, y_train, test_size=0.25, stratify=y_train, random_state=0
)
model = LogisticRegression(max_iter=1000).fit(X_fit, y_fit)
calibrator = get_calibrator("logistic")
calibrator.fit(model.predict_proba(X_held), y_held)
p = calibrator.predict_proba(model.predict_proba(X_new))[:, 1]
