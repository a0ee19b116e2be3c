"""Sphinx: the site from the Markdown pages of this folder and the package's docstrings.

``python -m sphinx -W -b html docs build/site`` builds it; nothing is fetched from the network.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx import addnodes

import angcal

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]  # for mathml, and for studies.datasets

project = "angcal"
author = "The angcal developers"
project_copyright = "The angcal developers"
version = release = angcal.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["build"]
html_extra_path = ["explore"]  # the interactive page, with its scripts
# A fence without a language is a command or its output.
highlight_language = "text"

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
html_math_renderer = "mathml"
myst_heading_anchors = 3

numpydoc_show_class_members = False  # they are on the page
default_role = "py:obj"  # `name` in a docstring is a link where there is such a name
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
templates_path = ["_templates"]

# Pictures of displays beside their names: docs/display_pictures.py.
plot_basedir = str(DOCS)
plot_formats = [("png", 160)]
plot_html_show_formats = plot_html_show_source_link = False

# The course: each program of examples/ is run; its pictures and printed lines are below its code.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "course",
    "within_subsection_order": "FileNameSortKey",  # the course is numbered
    "abort_on_example_error": True,
    "capture_repr": (),  # what is printed, and no more
    "backreferences_dir": "course/backreferences",
    "doc_module": ("angcal",),
    "reference_url": {"angcal": None},
    # No run times and no archives: the same page from every build.
    "min_reported_time": float("inf"),
    "write_computation_times": False,
    "download_all_examples": False,
    "show_signature": False,
    "image_srcset": ["2x"],
}

html_theme = "furo"
html_title = f"angcal {version}"
html_static_path = ["_static"]
html_css_files = ["angcal.css"]
html_copy_source = False
html_show_sphinx = False

# Types are said in words; a word that happens to be an attribute somewhere is not a link to it.
suppress_warnings = ["ref.python"]

# |x| is an absolute value in these docstrings; reStructuredText would take it for a substitution.
BAR = re.compile(r"(?<!\\)\|")
LITERAL = re.compile(r"(``.*?``)")
CITATION = re.compile(r"(?:\.\. )?(\[\d+\])_?")
EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(plot_\w+)\.py\)")
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


def course_links(app: Any, docname: str, source: list[str]) -> None:
    """Let links to a program of the course, as a repository shows them, lead to its page."""
    pages = EXAMPLE.sub(r"](/course/\1.rst)", source[0])
    source[0] = pages.replace("](../examples/GALLERY_HEADER.rst)", "](/course/index.rst)")


def shallow_tree(app: Any, env: Any) -> None:
    """Let the side bar end at the groups of the reference; each lists its objects on its own page.

    Sphinx and furo build the whole tree anew for every page: with the objects, most of the time.
    """
    for group in (name for name in env.tocs if re.fullmatch(r"api/(?!index)\w+", name)):
        for entry in list(env.tocs[group].findall(addnodes.toctree)):
            entry.parent.remove(entry)


def skip_member(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds; its docstrings point into its own site."""
    routed = name.startswith("set_") and name.endswith("_request")
    return True if routed or name in INHERITED else None


def setup(app: Any) -> None:
    """Docstrings are changed before napoleon, which has priority 500."""
    app.connect("autodoc-process-docstring", process_docstring, priority=400)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("source-read", course_links)
    app.connect("env-updated", shallow_tree)
