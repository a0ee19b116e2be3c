"""Old names, until everything imports the new ones."""
from angcal.problem import LinearFit, SeparableDataError, check_separable
from angcal.solvers.minimize import minimize, relative_residual
