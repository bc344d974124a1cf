"""Questions to somebody who types: a permission, a question of Claude's own, a plan; in a terminal and at `input()`.

All of what is asked is shown, honestly; then lines are read until there is an answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.calls.tool_names import changes_cells
from cellwright.conversation.user_answers import (
    Choice,
    allowed,
    answered,
    choices,
    denied,
    typed_answer,
    typed_key,
    unanswered_in_time,
)
from cellwright.events import AnsweredBy, Preview
from cellwright.terminal.interactive.keys import CTRL_O, ESCAPE
from cellwright.terminal.views.terminal_text import Style, rows_of, style_of_diff_line
from cellwright.text import visible, visible_line

Write = Callable[[str, Style], None]
Json = Mapping[str, Any]

TITLE_CHARS = 1_000
MAX_FOLLOWING = 2
"""Of more calls that wait only their number is shown at first."""


WHO_ASKS = {"Trust": "Before Claude begins", "Undo": "Undo"}
"""Questions that are not Claude's, by their names."""


ALL_KEY, EDIT_KEY, SKIP_KEY = "a", "e", "s"

UNANSWERED = "the question was not answered"
"""The reason of a no at the end of the input."""


class OfferedAnswer(Struct, frozen=True):
    """One answer: `key` takes it; `about` says more of it; `words` names what may be written with it.

    `marks`: it may be one of several answers. `is_rule`: `about` is a permission rule, whose characters are its own.
    """

    key: str
    label: str
    about: str = ""
    words: str = ""
    marks: bool = False
    is_rule: bool = False


class Card:
    """The screen of a question: it counts the rows that are written there, so that they can be taken away again."""

    def __init__(self, screen: TextIO) -> None:
        self._screen = screen
        self._lines: int | None = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._screen, name)

    def write(self, text: str) -> int:
        if self._lines is not None:
            self._lines += text.count("\n")
        return self._screen.write(text)

    def lose_count(self) -> None:
        """The user types there, or has an editor: it stays as it is."""
        self._lines = None

    @property
    def lines(self) -> int:
        """The rows that it has; 0 once they are not counted any more."""
        return self._lines or 0

    @property
    def columns(self) -> int:
        return os.get_terminal_size(self._screen.fileno()).columns

    def room(self, more: int) -> int:
        """The rows that are left for it if there are `more` below it; negative if its first ones are out of view."""
        return os.get_terminal_size(self._screen.fileno()).lines - 1 - self.lines - more

    def take_away(self, more: int, *, after: int = 0) -> bool:
        """Clear the screen from the row `after` its first ones on; False if it cannot: `more` rows have been below it."""
        rows = self.lines - after
        if rows <= 0 or self.room(more) + after < 0:
            return False
        self._screen.write(f"\r\x1b[{rows}A\x1b[J")
        self._screen.flush()
        self._lines = after
        return True


class Asker(Struct, frozen=True):
    """Puts questions to the user: `write(line, style)` shows a line, `read(prompt)` gives the next line that is typed.

    `read` gives None at the end of the input. `edit(text)` gives a text as the user changed it, or None when that failed;
    without it no input can be edited. `by` is how answers from here are called. `read_in_time` reads answers to Claude's own
    questions instead, and raises TimeoutError when Claude is to go on without one. `choose(answers, hint)` gives the key of
    an answer that was chosen without Enter, and the words that came with it; `choose_in_time` does so for Claude's own
    questions, of which some take several answers; `draw` shows the whole of a call in colours, or its beginning and end in
    a number of rows, and returns whether something is left out; `draw_markdown` draws a plan. A permission's card leaves the
    screen with its answer if it can be taken off `card`: `taken_away(use, was_folded)` is called, for the call's own line
    to show the change if the card did.
    """

    write: Write
    read: Callable[[str], str | None]
    by: AnsweredBy
    edit: Callable[[str], str | None] | None = None
    read_in_time: Callable[[str], str | None] | None = None
    choose: Callable[[Sequence[OfferedAnswer], str], tuple[str, str] | None] | None = None
    choose_in_time: Callable[[Sequence[OfferedAnswer], str, bool], tuple[str, str] | None] | None = None
    draw: Callable[[Preview, int | None], bool] | None = None
    draw_markdown: Callable[[str], None] | None = None
    card: Card | None = None
    taken_away: Callable[[ToolUse, bool], None] | None = None
    compact: bool = False

    def ask(self, use: ToolUse) -> Allow | Deny:
        """Ask until there is an answer; the end of the input is a no. Ctrl-C raises `KeyboardInterrupt`."""
        if use.kind == "question":
            self._show_title(use)
            try:
                return self._ask_questions(use)
            except TimeoutError:
                self.write("There was no answer in time: Claude continues without one.", "warning")
                return unanswered_in_time(use)
        return self._ask_by_key(use)

    def _show_title(self, use: ToolUse) -> None:
        if not self.compact:
            self.write("", "")
        title = visible_line(use.preview.title, TITLE_CHARS)
        names_claude = title.startswith("Claude ") or use.kind == "plan"
        self.write(title if names_claude else f"{WHO_ASKS.get(use.name, 'Claude asks')}: {title}", "title")

    def _show(self, use: ToolUse, below: int | None = None) -> tuple[bool, bool]:
        """Show the card; return whether calls that wait behind it are left out, and whether its own call is folded.

        With `below` rows of answers it is folded if it would be higher than the window.
        """
        self._show_title(use)
        # the purpose of a command, in the words that Claude gave with it; and the file, unless the title names it
        said = use.input.get("description") if use.name == "Bash" else ""
        for line in (said.strip() if isinstance(said, str) else "", use.preview.path):
            if line and line not in use.preview.title:
                self.write(visible_line(line, TITLE_CHARS), "")
        if use.kind in ("permission", "trust") and use.decision.shown_reason:
            self.write(visible_line(use.decision.shown_reason, TITLE_CHARS), "dim")
        if use.preview.warning:
            self.write(f"Careful: {visible_line(use.preview.warning, TITLE_CHARS)}", "warning")
        if use.kind == "plan" and self.draw_markdown is not None:
            self.draw_markdown(visible(use.preview.detail))
            is_folded = False
        else:
            rows = None
            if below is not None and self.card is not None and use.kind == "permission":
                following = 1 if len(use.following) > MAX_FOLLOWING else 3 * len(use.following)
                rows = max(4, self.card.room(below + following))  # fewer would show nothing
            is_folded = self._detail(use.preview, rows)
        is_cut = self._show_following(use)
        if self.draw is not None and self.choose is None and not self.compact:
            self.write("", "")
        return is_cut, is_folded

    def _ask_by_key(self, use: ToolUse) -> Allow | Deny:
        offered = {choice["key"]: choice for choice in choices(use.kind, use.decision.suggestions)}
        edited: Json | None = None
        can_edit = self.edit is not None and use.kind != "trust"
        below = None if self.choose is None else self._height(self._rows(use, offered, can_edit=can_edit))
        is_cut, is_folded = self._show(use, below)
        while True:
            how = {"can_edit": can_edit, "can_allow_all": edited is None, "is_cut": is_cut}
            if self.choose is None:
                reply = self._typed(use, offered, **how)
            else:
                reply = self._chosen(self._rows(use, offered, **how), use, is_cut=is_cut, is_folded=is_folded)
            if reply is None:
                return Deny(UNANSWERED, by=self.by)
            key, rest = reply
            if key == ALL_KEY and is_cut:
                # nothing is allowed before it was shown whole
                self._show_following(use, whole=True)
                is_cut = False
            elif key == ALL_KEY:
                return replace(allowed("once", (), self.by), following=True)
            elif key == EDIT_KEY:
                edited = self._edited(use, use.input if edited is None else edited)
                # the rules were made for another input
                offered = {key: choice for key, choice in offered.items() if not choice["rules"]}
            elif offered[key]["action"] == "deny":
                return denied(use, rest, self.by)
            elif use.kind == "permission":
                return allowed(offered[key]["scope"], use.decision.suggestions, self.by, edited)
            else:
                return answered(use, {**(edited or {}), **(offered[key]["input"] or {}), "feedback": rest}, self.by)

    def _rows(
        self,
        use: ToolUse,
        offered: Mapping[str, Choice],
        *,
        can_edit: bool,
        can_allow_all: bool = True,
        is_cut: bool = True,
    ) -> list[OfferedAnswer]:
        """The answers to choose from, a no at the end."""
        shown = _offers(use, offered, can_allow_all=can_allow_all, is_cut=is_cut)
        denials = [answer for answer in shown if answer.key in offered and offered[answer.key]["action"] == "deny"]
        edit = [OfferedAnswer(EDIT_KEY, "Edit the plan…" if use.kind == "plan" else "Edit first…")] if can_edit else []
        return [*(each for each in shown if each not in denials), *edit, *denials]

    def _height(self, answers: Sequence[OfferedAnswer]) -> int:
        """The rows that the answers take with their hint and the empty row above them."""
        columns = 80 if self.card is None else self.card.columns
        texts = [text for each in answers for text in (each.label, each.about) if text]
        return 1 + sum(rows_of(f"     {text}", columns) for text in texts) + rows_of(" " * 72, columns)

    def _typed(
        self, use: ToolUse, offered: Mapping[str, Choice], *, can_edit: bool, can_allow_all: bool, is_cut: bool
    ) -> tuple[str, str] | None:
        """The key that was typed and what followed it; None at the end of the input."""
        shown = _offers(use, offered, can_allow_all=can_allow_all, is_cut=is_cut)
        for answer in shown:
            hint = _hint(use, offered[answer.key]) if answer.key in offered else ""
            self.write(f"  {answer.key}  {answer.label}{f' ({answer.about})' if answer.about else ''}{hint}", "")
        if can_edit:
            self.write(f"  {EDIT_KEY}  Edit {'' if use.kind == 'permission' else 'the plan '}first", "")
        keys = [answer.key for answer in shown] + ([EDIT_KEY] if can_edit else [])
        while True:
            typed = self.read(f"[{'/'.join(keys)}] ")
            if typed is None:
                return None
            if (reply := typed_key(typed, keys)) is not None:
                return reply

    def _chosen(
        self, shown: Sequence[OfferedAnswer], use: ToolUse, *, is_cut: bool, is_folded: bool
    ) -> tuple[str, str] | None:
        """The answer that was chosen by a key or by arrows; Escape is a no without words. Ctrl-O shows the card whole."""
        assert self.choose is not None
        keys = [answer.key for answer in shown]
        escape = "keeps planning" if use.kind == "plan" else "denies"
        below, card = self._height(shown), self.card
        lines = 0 if card is None else card.lines
        if card is not None and use.kind == "permission" and card.room(below) < 0:
            self.write(visible_line(use.preview.title, TITLE_CHARS), "title")  # its first row is out of view
        reply = self.choose(shown, f"Press {', '.join(keys[:-1])} or {keys[-1]}, or ↑ ↓ and Enter. Escape {escape}.")
        if card is not None and card.lines > lines:
            card.take_away(below, after=lines)  # it was for the answers
        if reply is not None and reply[0] == CTRL_O:
            if is_folded:
                if card is not None:
                    card.take_away(below)
                self._show(use)
            return self._chosen(shown, use, is_cut=is_cut, is_folded=False)
        if reply is None:
            return None
        key, words = (keys[-1], "") if reply[0] == ESCAPE else reply
        # what an agent does has no line of its own
        leaves = use.kind == "permission" and not use.agent_id and key != EDIT_KEY and not (key == ALL_KEY and is_cut)
        if leaves and self.taken_away is not None and card is not None:
            written = rows_of(words, card.columns) if words else 0
            if card.take_away(below + written):
                self.taken_away(use, is_folded)
        # the line of the call says that it ran, or was denied and why; what is reviewed follows
        if use.kind != "trust" and (key in (keys[0], keys[-1]) or (key == ALL_KEY and is_cut)):
            return key, words
        label = next(answer.label for answer in shown if answer.key == key)
        self.write(f"❯ {key}  {label}{f': {visible_line(words, TITLE_CHARS)}' if words else ''}", "dim")
        return key, words

    def _detail(self, preview: Preview, rows: int | None = None) -> bool:
        """Show what a call does, in at most `rows` if it is drawn; return whether something is left out."""
        if self.draw is not None and preview.detail:
            return self.draw(preview, rows)
        lines = visible(preview.detail.rstrip("\n")).split("\n") if preview.detail else []
        files = [at for at, line in enumerate(lines) if line.startswith("--- ") and lines[at + 1 : at + 2]]
        if preview.kind == "diff" and files == [0] and lines[1].startswith("+++ "):
            lines = lines[2:]  # one file needs no header: the title names it
            if lines[:1] and lines[0].startswith("@@ -0,0 "):
                lines = lines[1:]  # a new file
            lines = [line for line in lines if not line.startswith("\\ No newline")]
        for line in lines:
            self.write(f"  │ {line}", style_of_diff_line(line) if preview.kind == "diff" else "")
        return False

    def _show_following(self, use: ToolUse, *, whole: bool = False) -> bool:
        """Show the calls that are asked about next; True if something of them was left out."""
        if len(use.following) > MAX_FOLLOWING and not whole:
            count = len(use.following)
            self.write(f"{count} more wait · {ALL_KEY} reviews all {count + 1}", "dim")
            return True
        is_cut = False
        for call in use.following:
            preview = call.preview
            self.write(f"then {visible_line(preview.title, TITLE_CHARS)}", "title" if whole else "dim")
            if preview.warning:
                self.write(f"  Careful: {visible_line(preview.warning, TITLE_CHARS)}", "warning")
            lines = preview.detail.rstrip("\n").split("\n") if preview.detail else []
            if whole or len(lines) == 1:
                self._detail(preview)
            elif lines:
                is_cut = True
        return is_cut

    def _ask_questions(self, use: ToolUse) -> Allow | Deny:
        answers: dict[str, str] = {}
        skipped: dict[str, Json] = {}
        questions: Sequence[Json] = use.input["questions"]
        for number, question in enumerate(questions, 1):
            place = f"{number} of {len(questions)}: " if len(questions) > 1 else ""
            if self.choose_in_time is not None:
                typed = self._chosen_answer(question, place, self.choose_in_time)
            else:
                typed = self._answer(question, place)
            if typed is None:
                return denied(use, "", self.by)
            if typed:
                answers[question["question"]] = typed
            else:
                skipped[question["question"]] = {"unanswered": "skipped"}
        return answered(use, {"answers": answers, "annotations": skipped}, self.by)

    def _answer(self, question: Json, place: str) -> str | None:
        """The answer to one question, empty when it was skipped; None at the end of the input."""
        if place:
            self.write(f"{place}{visible_line(question['question'], TITLE_CHARS)}", "title")
        options: Sequence[Json] = question["options"]
        for number, option in enumerate(options, 1):
            self.write(f"  {number}  {visible_line(option['label'])}", "")
            if option["description"]:
                self.write(f"     {visible_line(option['description'], TITLE_CHARS)}", "dim")
            self._detail(Preview("", option.get("preview", "")))
        how = "numbers" if question.get("multiSelect") else "number"
        read = self.read_in_time or self.read
        typed = read(f"{visible_line(question['header'])}: {how} or an answer of your own (empty skips) ")
        return None if typed is None else typed_answer(question, typed)

    def _chosen_answer(
        self,
        question: Json,
        place: str,
        choose: Callable[[Sequence[OfferedAnswer], str, bool], tuple[str, str] | None],
    ) -> str | None:
        """The answer to one question by keys or arrows, empty when it was skipped; None when all were dismissed."""
        if place:
            self.write(f"{place}{visible_line(question['question'], TITLE_CHARS)}", "title")
        options: Sequence[Json] = question["options"]
        several = bool(question.get("multiSelect"))
        labels = {str(number): str(option["label"]) for number, option in enumerate(options, 1)}
        for key, option in zip(labels, options, strict=True):
            if preview := option.get("preview", ""):
                self.write(f"  {key}  {visible_line(option['label'])}", "")
                self._detail(Preview("", preview))
        abouts = [visible_line(option["description"], TITLE_CHARS) for option in options]
        rows = [
            OfferedAnswer(key, visible_line(label), about, marks=several)
            for (key, label), about in zip(labels.items(), abouts, strict=True)
        ]
        other = str(len(rows) + 1)
        rows.append(OfferedAnswer(other, "Other…", words="Your answer"))
        if place:
            rows.append(OfferedAnswer(SKIP_KEY, "Skip"))
        keys = f"{', '.join(row.key for row in rows[:-1])} or {rows[-1].key}"
        then = "Enter sends what is marked" if several else "or ↑ ↓ and Enter"
        reply = choose(rows, f"Press {keys}, {then}. Escape dismisses.", several)
        if reply is None or reply[0] == ESCAPE:
            return None
        chosen = reply[0].split(",")
        answer = ", ".join(filter(None, (*(labels[key] for key in chosen if key in labels), reply[1])))
        shown = visible_line(answer, TITLE_CHARS) or "Skipped"
        if place:  # of one question, the line of the call has the answer
            self.write(f"❯ {visible_line(question['header'])}: {shown}", "dim")
        return answer

    def _edited(self, use: ToolUse, tool_input: Json) -> Json:
        """The input as the user changed it; as it was when it makes no sense."""
        assert self.edit is not None
        field = next((name for name, value in use.input.items() if value == use.preview.detail), None)
        before = str(tool_input[field]) if field is not None else json.dumps(tool_input, indent=2, ensure_ascii=False)
        after = self.edit(before)
        changed: Any = None
        if after is not None and field is not None:
            changed = {**tool_input, field: after}
        elif after is not None:
            try:
                changed = json.loads(after)
            except ValueError as error:
                self.write(f"That is not valid JSON: {error}", "error")
        if after is None or not isinstance(changed, dict):
            self.write("The input stays as it was.", "warning")
            return tool_input
        self.write("The input is now:", "title")
        self._detail(Preview("", after))
        return changed


def _offers(use: ToolUse, offered: Mapping[str, Choice], *, can_allow_all: bool, is_cut: bool) -> list[OfferedAnswer]:
    shown = [_offer(use, choice) for choice in offered.values()]
    if can_allow_all and use.following:
        count = len(use.following) + 1
        verb = "Review" if is_cut else "Allow"
        shown.insert(1, OfferedAnswer(ALL_KEY, f"{verb} {'both' if count == 2 else f'all {count}'}"))
    return shown


def _offer(use: ToolUse, choice: Choice) -> OfferedAnswer:
    """The answer in the words of the browser's card."""
    label, words = visible_line(choice["label"], TITLE_CHARS), ""
    if choice["action"] == "deny" and use.kind != "trust":
        words = "Reason" if use.kind == "permission" else "What should be different?"
    if changes_cells(use.name) and use.kind == "permission" and choice["scope"] == "once":
        # a warning says that somebody changed the cell: nothing is changed, and Claude reads it again
        accept = "Let Claude adapt it" if use.preview.warning else "Accept"
        label = "Reject" if choice["action"] == "deny" else accept
    elif choice["rules"] and not label.lower().startswith(("allow", "always allow")):
        label = f"Allow {label}"
    rules = ", ".join(choice["rules"])
    # as they may be written here: a path in the working folder, or in the user's home, begins with that
    for folder, short in ((Path.cwd(), "./"), (Path.home(), "~/")):
        rules = rules.replace(f"(/{folder.as_posix()}/", f"({short}")
    rules = visible_line(rules, TITLE_CHARS)
    about = f"{'rule' if len(choice['rules']) == 1 else 'rules'} {rules}" if rules else ""
    return OfferedAnswer(choice["key"], label[:1].upper() + label[1:], about, words, is_rule=bool(rules))


def _hint(use: ToolUse, choice: Choice) -> str:
    if choice["action"] == "deny" and use.kind != "trust":
        example = "not now" if use.kind == "permission" else "leave the tests alone"
        what = "reason" if use.kind == "permission" else "comment"
        return f" (a {what} may follow: {choice['key']} {example})"
    return ""
