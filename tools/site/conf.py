"""Sphinx for the site: what is fixed by its settings, and hooks for links, code and docstrings."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tools.site import api, hooks, stage  # noqa: E402

stage.main()

project = "burnlike"
version = release = api.VERSION
copyright = "the authors of burnlike"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["images"]
default_role = "code"
smartquotes = False  # it makes one dash of the two of an option
language = "en"
highlight_language = "none"  # a block without a language is an output

myst_heading_anchors = 6
myst_links_external_new_tab = False
suppress_warnings = ["config.cache"]

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_inherit_docstrings = False
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
napoleon_use_ivar = True
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"
add_module_names = False
modindex_common_prefix = ["burnlike."]

html_theme = "pydata_sphinx_theme"
html_title = "burnlike"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_use_index = False
html_domain_indices = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # would be read by requests, which browsers refuse on file://
html_sidebars = {"reference/api/*.*": ["package"]}
html_search_scorer = str(ROOT / "tools/site/static/scorer.js")
html_context = {"default_mode": "auto"}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "primary_sidebar_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}


def setup(app):
    hooks.setup(app)
