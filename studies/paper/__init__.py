"""The study of Li & Sur (NeurIPS 2025), re-run from a seed: ``python -m studies reproduce``.

`catalogue` lists its results; trials, files and pictures are those of `studies.engine`.
"""
