"""How often the product's English falls back into habits of translation: `python -m benchmarks.words`.

Counted apart: docstrings, messages (the other strings of two words or more, which a user or Claude may read) and the
user documentation. Figures to bring down, not rules: each habit has uses that are right. `--lines HABIT` lists its places.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HABITS = {
    "free relative": r"\b[Ww]hat (?:is|are|was|were|it|they|has|had|can|may|comes|came|goes)\b|\bthose that there are\b",
    "where for if": r"\b[Ww]here (?:there|it|they|one|no|none|nothing|nobody|something|that|this|a|an|the)\b",
    "told": r"\b(?:told|tells?)\b",
    "none is none": r"\bthere is none\b|\bthere are none\b|\bThere (?:is|are) no\b",
    "of it, came of": r"\bcame of\b|\bof it\b(?=[.,;:]|$)",
    "go on": r"\b(?:go|goes|gone|going|went) on\b",
    "nobody": r"\b(?:no|some)body\b",
    "stands": r"\b(?:stands?|stood)\b",
    "brings along": r"\b(?:brings?|brought|goes) along\b",
    "may it": r"\bmay it\b|\bneeds? your consent\b",
}


class Text(NamedTuple):
    """A text that somebody reads, and its place."""

    kind: str
    place: str
    words: str


def main() -> None:
    """Print the table, or the places of one habit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.words", description=__doc__)
    parser.add_argument("--lines", choices=HABITS, help="list the places of this habit instead")
    chosen = parser.parse_args().lines
    texts = [*python_texts(), *script_texts(), *document_texts()]
    if chosen:
        for text in texts:
            for found in re.finditer(HABITS[chosen], text.words):
                print(f"{text.place}: {text.words[max(0, found.start() - 40) : found.end() + 40]!r}")
        return
    print("| habit | docstrings | messages | documents |\n|---|--:|--:|--:|")
    for habit, pattern in HABITS.items():
        counts = dict.fromkeys(("docstring", "message", "document"), 0)
        for text in texts:
            counts[text.kind] += len(re.findall(pattern, text.words))
        print(f"| {habit} | {counts['docstring']} | {counts['message']} | {counts['document']} |")


def python_texts() -> Iterator[Text]:
    """The docstrings' first sentences, and the messages, of the package."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        documentation = set()
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                documentation.add(node.value)
                yield Text("docstring", place(path, node.lineno), first_sentence(node.value.value))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in documentation:
                continue
            if " " in node.value.strip():
                yield Text("message", place(path, node.lineno), node.value)


def script_texts() -> Iterator[Text]:
    """The messages of the extension of JupyterLab."""
    for path in sorted((ROOT / "labextension" / "src").rglob("*.ts")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if line.lstrip().startswith(("//", "*", "/*", "import ")):
                continue
            for words in re.findall(r'"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`', line):
                if " " in (text := "".join(words)).strip():
                    yield Text("message", place(path, number), text)


def document_texts() -> Iterator[Text]:
    """The user documentation: the README and the pages of `docs`, without those that record decisions."""
    for path in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "guides").glob("*.md")),
    ]:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield Text("document", place(path, number), line)


def first_sentence(docstring: str) -> str:
    """`docstring` up to the end of its first sentence."""
    return re.split(r"(?<=[.:;])\s", " ".join(docstring.split()), maxsplit=1)[0]


def place(path: Path, line: int) -> str:
    """A place as editors read it."""
    return f"{path.relative_to(ROOT)}:{line}"


if __name__ == "__main__":
    main()
