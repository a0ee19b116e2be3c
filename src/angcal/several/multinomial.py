"""Old names, until everything imports the new ones."""
from angcal.losses import contrasts, index_map, softmax_curvatures  # noqa: F401
