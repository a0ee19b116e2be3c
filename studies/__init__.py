"""Studies of angcal, run from the repository: ``python -m studies --help``.

`datasets` loads the real data; `engine` runs trials, keeps their rows and presents them; `paper`
re-runs Li & Sur (NeurIPS 2025); `peers` compares with other calibrators on real labels;
`side_by_side` compares what users write; `angles` judges the angle itself; `speed` takes the time.
Rows, tables and pictures are in ``studies/results``.
"""

from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
"""Folder of what the studies have left."""
