"""Settings of Sphinx for the site; `scripts/site_pages.py` writes the pages that it reads."""

import runpy
from pathlib import Path

project = "knee"
author = "The knee authors"
copyright = "The knee authors"  # noqa: A001 - the name that Sphinx reads
root_doc = "index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nitpicky = True
# Types of other packages and of knee's inside have no page here; what is public is called knee.NAME.
nitpick_ignore_regex = [("py:.*", r"(?!knee\.\w+$).*")]
# Comments and keys of scenario files are shown in blocks that are no whole program. Types of Python, such as bytes, are
# names of figures too.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

html_theme = "furo"
html_title = "knee"
html_static_path = ["_static"]
html_favicon = "_static/icon.svg"
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sphinx = False
html_copy_source = False
html_extra_path = ["llms.txt"]
templates_path: list[str] = []
_themes = runpy.run_path(str(Path(__file__).parent / "palette.py"))["THEMES"]
html_theme_options = {
    f"{name}_css_variables": {
        "color-brand-primary": colours["accent"],
        "color-brand-content": colours["accent"],
        "color-brand-visited": colours["accent"],
    }
    for name, colours in _themes.items()
} | {"navigation_with_keys": True}
pygments_style = "tango"
pygments_dark_style = "native"
