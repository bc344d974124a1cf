"""Session: the messages of one conversation, in memory and, line by line, in its transcript."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.model.pricing import context_tokens
from cellwright.sessions.api_messages import (
    IMPORTED_NOTE,
    begins_turn_encoded,
    ended_note,
    is_server_call,
    open_server_calls,
    valid_history,
)
from cellwright.sessions.file_changes import forget_outcomes, outcomes
from cellwright.sessions.session_lines import CutAnswer, SessionLines, faults_text, recovered_answer, recovered_results
from cellwright.sessions.state_dir import make_private_folder, new_session_id
from cellwright.sessions.transcripts import transcript
from cellwright.sessions.transcripts import transcript_lock as lease
from cellwright.sessions.transcripts.fork_point import ForkPoint, without_thinking
from cellwright.sessions.transcripts.transcript import Header, Transcript
from cellwright.sessions.transcripts.transcript_file import Line, TranscriptFile, create_file, encode_json, unwritable

WINDOW_SECONDS = 60.0


WAIT_SECONDS = 2.0
"""The time a second writer waits for the first to let go, before it forks."""

_NO_RESULTS: Mapping[str, Mapping[str, Any]] = {}

_ANSWER = b'{"role":"assistant"'
_SERVER_CALL = b'"type":"server_tool_use"'
NOT_WRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""The errors of a folder that the user may not write: a new session goes on without a file."""

_CUT_OFF = "the session was cut off before this call ended; how far it got is not known"

_NOT_RUN = {
    "interrupted": "Not run: the user stopped the answer that asked for it.",
    "kernel": "Not run: the process ended while the answer that asked for it was streaming.",
}


class CallTimes:
    """The times of the calls that succeeded, in seconds, by tool."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def add(self, tool_name: str, seconds: float) -> None:
        """Take note of a call that has ended."""
        # so many of the latest calls of a tool count
        self._times.setdefault(tool_name, deque(maxlen=20)).append(seconds)

    def estimate(self, tool_names: Sequence[str], side_by_side: int = 1) -> float | None:
        """The time that calls of these tools take, at most `side_by_side` at once; None if one was never called.

        >>> times = CallTimes()
        >>> times.add("Bash", 2.0), times.add("Bash", 4.0)
        (None, None)
        >>> times.estimate(["Bash"]), times.estimate(["Bash", "Bash"]), times.estimate(["Bash", "Bash"], 2)
        (3.0, 6.0, 3.0)
        >>> times.estimate(["Bash", "Read"]) is None
        True
        """
        if not tool_names or any(name not in self._times for name in tool_names):
            return None
        import statistics  # brings fractions and decimal along; most runs estimate nothing

        medians = [statistics.median(self._times[name]) for name in tool_names]
        return max(max(medians), sum(medians) / side_by_side)


class CallRate(Struct):
    """The calls of the last minute, by tool; a call that would be one too many is refused."""

    _times: dict[str, deque[float]] = field(default_factory=dict)

    def count(self, tool_name: str, calls_per_minute: int) -> None:
        """Count a call that is about to run. Raises ToolError RATE_LIMIT_EXCEEDED, and then does not count it."""
        now = time.monotonic()
        times = self._times.setdefault(tool_name, deque())
        while times and now - times[0] >= WINDOW_SECONDS:
            times.popleft()
        if len(times) >= calls_per_minute:
            wait = math.ceil(WINDOW_SECONDS - (now - times[0]))
            raise ToolError(
                f"{tool_name} may be called {calls_per_minute} times a minute; nothing was run. "
                f"Do something else, and call it again in {wait} s.",
                code=ErrorCode.RATE_LIMIT_EXCEEDED,
                details={"calls_per_minute": calls_per_minute, "retry_after_seconds": wait},
            )
        times.append(now)


class Session:
    """The only state of a conversation. `append` writes a message to disk before anybody acts on it.

    `started_by` is how it came to be here ("startup", "clear", "resume", "fork") until its first run has told hooks of it.

    One thread uses it at a time. What `encoded` and `messages` give is not to be changed. `usage` sums up the API's counts,
    `cost_usd` is in US dollars, None where a price is not known. Raises `CellwrightError` where it cannot be written.

    >>> session = Session.create(Path.cwd(), None)  # kept in memory; `ask(…, session=session)` goes on with it
    >>> session.messages, session.cost_usd
    ([], 0.0)
    """

    def __init__(self, cwd: Path, folder: Path | None, id: str = "") -> None:
        self.id = id or new_session_id()
        self.cwd = cwd
        # absolute, because user code may change the working directory
        self.path = folder.absolute() / f"{self.id}.jsonl" if folder else None
        self.notices: list[str] = []
        self.granted: tuple[str, ...] = ()
        self.mode: str | None = None
        self.agent: str | None = None
        """The agent that works in this session itself, by its name; kept with the end of each turn."""
        self.started_by = "startup"
        self.call_rate = CallRate()
        self.call_times = CallTimes()
        self.next_seq = 1
        self.told_lacking = ""
        """The last notice to the user about what a model lacks."""
        self._header: Header | None = None
        self._to_declare: list[dict[str, Any]] = []
        self._tools_of: tuple[bytes, int] = (b"", 0)
        self._all_tools = b"[]"
        self._epoch = 1
        self._check = 0
        self._lines = SessionLines()
        self._file: TranscriptFile | None = None

    @classmethod
    def create(cls, cwd: Path, folder: Path | None, id: str = "") -> Self:
        """A new session of the project at `cwd`, kept in `folder` or in memory only; `begin` writes the file.

        `id` is its own choice unless it is given.
        """
        return cls(cwd, folder, id)

    @classmethod
    def with_history(
        cls,
        cwd: Path,
        folder: Path | None,
        id: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        began: float,
        ended: float,
    ) -> Self:
        """A new session that goes on from `messages`, which another program had with Claude; `begin` gives it the rest.

        `began` and `ended` are in seconds since the epoch. What the messages cost is not counted.
        """
        session = cls(cwd, folder, id)
        session._header = Header(
            id=session.id, created=round(began, 3), cwd=cwd, epoch=1, model="", system=b"[]", tools=b"[]"
        )
        at = round(max(began, ended), 3)
        lines = [
            Line({"seq": seq, "at": at, "epoch": 1}, encode_json(message)) for seq, message in enumerate(messages, 1)
        ]
        session._lines = SessionLines(lines)
        session.next_seq = len(lines) + 1
        session.started_by = "resume"
        session._create_file(lines)
        return session

    @classmethod
    def load(cls, path: Path, *, wait_seconds: float = WAIT_SECONDS) -> Self:
        """Go on with the session at `path`, as its one writer.

        A last line that was not finished is dropped, calls without a result get one that says so, the answer that was
        streaming is kept as far as it came, and what is damaged is left out. While another process writes to it, waits
        `wait_seconds` and then gives a fork; `notices` says what was done.
        SESSION_NOT_FOUND when there is none, SESSION_CORRUPTED when its header or all its lines cannot be read.
        """
        path = path.absolute()
        if not path.exists():
            transcript.read_transcript(path)  # raises, and leaves no lease file behind
        try:
            owned = lease.acquire(lease.lease_path(path), wait_seconds)
        except OSError as error:
            raise unwritable(path, error) from error
        if owned is None:
            return cls._beside_other_writer(path)
        try:
            return cls._owned(path, owned)
        except BaseException:
            owned.release()
            raise

    @classmethod
    def _owned(cls, path: Path, owned: lease.Lease) -> Self:
        content = transcript.read_transcript(path)
        if content.faults and not content.lines:
            message = f"No line of the session {path} can be read. Start a new session; the file stays as it is."
            raise CellwrightError(ErrorCode.SESSION_CORRUPTED, message, details={"path": str(path)})
        try:
            if content.format != transcript.FORMAT:
                create_file(path, transcript.migrated(path))
                content = transcript.read_transcript(path)
            owned.write_holder(content.epoch + 1)
            file = TranscriptFile(path, owned, content.size, is_new=False)
        except OSError as error:
            raise unwritable(path, error) from error
        session = cls(content.header.cwd, path.parent)
        session._take(content, id=content.header.id, path=path)
        # events' numbers jump on resume: a transcript does not know how many came after its last message
        session.next_seq += 1_000_000
        session.started_by = "resume"
        session._epoch = owned.epoch
        session._check = content.check
        session._file = file
        if file.has_rest:
            session.notices.append("The last line of the session had not been written completely; it was dropped.")
        session._mend(content)
        return session

    def _mend(self, content: Transcript) -> None:
        """Make of what was read a conversation that can go on; `notices` tells of it."""
        if content.faults:
            self.notices.append(faults_text(self.id, content.faults))
            self.replace_history(valid_history(transcript.messages_of(self.in_effect())))
            self.write_aside(transcript.FAULTS_TOLD, content.count)
        if (cut := recovered_answer(content.open)) is not None:
            self.keep_cut_answer(cut, "kernel")
            if cut.content():
                self.notices.append(
                    "Claude's last answer was cut off as the process ended; it is kept as far as it came."
                )
        self.repair(recovered_results(content.open))

    def keep_cut_answer(self, answer: CutAnswer, reason: str) -> None:
        """Add what there is of an answer that broke off, with what ended it. Where nothing is left of it, its cost alone."""
        content = answer.content(self.open_server_calls())
        self.leave_out_open_server_calls(content)
        usage, cost = answer.spent()
        if not content:
            self.spend(usage, cost)
            return
        self.append(
            {"role": "assistant", "content": content},
            usage=usage,
            model=answer.model,
            cost_usd=cost,
            context_tokens=context_tokens(usage),
            cut=reason,
        )
        because = _NOT_RUN.get(reason, "Not run: an error ended the answer that asked for it.")
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": because, "is_error": True}
            for block in content
            if block["type"] == "tool_use"
        ]
        self.append({"role": "user", "content": [*results, ended_note(reason)]})

    def replace_history(self, messages: list[dict[str, Any]]) -> None:
        """Have `messages` be the conversation, from where they differ on; what they replace stays in the transcript."""
        lines = self.in_effect()
        encoded = list(map(encode_json, messages))
        same = next((at for at, line in enumerate(lines) if encoded[at : at + 1] != [line.message]), len(lines))
        while 0 < same < len(lines) and lines[same - 1].meta["seq"] == lines[same].meta["seq"]:
            same -= 1  # one cannot return to between the two
        if same < len(lines) or same < len(encoded):
            self.return_to(lines[same - 1].meta["seq"] if same else 0)
        for message in encoded[same:]:
            self._write(message, {})

    @classmethod
    def _beside_other_writer(cls, path: Path) -> Self:
        holder = lease.read_holder(lease.lease_path(path))
        who = f"process {holder.pid} on {holder.host}" if holder else "another process"
        session = cls.fork_from(path)
        session.notices.insert(
            0,
            f"The session {path.stem} is in use by {who}. "
            f"This is its fork {session.id}; your messages here are not added to it.",
        )
        return session

    @classmethod
    def fork_from(cls, path: Path, kept: Callable[[list[Line]], list[Line]] = list) -> Self:
        """A new session with what can be read of the one at `path`, which stays untouched; needs no lease.

        Takes what `kept` leaves of its lines. Raises as `load` when there is no file or its header is damaged, and what
        `kept` raises.
        """
        content = transcript.read_transcript(path)
        lines = kept(content.lines)
        # up to the last that is kept: what was taken back before it is so in the fork
        last = lines[-1] if lines else None
        count = next((at for at in range(len(content.lines), 0, -1) if content.lines[at - 1] is last), 0)
        content = replace(content, lines=content.lines[:count])
        session = cls(content.header.cwd, path.parent)
        session._take(content, id=session.id, path=session.path)
        session._begin_fork(content.header.id, _point(path, content.lines))
        # what still streams is its writer's
        session._mend(replace(content, open=() if lease.is_held(lease.lease_path(path)) else content.open))
        return session

    def fork(
        self,
        *,
        tools: list[dict[str, Any]] | None = None,
        system: Sequence[Mapping[str, Any]] | None = None,
        id: str = "",
    ) -> Self:
        """A new session with the same messages; from here on each goes its own way.

        With other `tools` or another `system` the fork leaves the thinking blocks out: each is bound to those that it was
        thought with.
        """
        session = type(self)(self.cwd, self.path.parent if self.path else None, id)
        if self._header is not None:
            with contextlib.suppress(CellwrightError):  # where it cannot be written, the fork goes on all the same
                self.settle()  # what it has spent is its own
            header, lines = self._header, list(self._lines.all)
            point = _point(self.path, lines, without_thinking=tools is not None or system is not None)
            if tools is not None:
                header = replace(header, tools=encode_json(tools))
            if system is not None:
                header = replace(header, system=encode_json([dict(block) for block in system]))
            if tools is not None or system is not None:
                lines = list(map(without_thinking, lines))
            session._take(Transcript(header, lines, self._epoch, 0), id=session.id, path=session.path)
            session._begin_fork(self.id, point)
            session.repair()
        session.granted = self.granted
        session.mode = self.mode
        session.agent = self.agent
        session.next_seq = self.next_seq
        return session

    def _take(self, content: Transcript, *, id: str, path: Path | None) -> None:
        self.id, self.path = id, path
        self._header = content.header
        self._lines = SessionLines(inherited=content.inherited)
        for line in content.lines:
            self._remember(line)

    def _begin_fork(self, forked_from: str, point: ForkPoint | None) -> None:
        """Make the fork's transcript, which points at the lines that it begins with; without a `point` it has them all."""
        assert self._header is not None
        self.started_by = "fork"
        lines = [Line({**line.meta, "epoch": 1}, line.message) for line in self._lines.all]
        self._header = replace(
            self._header,
            id=self.id,
            created=_now(),
            epoch=1,
            forked_from=forked_from,
            parent=point,
            copied=None if point is not None else len(lines),
        )
        self._lines = SessionLines(lines, inherited=len(lines))
        self._create_file([] if point is not None else lines)

    def repair(self, known: Mapping[str, Mapping[str, Any]] = _NO_RESULTS) -> None:
        """Answer calls that were open when nobody could answer them any more; `notices` tells of it.

        `known` are results that were there already, by the ids of their calls.
        """
        self.leave_out_open_server_calls()
        if count := self.answer_open_calls(_CUT_OFF, known):
            self.notices.append(f"{count} tool call(s) had not ended; Claude is notified.")

    def open_server_calls(self) -> set[str]:
        """The ids of calls of the API's own tools that the last answer, which was paused, has left open."""
        return open_server_calls(block for message in self._last_answers() for block in message["content"])

    def leave_out_open_server_calls(self, following: Sequence[Mapping[str, Any]] = ()) -> None:
        """Take calls of the API's own tools out that have no result, in the last answer or in what follows it: nobody goes
        on with them any more.
        """
        answers = self._last_answers()
        halves = open_server_calls([*(block for message in answers for block in message["content"]), *following])
        if not answers or not halves:
            return
        mended = []
        for message in answers:
            content = [block for block in message["content"] if not (is_server_call(block) and block["id"] in halves)]
            mended += [{**message, "content": content}] if content else []
        self.replace_history([*self.messages[: -len(answers)], *mended])

    def _last_answers(self) -> list[dict[str, Any]]:
        """The answers at the end of the conversation, one behind the other, if such a call is in one of them."""
        found = [*itertools.takewhile(lambda message: message.startswith(_ANSWER), reversed(self.encoded))]
        if not any(_SERVER_CALL in message for message in found):
            return []
        answers = [json.loads(message) for message in reversed(found)]
        return answers if all(isinstance(answer["content"], list) for answer in answers) else []

    def answer_open_calls(self, because: str, known: Mapping[str, Mapping[str, Any]] = _NO_RESULTS) -> int:
        """Answer the calls of the last message, as interrupted where there is no result; gives the number of those.

        The API refuses a call without a result. Of calls that changed files it is told what came of that, where it is known.
        """
        changed = outcomes(self.id)
        last = self.encoded[-1] if self.encoded else b""
        results = transcript.interrupted_results(last, because=because, known=changed)
        if results is None:
            return 0
        answers = [known.get(result["tool_use_id"], result) for result in results["content"]]
        self.append({**results, "content": answers})
        if changed:
            forget_outcomes(self.id)
        return sum(answer["tool_use_id"] not in known for answer in answers)

    @property
    def model(self) -> str:
        """The model the session was begun with; "" before that."""
        return self._header.model if self._header else ""

    @property
    def has_begun(self) -> bool:
        """True when it has its system prompt and tools; messages of another program may be there before."""
        return self.model != ""

    @property
    def is_fresh(self) -> bool:
        """True until the first prompt, which comes with all that is told once; another program's messages may be there."""
        return not self.encoded or self.encoded[-1].startswith(IMPORTED_NOTE)

    @property
    def forked_from(self) -> str | None:
        """The id of the session that this one goes on from."""
        return self._header.forked_from if self._header else None

    @property
    def last_model(self) -> str:
        """The model that answered last; "" before that."""
        return next((line.meta["model"] for line in reversed(self._lines.all) if "model" in line.meta), "")

    @property
    def idle_seconds(self) -> float:
        """The time since the last message."""
        return time.time() - self._lines.all[-1].meta["at"] if self._lines.all else math.inf

    @property
    def system(self) -> bytes:
        """The system prompt's blocks, an encoded JSON array."""
        return self._header.system if self._header else b"[]"

    @property
    def tools(self) -> bytes:
        """The tools' definitions, an encoded JSON array: those it began with, then those declared since, in order."""
        if self._header is None:
            return b"[]"
        added = (*self._lines.declared, *self._to_declare)
        if not added:
            return self._header.tools
        if self._tools_of != (self._header.tools, len(added)):
            first = json.loads(self._header.tools)
            names = {tool["name"] for tool in first}
            more = {tool["name"]: tool for tool in reversed(added) if tool["name"] not in names}
            self._all_tools = encode_json([*first, *reversed(more.values())])
            self._tools_of = (self._header.tools, len(added))
        return self._all_tools

    @property
    def tool_names(self) -> frozenset[str]:
        """The names of the tools that are declared."""
        return _names_of(self.tools)

    def declare(self, tools: Sequence[dict[str, Any]]) -> None:
        """Add definitions of tools that are loaded when they are needed; written down with the next message."""
        self._to_declare += tools

    @property
    def encoded(self) -> list[bytes]:
        """The messages that the API gets, each as it was sent: those in effect since the last boundary."""
        return self._lines.encoded

    @property
    def story(self) -> Sequence[bytes]:
        """All messages in effect, those before boundaries and the boundaries themselves among them."""
        return self._lines.story

    def story_lines(self) -> list[Line]:
        """The lines of `story`, with what is known of each message."""
        return self._lines.story_lines()

    @property
    def last_seq(self) -> int:
        """The `seq` of the last line."""
        return int(self._lines.all[-1].meta["seq"])

    def turn_ends(self) -> dict[int, Mapping[str, Any]]:
        """The ends of turns, as far as they are known, by the `seq` of the line that each began with."""
        ends = (line.meta[transcript.ENDED] for line in self._lines.all if transcript.ENDED in line.meta)
        return {end["prompt"]: end for end in ends}

    def said(self) -> list[dict[str, Any]]:
        """Decode all messages in effect that somebody said, those before boundaries too: slow in a long session."""
        return transcript.messages_of(filter(transcript.is_said, self.story_lines()))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The same, decoded as they are asked for."""
        return self._lines.messages

    def in_effect(self) -> list[Line]:
        """The lines of `encoded`, with what is known of each message."""
        return self._lines.in_effect()

    @property
    def context_tokens(self) -> int:
        """The tokens that the conversation takes of the context by the API's last count."""
        return self._lines.context_tokens

    @property
    def uncounted_bytes(self) -> int:
        """The bytes of `encoded` that came after that count."""
        return self._lines.uncounted_bytes

    @property
    def usage(self) -> dict[str, Any]:
        """The API's usage blocks of all answers, also of those that were not kept, summed field by field."""
        return dict(self._lines.spent().usage)

    @property
    def cost_usd(self) -> float | None:
        """The cost of the session's answers; None when the price of one of them is not known.

        In a fork those since the fork: the others were paid for in the session that it goes on from.
        """
        return self._lines.spent().cost_usd

    @property
    def cost_before_usd(self) -> float | None:
        """The cost of the answers that a fork has of other sessions; 0 in a session that is none."""
        return self._lines.spent_before().cost_usd

    @property
    def compactions_usd(self) -> tuple[int, float | None]:
        """The number of this session's compactions, and what they cost of `cost_usd`."""
        return self._lines.compactions_usd()

    def spend(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that was paid for and is no message of the session; it is written with the next one."""
        self._lines.spend(usage, cost_usd)

    def begin(self, *, model: str, system: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
        """Set what the session has once, and make its transcript; does nothing in a session that has begun."""
        if self.has_begun:
            return
        if self._header is not None:
            self._begin_with_history(model, encode_json(system), encode_json(tools))
            return
        self._header = Header(
            id=self.id,
            created=_now(),
            cwd=self.cwd,
            epoch=1,
            model=model,
            system=encode_json(system),
            tools=encode_json(tools),
        )
        try:
            self._create_file([])
        except CellwrightError:
            self._header = None
            raise

    def _begin_with_history(self, model: str, system: bytes, tools: bytes) -> None:
        """The same where messages stand there already: the file is put in place anew, with them."""
        assert self._header is not None
        header = replace(self._header, model=model, system=system, tools=tools)
        if self._file is not None and self.path is not None:
            own = self._lines.all if header.parent is None else self._lines.own()
            data, check = transcript.encode_lines(header, own)
            try:
                create_file(self.path, data)
                self._file = self._file.reopened(len(data))
            except OSError as error:
                raise unwritable(self.path, error) from error
            self._check = check
        self._header = header

    def _create_file(self, lines: Sequence[Line]) -> None:
        if self.path is None or self._header is None:
            return
        data, self._check = transcript.encode_lines(self._header, lines)
        try:
            make_private_folder(self.path.parent)
            owned = lease.acquire(lease.lease_path(self.path), 0)
            assert owned is not None, "nobody else knows the id of a new session"
            owned.write_holder(1)
            create_file(self.path, data)
            self._file = TranscriptFile(self.path, owned, len(data), is_new=True)
        except OSError as error:
            if error.errno not in NOT_WRITABLE:
                raise unwritable(self.path, error) from error
            self.notices.append(
                "This conversation is kept in memory only, and its turns cannot be undone: "
                f"{self.path.parent} cannot be written ({error.strerror}). Set CELLWRIGHT_HOME to a folder that can."
            )
            self.path = None

    def append(
        self,
        message: dict[str, Any],
        *,
        usage: Mapping[str, Any] | None = None,
        model: str | None = None,
        cost_usd: float | None = None,
        context_tokens: int | None = None,
        cut: str | None = None,
        calls: Mapping[str, Any] | None = None,
        notices: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Add a message, on disk before in memory; when it cannot be written, CellwrightError and neither has it."""
        if self._header is None:
            raise RuntimeError("begin the session before its first message: the header comes first")
        facts = {"usage": usage, "model": model, "cost_usd": cost_usd, "context_tokens": context_tokens, "cut": cut}
        self._write(encode_json(message), {**facts, "calls": calls or None, "notices": notices or None})

    def note_end(self, facts: Mapping[str, Any]) -> None:
        """Keep how a turn ended, as `transcript.ENDED` has it; what was paid for since the last message goes with it."""
        if self._lines.all:
            last = self._lines.all[-1].meta["seq"]
            worked = {"agent": self.agent} if self.agent is not None else {}
            self._write(transcript.TAKEN_BACK, {"as_after": last, transcript.ENDED: {**facts, **worked}})

    def compact(self, message: dict[str, Any], *, tokens: int, about: Mapping[str, Any]) -> None:
        """Write a boundary: from here on `message` is sent in the place of all that was said before, which is kept.

        `tokens` is what the conversation takes then, roughly; `about` as `transcript.COMPACTED` has it.
        """
        facts = {transcript.COMPACTED: dict(about), "context_tokens": tokens}
        self._write(encode_json(message), facts)

    def reattach(self, message: dict[str, Any], *, tokens: int) -> None:
        """Add what Claude is told again behind a boundary; `tokens` is what the conversation takes then, roughly."""
        self._write(encode_json(message), {transcript.REATTACHED: True, "context_tokens": tokens})

    def take_back(self) -> None:
        """Take the last message out again: the API would refuse every later request for it as well."""
        self._write(transcript.TAKEN_BACK, {})

    def rewind(self, turn: int) -> None:
        """Take back the user's prompt number `turn`, from 1, and all that was said after it; files stay as they are.

        What is taken back stays in the transcript. `Agent.rewind` takes back files and notebook cells as well. Raises
        `CellwrightError` INVALID_PARAMETERS where there is no such turn.

        >>> session = Session.create(Path.cwd(), None)
        >>> session.begin(model="claude-opus-5-5", system=[], tools=[])
        >>> for words in ("One?", "Two?"):
        ...     session.append({"role": "user", "content": words})
        >>> session.rewind(2)
        >>> [message["content"] for message in session.messages]
        ['One?']
        """
        lines = self.story_lines()
        begins = [at for at, line in enumerate(lines) if begins_turn_encoded(line.message)]
        if not 0 < turn <= len(begins):
            message = f"The session {self.id} has no turn {turn!r}; it has {len(begins)}, counted from 1."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        kept = at = begins[turn - 1]
        while 0 < at < len(lines) and lines[at - 1].meta["seq"] == lines[at].meta["seq"]:
            at -= 1  # one cannot return to between the two
        self.return_to(lines[at - 1].meta["seq"] if at else 0)
        for line in lines[at:kept]:
            self._write(line.message, {})

    def return_to(self, seq: int) -> None:
        """Go on as after the event `seq`; what was said since, or taken back since, stays in the transcript."""
        self.next_seq += 1  # a place of its own among the lines: one may return to what was before it
        self._write(transcript.TAKEN_BACK, {"as_after": seq})

    def _write(self, message: bytes, facts: dict[str, Any]) -> None:
        if not_kept := self._lines.not_kept_json():
            facts["not_kept"] = not_kept
        if self._to_declare:
            facts["tools"] = self._to_declare
        line = self._line(message, facts)
        self._append_line(line)
        self._remember(line)
        self._to_declare = []
        self._lines.wrote_not_kept()

    def write_aside(self, kind: str, content: Any, **facts: Any) -> None:
        """Write a line that is no part of the conversation; in a session that is kept in memory alone there is none."""
        if self.path is not None and self._header is not None:
            self._append_line(self._line(transcript.TAKEN_BACK, {transcript.ASIDE: kind, "content": content, **facts}))

    def _line(self, message: bytes, facts: Mapping[str, Any]) -> Line:
        known = {key: value for key, value in facts.items() if value is not None}
        return Line({"seq": self.next_seq, "at": _now(), "epoch": self._epoch, **known}, message)

    def _append_line(self, line: Line) -> None:
        if self._file is not None:
            data = transcript.encode_line(line, self._check)
            self._file.append(data)
            self._check = transcript.checksum(data)
        elif self.path is not None:
            raise unwritable(self.path, OSError("the session is closed"))

    def _remember(self, line: Line) -> None:
        self._lines.add(line)
        self.next_seq = max(self.next_seq, line.meta["seq"])
        if transcript.ENDED in line.meta:
            self.agent = line.meta[transcript.ENDED].get("agent")

    def settle(self) -> None:
        """Write what was paid for since the last message; else it stands with the next one, which may never come."""
        if self._file is not None and self._lines.not_kept_json() and self._lines.all:
            # it takes nothing back: as after the line that is the last already
            self._write(transcript.TAKEN_BACK, {"as_after": self._lines.all[-1].meta["seq"]})

    def flush(self) -> None:
        """Have everything that was appended on the disk itself (fsync)."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Give the lease back; the session can be read, but not appended to."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _point(path: Path | None, lines: Sequence[Line], *, without_thinking: bool = False) -> ForkPoint | None:
    """The place behind `lines` in the transcript at `path`; None where there is nothing on disk to point at."""
    if path is None or not lines or not path.exists():
        return None
    return ForkPoint.after(path.stem, lines, without_thinking=without_thinking)


@functools.lru_cache(maxsize=8)
def _names_of(tools: bytes) -> frozenset[str]:
    return frozenset(tool["name"] for tool in json.loads(tools))


def _now() -> float:
    return round(time.time(), 3)
