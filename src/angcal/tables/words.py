"""Words that may stand for a missing cell, such as NA and None, in the column of classes.

Among numbers they do. Among words, one that recurs may as well be a class: a complication that is
None, Mild or Severe. It is kept as one, and `split_target` and `note_classes` say so.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

DROPPED = "angcal_dropped_words"
"""Under which a frame's ``attrs`` say what stood in cells of the target that count as missing."""
LEAST_RECURRING = 2
CLASSES = {"?", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "None"}
"""Words for nothing that may be classes; others, such as #N/A, are errors of a spreadsheet."""


def keep_words(frame: Any, name: Any, raw: Any) -> None:
    """Put words that recur back into a column of classes, and note those that stay missing.

    Parameters
    ----------
    frame : pandas.DataFrame
        Words for nothing are missing in it.
    name : str
        The column.
    raw : pandas.Series
        What its cells hold, with empty ones missing.
    """
    column = frame[name]
    lost = raw[column.isna() & raw.notna()].map(str).map(str.strip)
    counts = Counter(lost[lost != ""].tolist())
    if not counts:
        return
    present = column.dropna()
    numbers = present.dtype.kind in "iufb" or all(isinstance(cell, bool) for cell in present)
    if not (len(present) and numbers):
        classes = {word for word in CLASSES if counts[word] >= LEAST_RECURRING}
        found = lost[lost.isin(classes)]
        if len(found):
            whole = column.astype(object)
            whole[found.index] = found
            frame[name] = whole
        counts = Counter({word: times for word, times in counts.items() if word not in classes})
    frame.attrs[DROPPED] = {str(name).strip(): dict(counts)}
