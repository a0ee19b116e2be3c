"""Sphinx: the site from the Markdown pages of this folder and the package's docstrings.

``python -m sphinx -W -b html docs build/site`` builds it; nothing is fetched from the network.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import angcal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for studies.datasets

project = "angcal"
author = "The angcal developers"
project_copyright = "The angcal developers"
version = release = angcal.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["build"]
html_extra_path = ["explore"]  # the interactive page, with its scripts
# A fence without a language is a command or its output.
highlight_language = "text"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes as one list, like parameters
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
autosummary_generate = False  # a page per module has them all

html_theme = "furo"
html_title = f"angcal {version}"
html_copy_source = False
html_show_sphinx = False

# Types are said in words; a word that happens to be an attribute somewhere is not a link to it.
suppress_warnings = ["ref.python"]

# |x| is an absolute value in these docstrings; reStructuredText would take it for a substitution.
BAR = re.compile(r"(?<!\\)\|")
LITERAL = re.compile(r"(``.*?``)")
CITATION = re.compile(r"(?:\.\. )?(\[\d+\])_?")
INHERITED = {"get_metadata_routing", "get_params", "set_params"}


def plain(text: str) -> str:
    """Bars and numbered references as the reader is meant to see them."""
    return CITATION.sub(r"\1", BAR.sub(r"\\|", text))


def process_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Let mathematics in plain text through reStructuredText unharmed."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = LITERAL.split(line)
            lines[number] = "".join(p if p.startswith("``") else plain(p) for p in parts)


def skip_member(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds; its docstrings point into its own site."""
    routed = name.startswith("set_") and name.endswith("_request")
    return True if routed or name in INHERITED else None


def setup(app: Any) -> None:
    """Docstrings are changed before napoleon, which has priority 500."""
    app.connect("autodoc-process-docstring", process_docstring, priority=400)
    app.connect("autodoc-skip-member", skip_member)
