"""Arguments that several commands take."""

from __future__ import annotations

import argparse


def seed(text: str) -> int:
    """A seed: a whole number from 0 up."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("a seed is a number from 0 up")
    return number
