"""Sphinx's settings of the site; tools/pages.py copies them beside the pages."""

import logging

import jieba

jieba.setLogLevel(logging.WARNING)  # Sphinx's index of Chinese words uses it
project = "Transformer"
extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "README"
html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["viewer.js", "site.js"]
templates_path = ["_templates"]
html_theme_options = {
    "article_header_end": ["language.html", "article-header-buttons.html"],
    "navbar_persistent": [],
    "show_toc_level": 2,
}
mathjax_path = "tex-svg-full.js"
nb_execution_mode = "off"
nb_merge_streams = True
html_show_search_summary = False  # a page from the disk may not read others
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type", "myst.header"]
