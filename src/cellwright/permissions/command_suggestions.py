"""The rules a permission question offers for a shell command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.events import Suggestion
from cellwright.permissions.file_calls import text_field
from cellwright.permissions.shell_tokens import Unreadable, read_words
from cellwright.visible_text import visible_line

PREFIXES_FOR_SESSION = tuple(
    tuple(prefix.split())
    for prefix in (
        *("pytest", "python -m pytest", "python3 -m pytest", "ruff", "mypy", "npm test", "cargo test", "cargo build"),
        *("cargo check", "go test", "go build", "go vet", "git status", "git diff", "git log", "git show"),
    )
)
"""Commands repeated with other arguments all day: for a session their prefix is offered, not the exact command."""


def suggestions_for_command(tool_input: Mapping[str, Any], folders: Sequence[str], cwd: str) -> list[Suggestion]:
    """Rules that might allow the command, "session" before "always". Whether they do is for the policy to check."""
    command = text_field(tool_input, "command").strip()
    if "*" in command:
        return []  # no rule can say it: a `*` in a rule stands for anything
    try:
        words = [word.text for word in read_words(command)]
    except Unreadable:
        return []
    exact = f"Bash({command})"
    for prefix in PREFIXES_FOR_SESSION:
        if tuple(words[: len(prefix)]) == prefix:
            start = " ".join(prefix)
            session = Suggestion(
                (f"Bash({start} *)",), "session", f"every command that starts with `{start}`, this session"
            )
            break
    else:
        session = Suggestion((exact,), "session", "this exact command, for this session")
    return [session, Suggestion((exact,), "always", f"always allow exactly `{visible_line(command)}` in this project")]
