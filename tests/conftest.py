"""What every test process shares."""

import atexit
import os
import shutil
import tempfile

# matplotlib keeps its list of fonts in the user's home; a list that another program left broken
# there makes figures warn. Workers and child processes of the tests inherit the folder.
if "MPLCONFIGDIR" not in os.environ:
    _folder = tempfile.mkdtemp(prefix="angcal-tests-matplotlib-")
    os.environ["MPLCONFIGDIR"] = _folder
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
