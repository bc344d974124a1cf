"""Plain text as a part of Markdown or HTML that nothing in it can leave: words, inline code, a code block, a summary."""

from __future__ import annotations

import re

from cellwright.text import code_fence, lazy_pattern, longest_run, visible

_CONTROL = lazy_pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible_controls(text: str) -> str:
    """`text` with its control and direction characters shown: what is read is what there is."""

    def show(match: re.Match[str]) -> str:
        code = ord(match[0])
        return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"

    return _CONTROL.sub(show, text.replace("\r\n", "\n"))


# Words. What a renderer might take for markup is escaped, whatever its dialect: GFM, pandoc's attributes in braces, a
# definition list's colon. A backtick, a backslash and an opening bracket become entities, so that none is in
# the source that could pair with those of code, or make an opening of mathematics with its neighbour.

_SPECIAL = lazy_pattern(
    r"""
      (?P<math> \$ | \\ (?= [(\[] | begin\s*\{ ) )
    | (?P<backslash> \\ (?! [A-Za-z0-9 ] ) )
    | (?P<tick> ` )
    | (?P<bracket> \[ )
    | (?P<less> < (?! [ =\d] ) )
    | (?P<entity> & (?= \#? \w+ ; ) )
    | (?P<scheme> : (?= // ) )
    | (?P<inside_word> (?<= [A-Za-z0-9] ) _ (?= [A-Za-z0-9] ) )
    | (?P<mark> [*_\]{~|] | ! \Z )
    """,
    re.VERBOSE,
)
_ENTITIES = {
    "backslash": "&#92;",
    "tick": "&#96;",
    "bracket": "&#91;",
    "less": "&lt;",
    "entity": "&amp;",
    "scheme": "&#58;",
}
_LINE_START = lazy_pattern(r"(?P<number>\d{1,9}(?=[.)](?:\s|\Z)))|[#>=:]|[-+](?=[\s-]|\Z)")


def escaped(text: str, *, at_line_start: bool = False) -> str:
    """`text`, in one line, as words of Markdown; no two of its dollars enclose a formula, and no address is a link."""
    # not only in the source: MathJax looks for formulas once more in the page, within the text of one element
    dollar = "\\$" if text.count("$") == 1 else opening_apart("$")
    return escape_words(visible_controls(" ".join(text.split())), dollar, at_line_start=at_line_start)


def escape_words(text: str, dollar: str, *, at_line_start: bool) -> str:
    """`text` as words, `dollar` for each dollar in it. `at_line_start`: they begin a line, where more is markup."""

    def escape(match: re.Match[str]) -> str:
        kind, character = str(match.lastgroup), match[0]
        if kind == "math":
            return dollar if character == "$" else opening_apart(character)
        if kind == "inside_word":
            return character
        return _ENTITIES.get(kind) or f"\\{character}"

    escaped = _SPECIAL.sub(escape, text)
    if at_line_start and (match := _LINE_START.match(escaped)):
        end = match.end()
        return f"{match[0]}\\{escaped[end:]}" if match["number"] else f"\\{escaped}"
    return escaped


def opening_apart(character: str) -> str:
    """A character that opens mathematics, in an element of its own, where MathJax finds no end to it."""
    return f"<span>&#{ord(character)};</span>"


def code_span(text: str) -> str:
    """`text`, in one line, as inline code that nothing in it can end."""
    return inline_code(visible(visible_controls(" ".join(text.split()))) or " ")


# nbconvert looks for these before it looks for code, JupyterLab as well (the dollars in code it leaves alone)
_MATH_IN_CODE = lazy_pattern(r"\$\$|\\\\[(\[)\]]|\\(?:begin|end)\{")


def inline_code(text: str, *, in_table: bool = False, after_code: bool = False) -> str:
    """`text`, without line ends, as inline code, to the character.

    As an element where backticks would not hold: a bar cuts a table's cell, code next to code makes one, and the
    openings of formulas are looked for in code, too.
    """
    if after_code or (in_table and "|" in text) or _MATH_IN_CODE.search(text):
        return f"<code>{as_entities(text)}</code>"
    ticks = "`" * (longest_run("`", text) + 1)
    blank_ends = text.startswith(" ") and text.endswith(" ") and text.strip(" ")
    padding = " " if text.startswith("`") or text.endswith("`") or blank_ends else ""
    return f"{ticks}{padding}{text}{padding}{ticks}"


_MARKUP = lazy_pattern(r"[\"&'<>`$\\*_\[\]{}~|@]|:(?=//)")


def as_entities(text: str) -> str:
    """`text` between tags of ours: what is markup to anybody as entities."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", text)


def folded(title: str, markdown: str, *, opened: bool = False) -> str:
    """`markdown` (safe already) under a title that opens it by a click where HTML is shown; `opened`: it is, at first."""
    # a summary is no code: between two dollars there would be mathematics
    summary = re.sub(r"&#(?:36|92);", lambda match: f"<span>{match[0]}</span>", as_entities(visible_controls(title)))
    return f"<details{' open' if opened else ''}><summary>{' '.join(summary.split())}</summary>\n\n{markdown}\n\n</details>"


# what renderers draw instead of showing it: nbconvert even writes the text of a diagram into the page as HTML
_DRAWN = lazy_pattern(r"mermaid|geojson|topojson|stl$|math$|vega|plantuml", re.IGNORECASE)
_LANGUAGE = lazy_pattern(r"[\w+#.-]*")


def fenced(text: str, language: str = "") -> str:
    """`text` as a code block that nothing in it can end."""
    fence = code_fence(text)
    return f"{fence}{language_of(language)}\n{text}\n{fence}"


def language_of(info: str) -> str:
    """The language that a code block's info string names; "text" for one whose text would be drawn."""
    language = match[0] if (match := _LANGUAGE.match(info.strip())) else ""
    return "text" if _DRAWN.match(language) else language
