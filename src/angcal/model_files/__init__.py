"""Internals of :mod:`angcal.persistence`: how a model file is built, and what it may hold.

``container`` is the outside, the same for every model file: a zip archive of parts with limits, a
checksum and perhaps a signature. ``plain`` writes a model as one JSON tree and NumPy arrays, which
need no unpickler. ``check`` says which types a model may be made of, and looks at arrays and
numbers before a model is used.
"""
