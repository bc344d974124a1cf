"""A slash command, the call it is given, and its page: tables under titles, as Markdown and as plain text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from cellwright.agent.calls.approval import CanUseTool
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Emit
from cellwright.features.conversation import Conversation
from cellwright.markdown.escaping import escaped
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.text import code_fence, lazy_pattern, visible, visible_line
from cellwright.tools.shell.user_commands import user_command

Row = tuple[str, ...]

_LONGEST_LINE = 1_000
BAR = "█▉▊▋▌▍▎▏"
"""The characters of a bar."""
_AMOUNT = lazy_pattern(r"\$?\d[\d,]*(?:\.\d+)?%?")

SLASH_COMMAND = lazy_pattern(r"\s*/(?P<name>[A-Za-z][\w-]*(?::[\w-]+)*)(?P<text>(?:\s.*)?)", re.DOTALL)
"""The form of a prompt that is a command, or the call of a skill."""

OWN_COMMAND = "!"
"""The name of what runs the user's own command."""


def command_name(prompt: str) -> str | None:
    """The command that `prompt` is, without its slash; None for what is a prompt (`/etc/hosts: what is it?`).

    It is told here, for what does the commands (`registry.py`) is much to import, and most prompts are none.
    """
    found = SLASH_COMMAND.fullmatch(prompt)
    if found is None:
        return None if user_command(prompt) is None else OWN_COMMAND
    return found["name"]


class Section(Struct, frozen=True):
    """A table under a title, the first row its head; `code` (in `language`), `text`, then `link` stand above it.

    `answer` is Markdown that a model has written, which is made safe.
    `brief` has the same rows in fewer words, for a terminal: at 80 columns each has one line.
    `link` is an address to be opened by the user: only where it comes from a server that they chose to sign in to.
    """

    title: str
    rows: Sequence[Row] = ()
    text: str = ""
    code: str = ""
    language: str = ""
    link: str = ""
    answer: str = ""
    brief: Sequence[Row] = ()


class CommandPage(Struct, frozen=True):
    """The page that a command shows."""

    sections: Sequence[Section]

    def markdown(self) -> str:
        parts: list[str] = []
        for section in self.sections:
            title = escaped(visible_line(section.title, _LONGEST_LINE))
            code, text = visible(section.code), visible(section.text)
            fence = code_fence(code)
            parts += [f"**{title}**", f"{fence}{section.language}\n{code}\n{fence}" if code else ""]
            parts.append("\n".join(escaped(line, at_line_start=True) for line in text.split("\n")))
            if section.answer:
                parts.append(safe_markdown(section.answer))
            if section.link:
                parts.append(f"<{_address(section.link)}>")
            if len(section.rows) > 1:
                body = section.rows[1:]
                lines = [[escaped(visible_line(cell, _LONGEST_LINE)) for cell in line] for line in section.rows]
                # said outright: a notebook centres the heads of columns else
                lines.insert(1, ["--:" if is_number(column) else ":--" for column in zip(*body, strict=True)])
                parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return "\n\n".join(part for part in parts if part)

    def plain(self, columns: int | None = None) -> str:
        """The page for a terminal; lines wrap between words where it has so many `columns`."""
        parts: list[str] = []
        for section in self.sections:
            lines = [
                visible_line(section.title, _LONGEST_LINE),
                *(f"  {line}" for line in visible(section.code).splitlines()),
                *([f"  {visible(section.text)}"] if section.text else []),
                *(f"  {line}" for line in visible(section.answer).splitlines()),
                *([f"  {_address(section.link)}"] if section.link else []),
            ]
            body = [tuple(visible_line(cell, _LONGEST_LINE) for cell in row) for row in section.rows[1:]]
            heads = list(zip(*body, strict=True))[:-1]
            widths = [max(map(len, column)) for column in heads]
            signs = [">" if is_number(column) else "<" for column in heads]
            indent = 2 + sum(width + 2 for width in widths)
            for row in body:
                padded = [f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=False)]
                lines.append("  " + "  ".join([*padded, row[-1]]).rstrip())
            if columns is not None:
                table = len(lines) - len(body)
                # a bar on a line of its own measures nothing
                if any(len(line) > columns for line in lines[table:]):
                    lines[table:] = [line.rstrip(f"{BAR} ") for line in lines[table:]]
                lines = [
                    each
                    for index, line in enumerate(lines)
                    for each in _wrapped(line, columns, indent if index >= table else 2, breaks=index >= table)
                ]
            parts.append("\n".join(lines))
        return "\n\n".join(parts)


def _address(link: str) -> str:
    """The address as it can stand anywhere: of what an address has no other character than these."""
    return quote(link, safe="/:?#[]@!$&'()*+,;=%-._~")


def _wrapped(text: str, columns: int, indent: int, *, breaks: bool) -> list[str]:
    """The lines of `text`, those that it is wrapped to begun with `indent` spaces where these leave room for words.

    `breaks`: a word that is longer than a line, as a path may be, is broken; an address would not open then.
    """
    space = " " * (indent if columns - indent >= 24 else 4)
    return [
        each
        for line in text.split("\n")
        for each in textwrap.wrap(
            line, columns, subsequent_indent=space, break_long_words=breaks, break_on_hyphens=False
        )
        or [""]
    ]


def is_number(column: Sequence[str]) -> bool:
    """A column of amounts, or of nothing where there is none."""
    return any(column) and all(_AMOUNT.fullmatch(cell) for cell in column if cell)


class CommandCall(Struct, frozen=True):
    """One use of a command. `text` is what follows its name; `options` are those a run would have.

    `emit` and `ask_user` show and ask as in a run, on the agent's thread; `ask_user` is None where nobody can be asked.
    """

    conversation: Conversation
    options: RunOptions
    text: str = ""
    emit: Emit = lambda _: None
    ask_user: CanUseTool | None = None


Answer = CommandPage | Coroutine[Any, Any, CommandPage]


class SlashCommand(Struct, frozen=True):
    """One command. `run` gives a page, or a coroutine of one that is run on the agent's thread.

    `takes` names what may follow the command ("" where nothing may); `asks`: it may have a question to the user.
    """

    run: Callable[[CommandCall], Answer]
    help: str
    takes: str = ""
    asks: bool = False

    @property
    def brief(self) -> str:
        """The beginning of `help`, for lists with little room."""
        return re.split("[;:]|, ", self.help, maxsplit=1)[0]
