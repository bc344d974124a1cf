"""A slash command, the call it is given, and its page: tables under titles, as Markdown and as plain text."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct

from cellwright.agent.calls.approval import CanUseTool
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Emit, Event
from cellwright.markdown.escaping import escaped
from cellwright.text import code_fence, visible, visible_line

Row = tuple[str, ...]

_LONGEST_LINE = 1_000


class Section(Struct, frozen=True):
    """A table under a title, the first row its head; `code` (in `language`), then `text`, stand above it."""

    title: str
    rows: Sequence[Row] = ()
    text: str = ""
    code: str = ""
    language: str = ""


class CommandPage(Struct, frozen=True):
    """The page that a command shows."""

    sections: Sequence[Section]

    def markdown(self) -> str:
        parts: list[str] = []
        for section in self.sections:
            title = escaped(visible_line(section.title, _LONGEST_LINE))
            parts += [f"**{title}**", _fenced(visible(section.code), section.language), _lines(visible(section.text))]
            if len(section.rows) > 1:
                head, *body = section.rows
                lines = [head, tuple("---" for _ in head), *body]
                parts.append("\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines))
        return "\n\n".join(part for part in parts if part)

    def plain(self) -> str:
        parts: list[str] = []
        for section in self.sections:
            lines = [
                visible_line(section.title, _LONGEST_LINE),
                *(f"  {line}" for line in visible(section.code).splitlines()),
                *([f"  {visible(section.text)}"] if section.text else []),
            ]
            body = [tuple(visible_line(cell, _LONGEST_LINE) for cell in row) for row in section.rows[1:]]
            widths = [max(len(row[column]) for row in body) for column in range(len(body[0]) - 1)] if body else []
            for row in body:
                padded = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
                lines.append("  " + "  ".join([*padded, row[-1]]).rstrip())
            parts.append("\n".join(lines))
        return "\n\n".join(parts)


def _fenced(code: str, language: str) -> str:
    fence = code_fence(code)
    return f"{fence}{language}\n{code}\n{fence}" if code else ""


def _lines(text: str) -> str:
    return "\n".join(escaped(line, at_line_start=True) for line in text.split("\n"))


def _cell(text: str) -> str:
    return escaped(visible_line(text, _LONGEST_LINE)) if text != "---" else text


def _unheard(_event: Event) -> None:
    """Ignore the event, where nobody listens."""


class CommandCall(Struct, frozen=True):
    """One use of a command. `text` is what follows its name; `options` are those a run would have.

    `emit` and `ask_user` show and ask as in a run, on the agent's thread; `ask_user` is None where nobody can be asked.
    """

    conversation: Conversation
    options: RunOptions
    text: str = ""
    emit: Emit = _unheard
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
