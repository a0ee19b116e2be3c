"""σ(t) = base(scale·t + offset): inverse links and their Gaussian smoothing E σ(mean + sd·Z).

The calibrated probability of a score s at angle cosine c is the link smoothed by the
part of the signal that the score does not see: E σ(c·s + √(1−c²)·Z), Z ~ N(0, 1).
Every family here evaluates that expectation to an absolute error below 1e-10.
"""

from __future__ import annotations

from angcal.links.base import Link
from angcal.links.families import (
    CallableLink,
    Cauchit,
    ClippedLinear,
    ComplementaryLogLog,
    Logit,
    Probit,
)

__all__ = [
    "LINKS",
    "CallableLink",
    "Cauchit",
    "ClippedLinear",
    "ComplementaryLogLog",
    "Link",
    "Logit",
    "Probit",
    "as_link",
]

LINKS: dict[str, type[Link]] = {
    family.family: family for family in (Logit, Probit, ComplementaryLogLog, Cauchit, ClippedLinear)
}
"""Name -> family, for the families that need no further argument."""


def as_link(obj: object) -> Link:
    """Link, name or callable -> Link.

    Parameters
    ----------
    obj : Link, str or callable
        A link (returned as it is), one of the names in :data:`LINKS`, or a function that
        maps an array to probabilities of the same shape (becomes a `CallableLink`).

    Returns
    -------
    Link
        With scale 1 and offset 0 where `obj` was a name or a function.

    See Also
    --------
    Link : What every link can do.

    Examples
    --------
    >>> import numpy as np
    >>> as_link("probit")
    Probit(scale=1.0, offset=0.0)
    >>> as_link(lambda t: 0.5 + 0.4 * np.tanh(t)).name
    'callable:<lambda>'
    """
    if isinstance(obj, Link):
        return obj
    names = ", ".join(repr(name) for name in LINKS)
    if isinstance(obj, str):
        if obj not in LINKS:
            raise ValueError(
                f"link={obj!r} is not a known name. Use one of {names}, a Link, or a function."
            )
        return LINKS[obj]()
    if isinstance(obj, type):
        raise TypeError(
            f"link={obj.__name__} is a class, not a link. Pass an instance: {obj.__name__}(...)."
        )
    if callable(obj):
        return CallableLink(obj)
    raise TypeError(
        f"link={obj!r} of type {type(obj).__name__} is not a link. "
        f"Use one of {names}, a Link, or a function from arrays to probabilities."
    )
