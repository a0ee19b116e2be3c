"""``python -m angcal.demo``: the same as ``angcal demo``."""

from angcal.cli.demo import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
