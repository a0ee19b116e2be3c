r"""Two intervals of a probability: where the curve may lie, and where the row's own one may.

**Of the curve.** F(s), the calibrated probability of rows with score s, is known as well as n
labels tell slope and offset. On the scale of the logit it is nearly normal, with the mean and the
variance that :mod:`angcal.link_posterior` gives it,

    logit F(s) ~ N(m, t·E[V·(∂logit F/∂β)²] + t·(1 + C/I)·Var(logit F))

The first part is the offset's, the second that of slope and noise; t is the power with which labels
count there, and undone here. 1 + C/I is what leave-one-out scores that depend on each other add to
the variance of a slope (:func:`~angcal.angle.loo_information`); an offset has no such part, because
residuals sum to zero. At a known link the cosine is all there is to know, and its standard error is
the source of the variance.

**Of the row.** Given the score, the true index is normal, so that a row's own probability is

    P(y = 1 | x) = base(a·s + β + τZ),   a = κc,  τ = κ√(1 − c²)

and its quantiles are base of those of a mixture of normals over what is known of (a, β, τ). Where
labels alone leave the angle open that mixture is wide; a covariance or a pool narrows it.

**Three and more classes.** The same by draws with a fixed seed from the posterior of the map
softmax(h) (:mod:`angcal.multiclass.posterior`). For a row h is stretched to √(1 + τ²/3)·h and gets
noise of standard deviation τ back, which leaves its mean probability as it is.

**Averages** of several models have the mixture of their models' laws, each with its share.
"""

from angcal.intervals.ends import (
    TABLE_NODES,
    check_interval,
    interval,
    interval_law,
    table_of_ends,
)
from angcal.intervals.mixture import Law, Mixture, pooled
from angcal.intervals.two_classes import TwoClassLaw

__all__ = [
    "TABLE_NODES",
    "Law",
    "Mixture",
    "TwoClassLaw",
    "check_interval",
    "interval",
    "interval_law",
    "pooled",
    "table_of_ends",
]
