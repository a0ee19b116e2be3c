"""Data for a snippet that is run by itself: even against odd digits, 100 labels.

Each file here is what a user of one package writes to get calibrated probabilities ``p`` of the
rows ``X_new``, from ``X_train`` and ``y_train``. The import of this module stands for the reader's
own data and is not counted as a line.

`studies.side_by_side.run` puts other arrays in the place of these.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

_X, _y = load_digits(return_X_y=True)
X_train, X_new, y_train, y_new = train_test_split(
    _X, _y % 2, train_size=100, stratify=_y % 2, random_state=0
)
_scaler = StandardScaler().fit(X_train)
X_train, X_new = _scaler.transform(X_train), _scaler.transform(X_new)
