"""The page about environment variables and the code know the same names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "environment.md").read_text("utf-8")
OURS = re.compile(r"(?:CELLWRIGHT|CLAUDE|ANTHROPIC|BASH|JPY|JUPYTERHUB)_[A-Z0-9_]*[A-Z0-9]|CLAUDECODE")
OF_OTHERS = {"SHELLOPTS", "BASH_ENV", "MPLBACKEND"}
"""Names that are looked for to be taken away from children, or to be left to a branch of the kernel."""


def names_in(tree: ast.AST) -> Iterator[str]:
    """What is read from an `environ`, and literals that look like a variable of ours."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if OURS.fullmatch(text):
                yield text
            case ast.Subscript(value=place, slice=ast.Constant(value=str(name))):
                yield from [name] if _is_environ(place) else ()
            case ast.Call(
                func=ast.Attribute(value=place, attr="get" | "pop"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield from [name] if _is_environ(place) else ()


def _is_environ(node: ast.expr) -> bool:
    return ast.unparse(node).endswith("environ")


def test_every_variable_that_is_read_is_on_the_page() -> None:
    files = (ROOT / "src" / "cellwright").rglob("*.py")
    read = {}
    for file in files:
        source = file.read_text("utf-8")
        if "environ" in source or OURS.search(source):  # to parse a thousand modules takes seconds
            read |= dict.fromkeys(names_in(ast.parse(source)), file.name)
    assert "CELLWRIGHT_HOME" in read
    told = set(re.findall(r"`(\w+)`", PAGE))
    assert {name: file for name, file in read.items() if name not in told | OF_OTHERS} == {}


def test_every_variable_on_the_page_is_read() -> None:
    code = "\n".join(file.read_text("utf-8") for file in (ROOT / "src" / "cellwright").rglob("*.py"))
    first_cells = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    told = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    # these are the HTTP client's, and one name is put together
    elsewhere = {"ALL_PROXY", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL"}
    assert {name for name in told if f'"{name}"' not in code} - elsewhere == set()
