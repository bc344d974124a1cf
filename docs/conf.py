"""The documentation site: `make docs` builds it from these pages, and from what the code says of itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "site"))  # neither is a package
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shared"))
sys.path.insert(0, str(Path(__file__).parents[1] / "release"))

import imagesize
from docutils import nodes
from sphinx.util.osutil import relative_uri

from addresses import read_home
from cellwright.version import VERSION
from navigation import toctrees
from reference_pages import write_pages

HERE = Path(__file__).parent
HOME = read_home()
SOURCE = (
    {"source_repository": HOME.repository, "source_branch": "main", "source_directory": "docs/"}
    if HOME.repository
    else {}
)

project = "Cellwright"
author = copyright = ", ".join(HOME.names)
release = version = VERSION
html_title = f"Cellwright {VERSION}"

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "site", "examples/*/**"]
myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
highlight_language = "none"  # of a block that names no language: a cell for Claude
toc_object_entries = False

html_theme = "furo"
html_baseurl = f"{HOME.documentation}/" if HOME.documentation else ""
html_search_scorer = str(HERE / "site" / "search_scorer.js")
html_static_path = ["site/static"]
html_css_files = ["cellwright.css"]
html_js_files = ["cellwright.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    **SOURCE,
    "light_css_variables": {"color-brand-primary": "#9a4a2c", "color-brand-content": "#9a4a2c"},
    "dark_css_variables": {"color-brand-primary": "#e39a7b", "color-brand-content": "#e39a7b"},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

REFERENCE = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
    "CONTRIBUTING.md": "contributing.md",
    "src/cellwright/__init__.py": "python.md",
    "src/cellwright/commands/registry.py": "slash-commands.md",
    "src/cellwright/config/settings/known_settings.py": "settings.md",
    "src/cellwright/errors.py": "errors.md",
    "src/cellwright/kernel/magic/options.py": "magics.md",
    "src/cellwright/server/server_extension.py": "server.md",
    "src/cellwright/terminal/arguments.py": "command-line.md",
    "src/cellwright/terminal/exit_codes.py": "command-line.md#exit-codes",
    "src/cellwright/terminal/subcommands/subcommand_names.py": "command-line.md#subcommands",
    "src/cellwright/tools/__init__.py": "tools.md",
}
"""Files to which pages link, since they are in the repository, and the page of the site that is written from each."""


TWINS = re.compile(r"!\[([^\]]*)\]\(([^)]*images/[^)]+)\.png\)")
PICTURE = re.compile(r"(?s)<picture>\n(.*?)</picture>\n")
SOURCE_OF_PICTURE = re.compile(r'media="([^"]*)" srcset="([^"]*)"')


def _on_phone(path: str, folder: Path) -> str:
    """The twin of a picture that is narrow enough to be read on a phone, or an empty string."""
    stem, _, ending = path.rpartition(".")
    theme = "-dark" if stem.endswith("-dark") else ""
    twin = f"{stem.removesuffix(theme)}-phone{theme}.{ending}"
    return twin if (folder / twin).exists() else ""


def _in_both_themes(found: re.Match[str]) -> str:
    """A picture that has sources, as one image for each: the site has a switch of its own between light and dark.

    Those for a phone say so; the others are for a desk then.
    """
    shown = re.search(r'alt="([^"]*)" src="([^"]*)"', found[1])
    assert shown
    sources = [(shown[2], ""), *((path, media) for media, path in SOURCE_OF_PICTURE.findall(found[1]))]
    shown_in = []
    for path, media in sources:
        theme = "dark" if "dark" in media else "light"
        kind = "still" if "reduced-motion" in media else "moving"
        place = (" .on-phone" if "max-width" in media else " .on-desk") if "max-width" in found[1] else ""
        shown_in.append(f"![{shown[1]}]({path}){{.only-{theme} .{kind}-picture{place}}}\n")
    return "".join(shown_in)


def _with_twin(found: re.Match[str], folder: Path) -> str:
    """A picture that was taken in dark as well, as one image for each theme."""
    dark = f"{found[2].removesuffix('-light')}-dark.png"
    if not (folder / dark).exists():
        return found[0]
    shown_in = []
    for path, theme in ((f"{found[2]}.png", "light"), (dark, "dark")):
        if twin := _on_phone(path, folder):
            shown_in.append(f"![{found[1]}]({twin}){{.only-{theme} .on-phone}}")
            shown_in.append(f"![{found[1]}]({path}){{.only-{theme} .on-desk}}")
        else:
            shown_in.append(f"![{found[1]}]({path}){{.only-{theme}}}")
    return "".join(shown_in)


def _read(_app: Any, name: str, source: list[str]) -> None:
    """Keep the pages plain Markdown: what only the site needs is added as they are read."""
    depth = "../" * name.count("/")
    for file, page in REFERENCE.items():
        source[0] = source[0].replace(f"](../{depth}{file})", f"]({depth or './'}reference/{page})")
    source[0] = TWINS.sub(lambda found: _with_twin(found, (HERE / name).parent), source[0])
    source[0] = PICTURE.sub(_in_both_themes, source[0])
    if name == "examples/README":
        source[0] = re.sub(r"\[`?([^]`]+)`?\]\(([^)]+/[^)]+\.md)\)", r"{download}`\1 <\2>`", source[0])
    source[0] += toctrees(name)


def _level_captions(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Say of the sidebar's captions, which Sphinx marks as headings, of which level they are."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


LONG_PAGE = 5
"""How many sections a page has that is longer than three screens."""
PIXEL_RATIO = 1.5
"""How many pixels of a picture are one of the screen it was taken from."""
SHOWN_IN = {"only-light", "only-dark", "still-picture", "moving-picture", "on-phone", "on-desk"}


def _open_at_full_size(app: Any, tree: nodes.document, name: str) -> None:
    """Show each picture as large as on the screen, as a link to its file: on a phone a window is too small to be read."""
    if app.builder.format != "html":
        return
    folder = relative_uri(app.builder.get_target_uri(name), "_images")
    for image in list(tree.findall(nodes.image)):
        if image["uri"] not in app.env.images or isinstance(image.parent, nodes.reference):
            continue
        # a link whose picture is hidden in this theme would still be reached by the keyboard
        shown_in = [each for each in image["classes"] if each in SHOWN_IN]
        link = nodes.reference(
            refuri=f"{folder}/{app.env.images[image['uri']][1]}",
            reftitle="Open the picture at full size",
            classes=["picture", *shown_in],
        )
        if (width := imagesize.get(HERE / image["uri"])[0]) > 0:
            image["width"] = f"{width / PIXEL_RATIO:.0f}px"
        image["classes"] = [each for each in image["classes"] if each not in shown_in]
        image.replace_self(link)
        link += image


def _list_sections(app: Any, tree: nodes.document, name: str) -> None:
    """Name the sections of a long page below its first words: a phone has no room for the theme's list of them."""
    if app.builder.format != "html" or name == "index" or name.startswith(("reference/", "decisions/")):
        return
    page = next(iter(tree.findall(nodes.section)), None)
    sections = [part for part in page.children if isinstance(part, nodes.section)] if page else []
    first = next((part for part in page.children if isinstance(part, nodes.paragraph)), None) if page else None
    if first is None or len(sections) < LONG_PAGE:
        return
    line = nodes.paragraph("", "On this page: ", classes=["on-this-page"])
    for section in sections:
        link = nodes.reference("", section[0].astext(), internal=True, refuri=f"#{section['ids'][0]}")
        line.extend([link] if section is sections[0] else [nodes.Text(" · "), link])
    # words that end with a colon are about the picture or the code below them, and that picture about the table below it
    place = page.index(first) + 1
    if first.astext().endswith(":"):
        place += 1
        if not isinstance(page[place], nodes.section) and next(page[place].findall(nodes.table), None):
            place = page.index(first)
    page.insert(place, line)


def setup(app: Any) -> None:
    write_pages(HERE / "reference")
    app.connect("source-read", _read)
    app.connect("doctree-resolved", _open_at_full_size)
    app.connect("doctree-resolved", _list_sections)
    app.connect("html-page-context", _level_captions, priority=900)  # after the theme has made the tree
