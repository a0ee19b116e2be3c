"""``python -m angcal.cli``: the command ``angcal``."""

import sys

from angcal.cli import main

sys.exit(main())
