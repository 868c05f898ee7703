"""How the documentation becomes a site: `make docs`."""

import re
import sys
from pathlib import Path

from docutils import nodes
from pygments.lexers.special import TextLexer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "src"))

from generated import fill  # noqa: E402

import atlas  # noqa: E402

NOTEBOOKS = HERE.parent / "notebooks"
for page in NOTEBOOKS.glob("*.ipynb"):  # Sphinx wants all pages in one folder
    (HERE / "notebooks").mkdir(exist_ok=True)
    (HERE / "notebooks" / page.name).write_text(page.read_text().replace("](../docs/", "](../"))

project = "ATLAS"
author = "The ATLAS developers"
copyright = "The ATLAS developers. MIT licence"
release = version = atlas.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the slow tests execute the notebooks; the site shows what they kept
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!atlas\.).*"),  # types of other packages: nothing is fetched to look them up
    ("py:.*", r"atlas\.(config|settings)\..*|atlas\.ued\.\w+Config"),  # the page of settings has them
    ("py:.*", r"atlas\.(world|student|training)\..*|atlas\.types\.Item"),  # not for the outside
]
smartquotes = False  # `--flag` is no dash
highlight_language = "text"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "code"  # docstrings write `name` as Markdown does

html_theme = "sphinx_book_theme"
html_title = "ATLAS"
html_static_path = ["_static"]
html_css_files = ["atlas.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "home_page_in_toc": True,
    "use_download_button": False,
    "navbar_persistent": [],
}
copybutton_prompt_text = "$ "


def read(app, docname, source):
    """What is generated is put in, and links out of this folder are led to where the site has what they mean."""
    folder = (HERE / docname).parent

    def led(found):
        text, path = found.groups()
        target = (folder / path).resolve()
        if target.is_relative_to(HERE):
            return found[0]
        if target.parent == NOTEBOOKS:
            return f"[{text}]({path.replace('../', '', 1)})"
        return text if target.is_dir() or target.suffix == ".md" else found[0]  # other files can be downloaded

    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\)", led, fill(source[0]))


def outdated(app, env, added, changed, removed):
    """Pages with generated parts are read again each time: Sphinx does not know what they are generated from."""
    return [name for name in env.found_docs if "<!-- generated:" in Path(env.doc2path(name)).read_text()]


def signature(app, what, name, obj, options, arguments, returns):
    """Classes are told by their attributes, which are listed below."""
    return ("", None) if what == "class" else (arguments, returns)


def shorten(app, domain, kind, content):
    """Arrays by the name that people know."""
    for text in list(content.parent.findall(nodes.Text)):
        if "jaxlib._jax.Array" in text:
            text.parent.replace(text, nodes.Text(text.replace("jaxlib._jax.Array", "Array")))


def setup(app):
    for kind in ("english", "steps", "ltlf"):
        app.add_lexer(kind, type(kind, (TextLexer,), {"name": kind, "aliases": [kind]}))
    app.connect("source-read", read)
    app.connect("env-get-outdated", outdated)
    app.connect("autodoc-process-signature", signature)
    app.connect("object-description-transform", shorten)
