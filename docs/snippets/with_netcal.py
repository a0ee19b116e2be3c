"""netcal: Platt scaling on a quarter of the labels."""

from netcal.scaling import LogisticCalibration
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from task import X_new, X_train, y_train

X_fit, X_held, y_fit, y_held = train_test_split(
    X_train, y_train, test_size=0.25, stratify=y_train, random_state=0
)
model = LogisticRegression(max_iter=1000).fit(X_fit, y_fit)
calibrator = LogisticCalibration()
calibrator.fit(model.predict_proba(X_held)[:, 1], y_held)
p = calibrator.transform(model.predict_proba(X_new)[:, 1])
