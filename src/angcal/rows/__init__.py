r"""X̃ = [X 1]: the rows of a design with their intercept column, wherever they are stored.

Every algorithm above this module is written once, for any storage, with two verbs:

    rows.sum(f, shared, vectors)    Σ_b f(X_b, *shared, *v_b): gradients, Gram matrices, moments
    rows.map(f, shared, vectors)    the same, stacked: one value or line per row

over blocks of rows, v_b the block's part of vectors that have an entry or a line for each row; and
the products that follow from them,

    forward(V)     X̃V                (n, k)
    backward(U)    X̃ᵀU               (d + 1, k), its last line that of the intercept
    curve(V, D)    X̃ᵀDX̃V             both in one pass

Storages: :class:`DenseRows` (NumPy), :class:`SparseRows` (SciPy), :class:`TensorRows` (any library
that follows the array API, on any device), :class:`RotatedRows` (the same inner products in fewer
columns, for ridge penalties) and :class:`FarRows`, which are read anew on every pass:
:class:`BlockRows` (memory maps, lists of blocks, callables) and those of :mod:`angcal.dask`.
"""

from angcal.rows.base import Rows, added
from angcal.rows.far import BlockRows, FarRows, Stacked, dense_parts, times_columns
from angcal.rows.memory import DenseRows, RotatedRows, SparseRows
from angcal.rows.rotation import column_basis, rotate, rows_of_gram
from angcal.rows.storage import as_rows
from angcal.rows.tensors import ScaledTensorRows, TensorRows

__all__ = [
    "BlockRows",
    "DenseRows",
    "FarRows",
    "RotatedRows",
    "Rows",
    "ScaledTensorRows",
    "SparseRows",
    "Stacked",
    "TensorRows",
    "added",
    "as_rows",
    "column_basis",
    "dense_parts",
    "rotate",
    "rows_of_gram",
    "times_columns",
]
