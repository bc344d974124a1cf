"""A permission question in the terminal: what the call does to what, all of it, and the answers by their keys."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from cellwright.agent.approval import Allow, Deny, ToolUse
from cellwright.events import Preview, Suggestion
from cellwright.terminal.screen import Style, style_of_diff_line
from cellwright.visible_text import visible, visible_line

_REPLY = re.compile(r"\s*(?P<key>[1-4e]|y(?:es)?|no?)(?:[\s,:.]+(?P<reason>.*))?\s*", re.IGNORECASE | re.DOTALL)

Write = Callable[[str, Style], None]


@dataclass(frozen=True)
class Asker:
    """Puts questions to the user: `write(line, style)` shows a line, `stdin` is the keyboard, `screen` where it echoes."""

    write: Write
    stdin: TextIO
    screen: TextIO
    environ: Mapping[str, str]

    def ask(self, use: ToolUse) -> Allow | Deny:
        """Ask until there is an answer; the end of the input is a no. Ctrl-C raises `KeyboardInterrupt`."""
        edited: Mapping[str, Any] | None = None
        self._show(use, use.preview)
        while True:
            offered = _offered(use, edited)
            reply = self._reply(offered)
            if reply is None:
                return Deny("there was no answer", by="terminal")
            key, reason = reply
            if key == "e":
                edited = self._edited(use, edited if edited is not None else use.input)
            elif key == "4":
                return Deny(reason, by="terminal")
            elif key == "1":
                return Allow(edited, by="terminal")
            elif key in offered:
                return Allow(None, offered[key].scope, offered[key].rules, by="terminal")

    def _show(self, use: ToolUse, preview: Preview) -> None:
        self.write("", "")
        self.write(f"Claude asks: {visible_line(preview.title, 1_000)}", "title")
        if preview.warning:
            self.write(f"Careful: {visible_line(preview.warning, 1_000)}", "warning")
        self.write(visible_line(use.decision.reason, 1_000), "dim")
        self._detail(preview.detail, is_diff=preview.kind == "diff")

    def _detail(self, text: str, *, is_diff: bool) -> None:
        for line in visible(text.rstrip("\n")).split("\n") if text else []:
            self.write(f"  │ {line}", style_of_diff_line(line) if is_diff else "")

    def _reply(self, offered: Mapping[str, Suggestion]) -> tuple[str, str] | None:
        """The key that was typed and what followed it; None at the end of the input."""
        self.write("  1  Allow once", "")
        for key, suggestion in offered.items():
            self.write(f"  {key}  {_label(suggestion)}", "")
        self.write("  4  Deny (a reason may follow: 4 not now)", "")
        self.write("  e  Edit the input first", "")
        _forget_what_was_typed(self.stdin)
        while True:
            self.screen.write(f"[{'/'.join(['1', *offered, '4', 'e'])}] ")
            self.screen.flush()
            typed = self.stdin.readline()
            if not typed:
                return None
            if (reply := _REPLY.fullmatch(typed)) is not None:
                key = {"y": "1", "n": "4"}.get(reply["key"][0].lower(), reply["key"].lower())
                if key in ("1", "4", "e") or key in offered:
                    return key, (reply["reason"] or "").strip()

    def _edited(self, use: ToolUse, tool_input: Mapping[str, Any]) -> Mapping[str, Any]:
        """The input as the user changed it; as it was when it makes no sense."""
        field = next((name for name, value in use.input.items() if value == use.preview.detail), None)
        before = str(tool_input[field]) if field is not None else json.dumps(tool_input, indent=2, ensure_ascii=False)
        after = self._text_edited(before)
        if field is not None:
            changed: Any = {**tool_input, field: after}
        else:
            try:
                changed = json.loads(after)
            except ValueError as error:
                changed = None
                self.write(f"That is no JSON: {error}", "error")
        if not isinstance(changed, dict):
            self.write("The input stays as it was.", "warning")
            return tool_input
        self.write("The input is now:", "title")
        self._detail(after, is_diff=False)
        return changed

    def _text_edited(self, text: str) -> str:
        editor = self.environ.get("VISUAL") or self.environ.get("EDITOR")
        if not editor:
            self.screen.write("New text, in one line (empty leaves it as it is; set EDITOR to use an editor): ")
            self.screen.flush()
            return self.stdin.readline().rstrip("\n") or text
        with tempfile.TemporaryDirectory(prefix="cellwright-") as folder:  # nobody else may look into it
            path = Path(folder) / "input.txt"
            path.write_text(text, encoding="utf-8")
            try:
                subprocess.run([*shlex.split(editor), str(path)], check=True)
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                self.write(f"The editor failed: {error}", "error")
                return text
            edited = path.read_text(encoding="utf-8")
        # editors end a file with a newline of their own
        return edited.removesuffix("\n") if not text.endswith("\n") else edited


def _offered(use: ToolUse, edited: Mapping[str, Any] | None) -> dict[str, Suggestion]:
    """The rules that could be kept, by their keys; none for an edited input, which they were not made for."""
    found: dict[str, Suggestion] = {}
    for key, scope in (("2", "session"), ("3", "always")):
        for suggestion in use.decision.suggestions if edited is None else ():
            if suggestion.scope == scope and suggestion.rules:
                found.setdefault(key, suggestion)
    return found


def _label(suggestion: Suggestion) -> str:
    label = visible_line(suggestion.label)
    what = f"Allow {label}" if suggestion.scope == "session" else label[:1].upper() + label[1:]
    rules = visible_line(", ".join(suggestion.rules), 1_000)
    return f"{what} ({'rule' if len(suggestion.rules) == 1 else 'rules'} {rules})"


def _forget_what_was_typed(stdin: TextIO) -> None:
    """What was typed before the question was there is no answer to it."""
    if os.name == "posix":
        import termios

        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)
