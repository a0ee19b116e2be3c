"""Every size at which the work is done another way, and every accuracy that is asked of it.

Numbers live here and nowhere else in the core, each with the reason or the measurement that chose
it. Times were taken on two cores with 16 GB (``make bench``, docs/speed.md).
"""

from __future__ import annotations

# -- blocks of rows --------------------------------------------------------------------------

BLOCK_ENTRIES = 2_000_000
"""Entries of a dense block (16 MB): Gram matrices run at full speed from there on. Squares of a
design up to this size are kept for all penalties of a path, and vectors of more rows are gathered
part by part."""
CACHE_ENTRIES, DEVICE_ENTRIES = 1 << 18, 1 << 28
"""Entries of temporary arrays that are to stay in the cache (2 MB), and of blocks on a GPU. So many
panels of a quadrature, and what it integrates is noise that no subdivision resolves."""
PIECE_ENTRIES = 1 << 19
"""Entries of a piece that is multiplied there and back while it is in the cache: 2 MB in single
precision. Of 2^17 to 2^20 the best with two threads of BLAS, and as good as any with one."""
KEPT_BYTES = (1 << 25) - (1 << 16)
"""Size of a block after which the C library keeps twice as much of freed memory, the largest that
it learns from: 800×384 takes 1 to 3 ms less, and 100,000×8,192 on a GPU, whose vectors are on the
host, some 12 of 85."""
TRIANGLE_BLOCKS = 8
"""Blocks of rows by which a triangle is multiplied: at side 1,000, two to thirty columns take 0.7
to 0.65 of the time, and as much with six."""
FEW_COLUMNS = 4
"""Columns up to which a product for each is faster, piece by piece: two take 8 ms in place of 24 at
100,000×500 in single precision, four 12 in place of 26."""
PRODUCT_ENTRIES = 50_000_000
"""Entries of X̃V, or of all matrices of a pass, that are held at a time (200 to 400 MB)."""
HALF_ENTRIES = 1 << 29
"""Entries from which a tensor on a GPU gets a copy in half precision: on an H200 a product with it
takes half the time for one column, a fifth for sixteen. At 20,000×4,096 a fit waits for the host,
and takes a tenth longer with it."""
WIDE_TENSOR = 32_768
"""From so many columns on, Xᵀ of a tensor is multiplied as it is: measured on an H200."""

MOST_JUDGED_ROWS = 1000
"""Rows of which it is said that labels are few: with more none of 256 designs lost as much, and
leave-one-out probabilities take time."""
SEARCHED_ROWS = 16.0
"""Times √n: rows among which copies are looked for first. Where a tenth of all rows are copies in
pairs, 12 pairs are among them, of however many rows."""
MOST_PAIRED_ROWS = 2000
"""Rows of which all pairs are looked at for copies (0.05 s), and up to which XXᵀ of a wide X costs
less than the products that it saves a path."""

FEWEST_ROWS = 10
"""Unlabeled rows below which targets are refused and a pool is said to be small: 2 to 5 rows of a
pool left 8 to 12 % of fits of a known link 0.1 nats worse than plain."""
CLEAR = 2.0
"""Standard errors below which a difference is not told from chance, nor the sign of a cosine.

Of 1,557 fits of few rows, 38 had a negative cosine within its error of zero: their curves fell, and
were 0.029 nats worse than plain or the prevalence (0.14 at most), by labels alone 0.001."""

NORMAL_REACH = 8.0
"""Standard deviations beyond which a normal variable counts for nothing: it is there with a
probability of 1e-15. Sums over noise end there, and so do grids and tables of scores."""

# -- fewer columns for a path of ridge penalties ---------------------------------------------

RANK_TOLERANCE = 1e-13
"""Eigenvalues of a Gram matrix below this share of the largest are rounding."""

# -- the pool's spectrum ---------------------------------------------------------------------

LARGEST_SPECTRUM_SIDE = 1500
"""Columns up to which all eigenvectors of the pool's covariance are taken (about a second)."""
LEADING_DIRECTIONS = 500
"""Of wider rows, so many directions of the largest eigenvalues, and an even remainder."""

# -- exact or sampled leverages --------------------------------------------------------------

SMALLEST_SAMPLED_SIDE = 600
"""Side of X below which a factorization costs no more than the passes it saves."""
LARGEST_EIGENVALUE = 11.0
"""Of a Hessian with unit diagonal, beyond which a design of up to `LARGE_SIDE` is factorized.
Gaussian rows have up to 10; of 24 fits to real rows with more than 11 the sampled rows did for 2
only, after three to five rounds, and a factorization in single precision takes less."""
LARGEST_FACTORIZED_SIDE = 40_000
"""Beyond (13 GB) a factorization is not begun unasked, where sampling fails."""
SMALL_SIDE, LARGE_SIDE = 1000, 4000
"""Sides up to which a matrix X̃ᵀDX̃ and its factorization are no burden, and up to which they are
less of one than a hundred passes over files or several rounds of sampled rows.

A factorization of the first is as fast with one thread as with several, and as sums of NumPy's
products, which take a second matrix. On rows that are read anew Newton's method then takes five
passes and no more, but d products for each entry: at 200,000×500 that costs the CPU seconds of
Newton-CG with sampled rows, at 50,000×4,000 ten times as many."""
SMALLEST_SINGLE_SIDE = 128
"""Below this side factorizations and eigenbases in double precision take next to no time."""
BATCH_PRODUCTS = 8_000_000
"""Products (n·k²) up to which inverses are so small that all are taken at once."""
QUICK_PRODUCTS = 500_000_000
"""Products that take a twentieth of a second. With so many (n·k²·K, for all penalties) every class
has leverages of its own; beyond, all share steps γ. On embeddings and images that moves the
log-loss by less than 1 %; on few collinear columns (leaf shapes) by much more, but these are below
the limit. And rounds for groups may take so many even where leaving one row out takes less."""
MOST_ROUNDS = 8
"""Rounds of the steps that all classes share, as for groups. Strong penalties need one or two; weak
ones on separable rows need more: at one round their steps are half of what they should be, and the
leave-one-out loss of 10 classes is 1.18 where refits have 1.53."""
GROUP_TOLERANCE = 5e-3
"""What rounds may leave open of leave-group-out scores, as a share of their spread, so that 1 % is
kept in most samples of groups (studies/groups.py)."""
GROUP_ROW_PRODUCTS = 150
"""Products that cost as much as what else a round does to each score of a row of a group."""
SAMPLED_CLASSES = 3
"""Classes whose own steps say by how much shared ones are off."""
MOST_SHIFTED_CLASSES = 200
"""Classes up to which each has an offset and a slope of its own: their information is a matrix of
twice that side, from n·4K² products."""
KNOT_GAP = 2.1
"""Of log λ, between penalties of a path whose leverages are computed; the others are splines, which
move the leave-one-out loss of text, advertisements and molecules by up to 1, 0.5 and 0.7 %."""

# -- rows that are read anew on every pass ---------------------------------------------------

LARGEST_FAR_STEP = 1e-2
"""Share of the scores' spread that a step may move them by at most for its matrix, which is that of
all rows before the step, to serve for leverages and for what steps remain."""
NEAR_STEP, MOST_STRIDE = 0.5, 4
"""A step up to this share is followed by a look with a matrix of all rows; until then every fourth
row gives one, or as many as make twenty times the columns."""
LADDER, LADDER_STEP = (0.5, 0.75, 1.0, 1.4, 2.0, 2.8), 0.1
"""Shares of a step that are looked at in the same pass, where it is longer than that: Newton's
first steps are too short, as curvatures fall while scores grow."""
LARGEST_SINGLE_INFLATION = 100.0
"""Diagonal of an inverse, of a matrix with unit diagonal, up to which one that was summed in single
precision is good to a few times 1e-5."""
MAPPED_BYTES = 1 << 28
"""Size from which a memory map is read in blocks; a smaller one is an array like any other."""

# -- sampled leverages -----------------------------------------------------------------------

LARGEST_OWN_SHARE = 0.05
"""Of a column's moment; a row's share up to this moves its form by no more than that."""
DECISIVE_SHARE = 1 / 3
"""Of the rows, those of the largest residuals, are sampled for a path."""
FEWEST_DIRECTIONS, SKETCH_SHARE = 64, 24
"""Directions of a sketch of leverages, at least, and columns for each: a tenth of their products.
On molecules and images that moves the leave-one-out loss by 0.1 % at most, and a fit takes a fifth
less."""
SKETCHED_MOVE, SKETCHED_SHARE = 0.01, 0.2
"""What the standard error of a sketch may move a score by, as a share of the spread of all scores,
and hD up to which γ is as good as h."""
SIGN_PROBES = 2
"""Random signs for a trace."""
STEP_TOLERANCE = 0.6
"""γ may be off by this share over √n: that moves the curve by less than half of its error, which
makes the answer worse by less than a tenth of a standard error."""
FORM_TOLERANCE, GRADIENT_TOLERANCE = 7e-3, 5e-3
"""Shares of a quadratic form that conjugate gradients may leave, for a row and for the gradient."""
SAMPLED_FROM = 4096
"""Rows, drawn at random, that are ordered by size to sample from evenly."""
LARGEST_SCATTER = 0.15
"""Rows whose γ_i/q_i scatter by more than this are not predicted by their sizes."""
SEED = 20_250_915


def takes_eigenbasis(side: int, correlated: bool = False) -> bool:
    """Whether an eigenbasis of this side of X costs less than the iterations that it saves.

    It saves more where columns are `correlated`: where the largest eigenvalue is five times what
    independent entries would have. Images, molecules and advertisements have 9 to 43 times that,
    Gaussian rows of correlation 0.5 have 1.6.
    """
    return side <= (2000 if correlated else 512)


def takes_gram(n: int, d: int) -> bool:
    """Whether XXᵀ costs less than the products it saves."""
    return n <= MOST_PAIRED_ROWS and d >= 1.5 * n


def fits_single(n: int, d: int) -> bool:
    """Whether X is copied in single precision for a factorization: up to 400 MB."""
    return n * d <= 100_000_000


def samples(n: int, d: int) -> bool:
    """Whether leverages of so many rows and columns are sampled rather than factorized."""
    # From a side half as long on where the other side is long.
    long = n * d >= 5_000_000
    return min(n, d) >= (SMALLEST_SAMPLED_SIDE // 2 if long else SMALLEST_SAMPLED_SIDE)


def takes_matrices(d: int, streamed: bool) -> bool:
    """Whether passes over far rows bring back matrices of side d, and leverages are exact."""
    return d <= (LARGE_SIDE if streamed else SMALL_SIDE)


def penalties_at_once(n: int, d: int, n_classes: int) -> int:
    """Penalties on far rows that have vectors at a time, where they need them.

    Some 16 for each score: at most an eighth of X together, or 32 MB.
    """
    entries = max(n * d // 8, 2 * BLOCK_ENTRIES)
    return max(1, entries // (16 * n * (n_classes if n_classes > 2 else 1)))


def last_step(n: int, width: int) -> float:
    """Share of the scores' spread up to which the matrix before a step serves for leverages.

    What such a step changes of a leverage of about d/n is that share of it: no probability moves by
    1e-6 (measured: by 0.1 to 0.8 × step × d/n).
    """
    return min(LARGEST_FAR_STEP, max(1e-6, 1e-6 * n / width))


def separates_classes(n: int, k: int, n_classes: int, m: int = 1) -> bool:
    """Whether every class of so many rows, columns and fits has leverages of its own."""
    # Steps that few classes share take as many factorizations: of some rounds and some classes.
    few = n_classes < 2 * SAMPLED_CLASSES
    return few or n * k * k * n_classes * m <= QUICK_PRODUCTS


def rows_of_map(n_classes: int) -> int:
    """Rows that a map is fitted to on a device.

    A million scores (rows × classes) where it has offsets, 400,000 where it is one slope: 400 rows
    of 1,000 classes know that to 3 %, which costs 0.02 % of the log-loss.
    """
    entries = 1_000_000 if n_classes <= MOST_SHIFTED_CLASSES else 400_000
    return max(1, entries // n_classes)


def rows_at_first(n: int, d: int, m: int = 1) -> int:
    """Rows of the first round of sampling, for m problems at once."""
    if m > 1:
        # With the farthest row and three or four problems about 30 columns, which products like.
        return 9 if m <= 3 else 7
    # Places are kept for the farthest row, the gradient and the probes of a trace, so that the
    # rows do not depend on whether there is a gradient.
    return rows_at_once(n, d) - 2 - (SIGN_PROBES if n > d else 0)


def rows_at_once(n: int, d: int) -> int:
    """Rows of each further round.

    So few right-hand sides cost hardly more than one, and a large X, which comes from memory, is
    read for some more at the same price.
    """
    return 16 if n * d > 1_000_000 else 12


def most_rows(n: int) -> int:
    """Rows after which sampling ends, however uncertain it still is."""
    return min(64, n // 2)
