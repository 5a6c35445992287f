"""How the documentation is built: `make docs`. No network is needed, and a warning is an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference_pages
from sphinx.application import Sphinx

import lowtide

project = "Lowtide"
author = "The Lowtide authors"
copyright = author
version = release = lowtide.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
suppress_warnings = ["myst.header"]  # generated pages start where their content starts

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False  # "A `TableScan`: it prints" is one sentence
default_role = "code"  # our docstrings put code into single backticks

html_theme = "furo"
html_title = "Lowtide"
html_static_path = ["_static"]
html_css_files = ["lowtide.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#12607a", "color-brand-content": "#12607a"},
    "dark_css_variables": {"color-brand-primary": "#6fc3dd", "color-brand-content": "#6fc3dd"},
}


def _spare_bars(
    _app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Write `|` so that docutils leaves it alone: in our docstrings it means "given", or a number
    of things.
    """
    lines[:] = [
        "`".join(
            part if k % 2 else part.replace("|", "\\|") for k, part in enumerate(line.split("`"))
        )
        for line in lines
    ]


def _leave_out(
    _app: Sphinx, _what: str, name: str, _obj: object, skip: bool, _options: object
) -> bool:
    """Leave out what scikit-learn adds to every estimator."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def setup(app: Sphinx) -> None:
    """Write the pages that are made from the code, before Sphinx looks for pages."""
    app.connect("autodoc-process-docstring", _spare_bars)
    app.connect("autodoc-skip-member", _leave_out)
    reference_pages.write(Path(app.srcdir) / "reference" / "generated")
