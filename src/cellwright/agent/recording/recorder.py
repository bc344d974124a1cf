"""Recorder: listens to runs and puts each whole turn into a recording, searched for secrets and signed."""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from cellwright.agent.recording.recordings import (
    Edit,
    FileState,
    RecordedCall,
    RecordedMessage,
    RecordedTurn,
    edits_of,
    encode_recording,
    is_trusted,
    kept_content,
    parse_recording,
    prompt_key,
    prompt_text,
    read_recording,
    trust,
    turn_from_json,
    without_project,
)
from cellwright.agent.recording.replay_drift import cell_place, context_digests, real_path, states_after, states_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Answered, ContextAttached, Event, RunEnd, ToolEnd, ToolProgress, TurnEnd, UserPrompt
from cellwright.redaction.redaction import JsonRedaction, redaction_of, replaced_in_words
from cellwright.sessions.project_writes import check_way, write_file
from cellwright.sessions.state_dir import PRIVATE_FILE, write_atomic
from cellwright.version import VERSION


def never_open(_path: Path) -> bool:
    """Return False, for use where there are no front ends."""
    return False


class TurnListener(Struct):
    """A turn that is going on, and what of its events is recorded.

    `nth`: which ordinal it is to have, where the caller counts.
    """

    prompt: str
    project: Path
    nth: int | None = None
    is_open: Callable[[Path], bool] = never_open
    origin: dict[str, Any] = field(default_factory=dict)
    messages: list[RecordedMessage] = field(default_factory=list)
    calls: list[RecordedCall] = field(default_factory=list)
    progress: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    edited: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    context: list[dict[str, str]] = field(default_factory=list)
    end: RunEnd | None = None
    _inputs: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def on_event(self, event: Event) -> None:
        """Record what cannot be had again."""
        match event:
            case UserPrompt():
                self.origin = {"session": event.session_id, "model": event.model, "version": VERSION}
            case ContextAttached() if not self.messages:
                self.context += context_digests(event.parts, self.project)
            case TurnEnd():
                self.messages.append(_recorded_message(event))
                self._inputs |= {b["id"]: b["input"] for b in event.message["content"] if b["type"] == "tool_use"}
            case ToolProgress():
                _add_progress(self.progress.setdefault(event.tool_use_id, []), event)
            case Answered(updated_input=dict(edited)):
                self.edited[event.tool_use_id] = edited
            case ToolEnd():
                files = self._keep_files(event) if event.status == "success" else []
                self.calls.append(_recorded_call(event, self.progress.pop(event.tool_use_id, None), files))
            case RunEnd():
                self.end = event
            case _:
                pass  # everything else comes again by itself when the turn is played

    def states(self) -> list[FileState]:
        """The states, now, of all files that the turn's calls read or edited."""
        return states_of({real_path(path) for call in self.calls for path, _ in call.files})

    def _keep_files(self, event: ToolEnd) -> list[FileState]:
        # now: the next call may change the file again
        for edit in edits_of(event.display, self.project):
            # of a notebook the cell alone matters, and its source is in the call
            if edit.after is None or cell_place(event.display, self.project) is not None:
                continue
            if (content := kept_content(edit)) is not None:
                self.contents[edit.after] = content
        tool_input = self.edited.get(event.tool_use_id) or self._inputs.get(event.tool_use_id, {})
        states = states_after(event.name, tool_input, event.display, self.project)
        return [state for state in states if not self.is_open(real_path(state[0]))]


class Recorder:
    """Records the turns of one process in the file at `path`; `project` is the folder that the runs work in.

    The events of a run go to what `listen` gives, and that goes to `save` when it has ended. A turn takes the place of
    the one with the same prompt and ordinal, so that running a notebook again from the top records it anew.
    CellwrightError at once when recording cannot work: nothing is spent on a turn that would be lost. `is_open` says of a
    file whether a front end shows it: what is on disk is not what was read then.
    """

    def __init__(
        self,
        path: Path,
        project: Path,
        environ: Mapping[str, str] = os.environ,
        is_open: Callable[[Path], bool] = never_open,
    ) -> None:
        self.path = path.absolute()
        self.project = project
        self._environ = environ
        self._is_open = is_open
        self._saving = threading.Lock()
        self._ordinals: Counter[str] = Counter()
        try:
            check_way(project, self.path)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._earlier_turns()
        if not os.access(self.path.parent, os.W_OK):
            raise _unwritable(self.path, OSError("there is no such folder, or it may not be written to"))

    def listen(self, prompt: str | Sequence[Mapping[str, Any]], *, nth: int | None = None) -> TurnListener:
        """The turn of a run on `prompt` that is about to begin. `nth` as in `Replay.turn`."""
        return TurnListener(prompt_text(prompt), self.project, nth, self._is_open)

    def save(self, listening: TurnListener, *, turn: int | None = None) -> list[str]:
        """Put the turn that has ended into the file; gives what the user should know. Takes a while: it searches.

        `turn` is which one of its session it was.
        """
        with self._saving:  # the next run may end while this one is searched
            return self._save(listening, turn)

    def _save(self, listening: TurnListener, turn: int | None) -> list[str]:
        if listening.end is None or not listening.end.ok:
            return [f"The turn did not end by itself, so it was not recorded; {self.path.name} stays as it was."]
        key = prompt_key(listening.prompt, self.project)
        self._ordinals[key] = listening.nth or self._ordinals[key] + 1
        if turn is not None:
            listening.origin["turn"] = turn
        scan = JsonRedaction(redaction_of(self._environ))
        recorded = self._cleaned(_turn(listening, key, self._ordinals[key]), scan)
        turns = {(earlier.key, earlier.ordinal): earlier for earlier in self._earlier_turns()}
        turns[recorded.key, recorded.ordinal] = recorded
        data = encode_recording(list(turns.values()))
        try:
            write_file(self.path, data, PRIVATE_FILE, top=self.project)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        trust(data)
        if not scan.found:
            return []
        counts = f"{replaced_in_words(scan.found)} in {self.path.name}."
        return [f"{counts} Look through it before you share it. Code that needs them will not replay as it ran."]

    def _earlier_turns(self) -> list[RecordedTurn]:
        if not self.path.exists():
            return []
        data = read_recording(self.path)
        turns = parse_recording(data, self.path)
        if not is_trusted(data):
            # signing the whole file would make foreign turns ours
            message = f"The recording {self.path} was made by someone else, or changed since. Record into another file."
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
        return turns

    def _cleaned(self, turn: RecordedTurn, scan: JsonRedaction) -> RecordedTurn:
        fields = scan.clean(without_project(to_builtins(turn), self.project))
        # a content is known by its hash: one that had secrets in it is of no use any more
        contents = {name: text for name, text in turn.contents.items() if scan.clean_text(text) == text}
        # a digest is no secret, however much it looks like one
        return turn_from_json({**fields, "key": turn.key, "contents": contents, "context": turn.context})


def _recorded_message(event: TurnEnd) -> RecordedMessage:
    blocks = []
    for block in event.message["content"]:
        if block["type"] == "thinking":
            # a signature is bound to the conversation it came from: it is good for nothing in another
            blocks.append({"type": "thinking", "thinking": block["thinking"]})
        elif block["type"] != "redacted_thinking":
            blocks.append(block)
    message = {**event.message, "content": blocks}
    return RecordedMessage(message, event.stop_reason, dict(event.usage), event.model, event.context_tokens)


def _recorded_call(event: ToolEnd, progress: list[dict[str, Any]] | None, files: Sequence[FileState]) -> RecordedCall:
    # where this machine keeps what a file held before an edit is of no use elsewhere
    shown = (event.display or {}).items()
    display = None if event.display is None else {key: value for key, value in shown if key != "originals"}
    error = None if event.error is None else dict(event.error)
    return RecordedCall(
        event.tool_use_id,
        event.name,
        event.status,
        event.content,
        display,
        error,
        progress,
        files,
        event.structured,
    )


def _add_progress(progress: list[dict[str, Any]], event: ToolProgress) -> None:
    # what else user code displays is displayed again when the code is played
    is_again = event.place is not None and not any(kind.startswith("image/") for kind in event.output or ())
    if event.output is not None and not is_again:
        progress.append({"output": dict(event.output)})
    if event.text and progress and "text" in progress[-1]:
        progress[-1]["text"] += event.text
    elif event.text:
        progress.append({"text": event.text})


def _turn(listening: TurnListener, key: str, ordinal: int) -> RecordedTurn:
    messages = [_with_edits(message, listening.edited) for message in listening.messages]
    return RecordedTurn(
        prompt=listening.prompt,
        key=key,
        ordinal=ordinal,
        messages=messages,
        calls=listening.calls,
        contents=listening.contents,
        files=listening.states(),
        origin=listening.origin,
        context=listening.context,
    )


def _with_edits(recorded: RecordedMessage, edited: Mapping[str, Mapping[str, Any]]) -> RecordedMessage:
    """Put in the inputs that the user edited: the recording has what ran, for that is what a policy must judge."""
    content = [
        {**block, "input": edited[block["id"]]} if block.get("id") in edited else block
        for block in recorded.message["content"]
    ]
    return RecordedMessage(
        {**recorded.message, "content": content},
        recorded.stop_reason,
        recorded.usage,
        recorded.model,
        recorded.context_tokens,
    )


def _unwritable(path: Path, error: OSError) -> CellwrightError:
    message = f"The recording cannot be written to {path}: {error}. Choose another file."
    return CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message, details={"path": str(path)})


def apply_edit(edit: Edit, content: bytes) -> None:
    """Give the file its recorded content; mode and missing folders as an editor would have them. OSError otherwise."""
    if edit.link is not None:
        raise OSError(edit.link)
    edit.path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(edit.path.stat().st_mode) if edit.path.exists() else 0o644
    write_atomic(edit.path, content, mode)
