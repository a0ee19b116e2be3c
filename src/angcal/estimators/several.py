"""Three and more classes: the part of AngularCalibratedClassifier that works in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from angcal._typing import Floats, Matrix
from angcal.arrays import product
from angcal.estimators.one_fit import (
    ARRAY_RULES,
    LARGEST_DISTANCE,
    OneFitCalibrator,
    warn_about_repeats,
)
from angcal.links.multiclass import SeveralLink, Softmax
from angcal.multiclass import MapChoice, calibrate_several, read_heads
from angcal.notices import OptimalityWarning, warn
from angcal.sklearn_problems import unwrap


class SeveralClasses(OneFitCalibrator):
    """Fit and predict for three and more classes; what a subclass has are its options."""

    _knows_several = True
    # Two classes and several leave results of different types here.
    observables_: Any
    angle_: Any
    link_: Any
    calibration_: MapChoice
    link: Any
    angle: str | float
    covariance: Any
    pool: Any
    sign_holdout: Any
    confidence: float

    def _takes_several(self) -> bool:
        """Not with a link of one index."""
        ours = self.link is None or isinstance(self.link, SeveralLink) or self.link == "logit"
        return ours and super()._takes_several()

    def _softmax(self) -> Softmax | None:
        """The link as a softmax of the classes at hand, or None where all of it is estimated."""
        K = len(self.classes_)
        if not isinstance(self.link, SeveralLink):
            return None
        if not isinstance(self.link, Softmax):
            raise ValueError(
                f"link={type(self.link).__name__}(...) is no link of {K} classes; leave it None, "
                "or pass angcal.links.multiclass.Softmax."
            )
        if self.link.n_classes != K:
            raise ValueError(f"link is a softmax of {self.link.n_classes} classes; y has {K}.")
        if self.link.covariance is None and np.any(self.link.offset):
            raise ValueError(
                "link is a softmax with an offset but without covariance, and offsets are only "
                "known together with it; pass both, or neither to have them estimated."
            )
        return self.link

    def _refuse_for_several(self, pool: Any) -> None:
        """Name an option that is for two classes, or a link of another number."""
        self._softmax()
        K = len(self.classes_)
        given = {
            "covariance": self.covariance,
            "pool": self.pool if pool is None else pool,
            "sign_holdout": self.sign_holdout,
        }
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} is for two classes, and y has {K}; leave it None.")
        if not (isinstance(self.angle, str) and self.angle in ("auto", "loo")):
            raise ValueError(
                f"angle={self.angle!r} is for two classes, and y has {K}; use 'auto' or 'loo'."
            )
        if self.polish:
            raise ValueError(
                f"polish=True is for two classes, and y has {K}; lower the model's tol instead."
            )

    def _refuse_several_link(self) -> None:
        if isinstance(self.link, SeveralLink):
            raise ValueError(
                f"link={type(self.link).__name__}(...) is for three or more classes, and y has "
                "two; use Logit(scale, offset) or leave it None."
            )

    def _fit_several(self, rows: Matrix, codes: np.ndarray, weights: Floats) -> None:
        """Read the heads, estimate their angles, build the predictor."""
        _, linear = unwrap(self.estimator_)
        heads = read_heads(linear, rows, codes, weights, self.observables)
        # With all weights at zero the scores have no spread to measure by.
        self.distance_to_optimum_ = heads.distance_to_optimum if np.any(heads.coef) else np.nan
        if self.distance_to_optimum_ > LARGEST_DISTANCE:
            way_out = "lower the model's tolerance"
            if self._is_fitted_elsewhere():
                way_out = "pass the rows it was trained on, or fit it with a lower tolerance"
            warn(
                f"The base model is not at the optimum of its objective: its scores would still "
                f"move by {self.distance_to_optimum_:.1%} of their standard deviation. The "
                f"observables assume the optimum; {way_out}.",
                OptimalityWarning,
            )
        self.coef_, self.intercept_ = heads.coef, heads.intercept
        self.observables_ = heads.observables
        warn_about_repeats(rows, heads.followed)
        result = calibrate_several(heads, codes, weights, self._softmax(), self.confidence)
        self.angle_, self.link_, self.curve_ = result.angle, result.link, result.predictor
        self.calibration_ = result.choice
        # A fit on two classes may have left it, and it is theirs alone.
        if hasattr(self, "scale_"):
            del self.scale_

    def _several_scores(self, X: Any) -> Floats:
        """Scores of new rows, one column for each head, in double precision."""
        rows = self._unread_rows(X)
        with np.errstate(invalid="ignore", over="ignore"):
            scores = np.column_stack([product(rows, row) for row in self.coef_]) + self.intercept_
            if not (self.coef_.all() and np.isfinite(scores).all()):
                check_array(rows, estimator=self, input_name="X", **ARRAY_RULES)
        return scores

    def _several_probabilities(self, X: Any) -> Floats:
        return self.curve_.predict(self._several_scores(X))
