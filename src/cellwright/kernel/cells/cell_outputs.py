"""The outputs of a cell that is run for Claude, as nbformat 4 has them, while they come; and those of two runs compared.

Any thread puts pieces in; the agent's thread takes them out and asks what the notebook does not have yet. The result
and the error go into `Out` and `_` as ever, and into the cell's own outputs. Formats:
https://nbformat.readthedocs.io/en/latest/format_description.html#code-cell-outputs; streams, updates and clearing as
in https://jupyter-client.readthedocs.io/en/stable/messaging.html#messages-on-the-iopub-pub-sub-channel.

A comparison leaves out what differs each time (addresses, how long it took). Dates and times do count: they may be data.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextvars
import hashlib
import io
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from IPython.core.display_trap import DisplayTrap
from msgspec import Struct

from cellwright.kernel.execute.captured_output import (
    ESCAPE_SEQUENCE,
    IMAGE_TYPES,
    OVERWRITTEN,
    Display,
    cell_name,
    display_of,
    drawn_pieces,
)
from cellwright.kernel.execute.redirect import Replacement, RunningCode, StreamName
from cellwright.kernel.execute.traceback import short_traceback
from cellwright.text import counted, lazy_pattern
from cellwright.this_process.late_imports import importing
from cellwright.tools.notebook.notebook_source import joined
from cellwright.tools.notebook.open_notebook import DrawnOutput

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


HEAD_CHARS = 1_000_000
TAIL_CHARS = 100_000
"""The length of the beginning and of the end of one stream that a notebook keeps."""

MAX_OUTPUTS = 500
MAX_BYTES = 50_000_000
"""The size one cell may put into a notebook; what comes after that is counted."""

Output = dict[str, Any]

SHOWN_CHARS = 1_500
"""The length to which each side of a difference is shown."""

_NUMBER = r"\d[\d,.]*(?:e[+-]?\d+)?"
_UNIT = r"(?:ns|µs|μs|us|ms|s|secs?|seconds?|min|mins|minutes?|h)"
_TIME = rf"{_NUMBER}\s*{_UNIT}\b"
_TOOK = (
    r"(?:took|elapsed|duration|runtime|(?:run|elapsed|execution|training|total|fit) time"
    r"|(?:done|finished|completed) (?:in|after))"
)

VOLATILE: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_pattern(r"\b0x[0-9a-fA-F]{5,}\b"), "0x…"),
    (lazy_pattern(r"\bid=\d{9,}\b"), "id=…"),
    (lazy_pattern(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<uuid>"),
    (lazy_pattern(r"ipykernel_\d+(?:/\d+\.py)?"), "ipykernel_…"),
    (lazy_pattern(r"\b(?:In|Out) ?\[\d+\]"), "In[…]"),
    (lazy_pattern(r"<ipython-input-\d+-\w+>"), "<ipython-input>"),
    (lazy_pattern(r"^(?:CPU times|Wall time|Compiler time)\s*:.*$", re.MULTILINE), "<time>"),
    (lazy_pattern(rf"(?<![\d,.]){_TIME} ± {_TIME} per loop \(.*\)"), "<time per loop>"),
    (lazy_pattern(r"^.*\d%\|.*\|.*$", re.MULTILINE), "<progress bar>"),
    (lazy_pattern(r"^.*\b\d+it \[\d\d:\d\d, .*\]$", re.MULTILINE), "<progress bar>"),
    (lazy_pattern(rf"(?P<what>\b{_TOOK}[^\n\d]{{0,12}}){_TIME}", re.IGNORECASE), r"\g<what><time>"),
    (lazy_pattern(rf"(?P<what>\b{_TOOK} ?[:=] ?){_NUMBER}", re.IGNORECASE), r"\g<what><time>"),
    (lazy_pattern(r"\b(?P<table>T_)[0-9a-f]{5}(?![0-9a-z])"), r"\g<table>…"),
)
"""Patterns of what differs each time, with their stand-ins: pandas numbers its styled tables at random, for one."""

_SVG_IDS = (
    (lazy_pattern(r"<dc:date>.*?</dc:date>", re.DOTALL), ""),
    (lazy_pattern(r'((?:id|href|clip-path)="(?:url\()?#?)[\w-]+'), r"\1…"),
)

_TEXTS = ("text/plain", "text/markdown", "text/latex", "text/html", "application/json", "image/svg+xml")
"""The types that say most of a mimebundle, best first: the others say the same in another way."""


class _Show(Struct, frozen=True):
    """A display, a result or an error. `text` is what Claude reads in its place."""

    output: Output
    display_id: str = ""
    text: str = ""


class _Updated(Struct, frozen=True):
    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    display_id: str


class _Cleared(Struct, frozen=True):
    wait: bool


_Piece = tuple[str, StreamName] | _Show | _Updated | _Cleared


class _Kept(Struct):
    """An output of the cell. Of a long stream `head` is the beginning, and `dropped` counts what was cut out after it."""

    output: Output
    display_id: str = ""
    text: str = ""
    head: str = ""
    dropped: int = 0


class OutputChanges(Struct, frozen=True):
    """The outputs a notebook lacks: to be added, or with `clear` to be put in the place of those that it has."""

    outputs: Sequence[Mapping[str, Any]]
    clear: bool

    def __bool__(self) -> bool:
        return bool(self.outputs) or self.clear


@dataclass
class CellOutputs:
    """The outputs of one run of a cell. A `CodeOutput`; what is not part of that is for the agent's thread.

    `changed` is called on `loop` when something came. `older` are the outputs of cells that ran before in the same call:
    a display of theirs may be updated here.
    """

    loop: asyncio.AbstractEventLoop
    changed: Callable[[], object]
    older: Sequence[CellOutputs] = ()
    _shell: InteractiveShell | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)
    _inbox: deque[_Piece] = field(default_factory=deque, init=False)
    _notified: bool = field(default=False, init=False)
    _display_ids: set[str] = field(default_factory=set, init=False)
    _context: contextvars.Context = field(default_factory=contextvars.copy_context, init=False)
    _kept: list[_Kept] = field(default_factory=list, init=False)
    _bytes: int = field(default=0, init=False)
    _left_out: int = field(default=0, init=False)
    _note: _Kept | None = field(default=None, init=False)
    _clear_next: bool = field(default=False, init=False)
    _sent: int = field(default=0, init=False)
    _sent_chars: int = field(default=0, init=False)
    _stale: bool = field(default=True, init=False)

    # ------------------------------------------------------------------ from any thread

    def write(self, text: str, stream: StreamName = "stdout") -> None:
        self._put((text, stream))

    def display(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str, *, update: bool) -> None:
        data, metadata = _json(data), _json(metadata)
        if not update:
            self._display_ids.add(display_id)
            self._put(_Show({"output_type": "display_data", "data": data, "metadata": metadata}, display_id))
            return
        for outputs in (self, *self.older):
            outputs._put(_Updated(data, metadata, display_id))

    def knows(self, display_id: str) -> bool:
        return display_id in self._display_ids or any(outputs.knows(display_id) for outputs in self.older)

    def clear(self, *, wait: bool) -> None:
        self._put(_Cleared(wait))

    def result(self, data: Mapping[str, Any], metadata: Mapping[str, Any], execution_count: int) -> None:
        """The value of the cell's last expression."""
        output = {"output_type": "execute_result", "data": _json(data), "metadata": _json(metadata)}
        self._put(_Show({**output, "execution_count": execution_count}))

    def error(self, name: str, value: str, traceback: Sequence[str], short: str) -> None:
        """The cell failed; `short` is the traceback for Claude."""
        output = {"output_type": "error", "ename": name, "evalue": value, "traceback": list(traceback)}
        self._put(_Show(output, text=short))

    def reporters(self, shell: InteractiveShell, code: RunningCode) -> Sequence[Replacement]:
        self._shell, self._count = shell, shell.execution_count
        # IPython, which this module can be used without

        return cell_reports(shell, code, self)

    def _put(self, piece: _Piece) -> None:
        self._inbox.append(piece)
        if not self._notified:
            # in this order: an interrupt between the two lines must not leave news that nobody is told of
            self.loop.call_soon_threadsafe(self.changed, context=self._context)
            self._notified = True

    # ------------------------------------------------------------------ on the agent's thread

    def unsent_changes(self) -> OutputChanges:
        """Return what came since this was last asked."""
        self._drain()
        if self._stale:
            outputs = tuple(kept.output for kept in self._kept)
            unsent_changes = OutputChanges(outputs, clear=True)
        else:
            unsent_changes = OutputChanges(tuple(self._added()), clear=False)
        self._stale = False
        self._sent = len(self._kept)
        last = self._kept[-1].output if self._kept else {}
        self._sent_chars = len(last["text"]) if last.get("output_type") == "stream" else 0
        return unsent_changes

    def send_again(self) -> None:
        """Note that what was sent has not arrived: the next news are all outputs."""
        self._stale = True

    @property
    def execution_count(self) -> int | None:
        """The count of the cell's run; None if it never began."""
        began = self._shell is not None and self._shell.execution_count > self._count
        return self._count if began else None

    @property
    def size(self) -> int:
        """About how many bytes the outputs have together."""
        return self._bytes

    def outputs(self) -> tuple[Output, ...]:
        """All outputs, as they are now."""
        self._drain()
        return tuple(kept.output for kept in self._kept)

    def pieces(self, pictures: Mapping[int, DrawnOutput]) -> Iterator[str | Display]:
        """All outputs as a model gets them, with `pictures` of those that only a page draws, by their numbers."""
        self._drain()
        for index, kept in enumerate(self._kept):
            if index in pictures:
                yield from drawn_pieces(display_of(kept.output["data"]), pictures[index])
            elif kept.text:
                yield kept.text if kept.text.endswith("\n") else f"{kept.text}\n"
            elif kept.output["output_type"] == "stream":
                yield str(kept.output["text"])
            else:
                yield display_of(kept.output["data"])

    def _added(self) -> Iterator[Output]:
        if self._sent and len(self._kept) >= self._sent:
            last = self._kept[self._sent - 1].output
            if last["output_type"] == "stream" and len(last["text"]) > self._sent_chars:
                yield {**last, "text": last["text"][self._sent_chars :]}
        yield from (kept.output for kept in self._kept[self._sent :])

    def _drain(self) -> None:
        self._notified = False
        while True:
            try:
                piece = self._inbox.popleft()
            except IndexError:
                return
            self._take(piece)

    def _take(self, piece: _Piece) -> None:
        if isinstance(piece, _Cleared):
            self._clear_next = piece.wait
            if not piece.wait:
                self._forget()
            return
        if isinstance(piece, _Updated):
            for kept in self._kept:
                if kept.display_id == piece.display_id:
                    kept.output = {**kept.output, "data": piece.data, "metadata": piece.metadata}
                    self._stale = True
            return
        if self._clear_next:
            self._forget()
        if isinstance(piece, _Show):
            self._show(piece)
        else:
            self._print(*piece)

    def _forget(self) -> None:
        self._clear_next, self._stale = False, True
        self._kept.clear()
        self._bytes = self._left_out = 0
        self._note = None

    def _show(self, shown: _Show) -> None:
        output = shown.output
        data = output.get("data")
        values = data.values() if isinstance(data, Mapping) else output.get("traceback", ())
        size = sum(len(value) if isinstance(value, str) else len(repr(value)) for value in values)
        if self._is_full(size):
            self._leave_out()
            return
        self._bytes += size
        self._kept.append(_Kept(shown.output, shown.display_id, shown.text))

    def _leave_out(self) -> None:
        """A cell that displays without end must not make a notebook that cannot be opened."""
        self._left_out += 1
        text = f"[{counted(self._left_out, 'more output')} of this cell not kept]\n"
        output = {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}
        if self._note is None:
            self._note = _Kept(output)
            self._kept.append(self._note)
        else:
            self._note.output = output
            self._stale = True

    def _is_full(self, size: int) -> bool:
        return len(self._kept) >= MAX_OUTPUTS or self._bytes + size > MAX_BYTES

    def _print(self, text: str, stream: StreamName) -> None:
        if not text:
            return
        last = self._kept[-1] if self._kept else None
        if last is None or last.output.get("name") != stream:
            if self._is_full(len(text)):
                self._leave_out()
                return
            last = _Kept({"output_type": "stream", "name": stream, "text": ""})
            self._kept.append(last)
        before = str(last.output["text"])
        after = before + text
        if "\r" in text or before.endswith("\r"):
            # of a line that was overwritten only its last state: a progress bar writes thousands
            start = before.rfind("\n") + 1
            after = before[:start] + OVERWRITTEN.sub("", after[start:].replace("\r\n", "\n"))
        after = _shortened(last, after)
        if not after.startswith(before):
            self._stale = True
        self._bytes += len(after) - len(before)
        last.output = {**last.output, "text": after}


def _shortened(kept: _Kept, text: str) -> str:
    """`text` of a stream, its middle left out when it is too long."""
    if len(text) <= HEAD_CHARS + 2 * TAIL_CHARS:
        return text
    if not kept.head:
        kept.head = text[:HEAD_CHARS]
        rest = text[HEAD_CHARS:]
    else:
        rest = text[len(kept.head) + len(_gap(kept.dropped)) :]
    kept.dropped += len(rest) - TAIL_CHARS
    return kept.head + _gap(kept.dropped) + rest[-TAIL_CHARS:]


def _gap(dropped: int) -> str:
    return f"\n[… {dropped:,} characters left out …]\n"


def _json(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """A mimebundle as a notebook holds it; a copy, since its maker may change it."""
    # jupyter_client is loaded in every kernel, and nowhere else
    with importing:
        from jupyter_client.jsonutil import json_clean

    as_text = {
        mime: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for mime, value in bundle.items()
    }
    cleaned: dict[str, Any] = json_clean(as_text)
    return cleaned


class ReportedResult(Protocol):
    """The recipient of a cell's result and error."""

    def result(self, data: dict[str, Any], metadata: dict[str, Any], execution_count: int) -> None: ...

    def error(self, name: str, value: str, traceback: Sequence[str], short: str) -> None: ...


def cell_reports(shell: InteractiveShell, code: RunningCode, reported: ReportedResult) -> Sequence[Replacement]:
    """Build the replacements of the shell's own ways to show a result and an error while the cell runs."""

    def show(value: object = None) -> None:
        # what `DisplayHook.__call__` does, but for the sending
        hook = shell.displayhook
        hook.check_for_underscore()
        if value is None or hook.quiet():
            return
        data, metadata = hook.compute_format_data(value)
        hook.update_user_ns(value)
        hook.fill_exec_result(value)
        if data:
            reported.result(data, metadata, hook.prompt_count)
            hook.log_output(data)

    original = shell._showtraceback

    def showtraceback(kind: type[BaseException], error: BaseException, lines: list[str]) -> None:
        if not code.is_ours():
            original(kind, error, lines)
            return
        shell._last_traceback = lines  # type: ignore[attr-defined]  # where ipykernel's shell keeps it for the reply
        reported.error(kind.__name__, str(error), lines, short_traceback(error, cell_name(shell)))

    return (
        (shell, "display_trap", DisplayTrap(hook=show)),
        (shell, "_showtraceback", showtraceback),
    )


class Difference(Struct, frozen=True):
    """A difference, in a few words, with what each side has."""

    what: str
    was: str
    now: str


class _Part(Struct, frozen=True):
    """One thing that is compared: `key` is what counts, `shown` what is shown of it."""

    kind: str
    key: str
    shown: str
    image: bytes = b""


def difference(was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Difference | None:
    """The first difference between the outputs of two runs; None when they are the same."""
    before, after = list(_parts(was)), list(_parts(now))
    for old, new in zip(before, after, strict=False):
        if (old.kind, old.key) == (new.kind, new.key):
            continue
        if old.kind != new.kind:
            return Difference(f"{old.kind} became {new.kind}", bounded(old.shown), bounded(new.shown))
        what = _pixels(old.image, new.image) if old.image else f"{old.kind} differs"
        return Difference(what, bounded(old.shown), bounded(new.shown))
    if len(before) > len(after):
        gone = before[len(after)]
        return Difference(f"{gone.kind} is missing", bounded(gone.shown), "")
    if len(after) > len(before):
        new = after[len(before)]
        return Difference(f"{new.kind} is new", "", bounded(new.shown))
    return None


def _parts(outputs: Sequence[Mapping[str, Any]]) -> Iterator[_Part]:
    """Errors, then what was printed, each stream as a whole since their order is a matter of chance, then the rest."""
    for output in outputs:
        if output.get("output_type") == "error":
            text = f"{output.get('ename')}: {output.get('evalue')}"
            yield _Part("an error", normalised(text), text)
    for name in ("stdout", "stderr"):
        texts = (joined(output.get("text")) for output in outputs if output.get("name") == name)
        if text := "".join(texts):
            yield _Part(f"the text on {name}", normalised(text), text)
    for output in outputs:
        if output.get("output_type") in ("execute_result", "display_data"):
            yield _of_bundle(output["output_type"], output.get("data") or {})


def _of_bundle(kind: str, data: Mapping[str, Any]) -> _Part:
    what = "the result" if kind == "execute_result" else "a display"
    text = next((mime for mime in _TEXTS if mime in data), "")
    shown = _text(data[text]) if text else ", ".join(data)
    image = next((mime for mime in IMAGE_TYPES if mime in data), "")
    if not image:
        return _Part(what, normalised(_text(data[text]), svg=text == "image/svg+xml") if text else shown, shown)
    try:
        raw = base64.b64decode(joined(data[image]))
    except (binascii.Error, ValueError):
        raw = joined(data[image]).encode()
    decoded = _decoded(raw)
    if decoded is None:
        key = hashlib.sha256(raw).hexdigest()
    else:  # two files of the same pixels are the same picture
        key = f"{decoded.size} {hashlib.sha256(decoded.tobytes()).hexdigest()}"
    return _Part(f"{what} (a picture)", key, f"[{image}, {len(raw):,} bytes] {shown}", raw)


def _text(value: Any) -> str:
    return joined(value) if isinstance(value, str | list) else json.dumps(value, sort_keys=True)


def normalised(text: str, *, svg: bool = False) -> str:
    """`text` without what differs each time."""
    text = ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n")
    text = OVERWRITTEN.sub("", text)
    for pattern, stand_in in (*VOLATILE, *(_SVG_IDS if svg else ())):
        text = pattern.sub(stand_in, text)
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def _pixels(was: bytes, now: bytes) -> str:
    """Describe the difference between two pictures."""
    old, new = _decoded(was), _decoded(now)
    if old is None or new is None:
        return "a picture differs in its bytes"
    if old.size != new.size:
        return "a picture has another size: {}×{} became {}×{}".format(*old.size, *new.size)
    from PIL import ImageChops  # heavy, like all of it

    changed = ImageChops.difference(old, new).convert("RGB").convert("L").point(lambda value: 255 if value else 0)
    share = sum(changed.histogram()[1:]) / (old.size[0] * old.size[1])
    return f"a picture differs in {share:.2%} of its pixels"


def _decoded(raw: bytes) -> Any:
    """The picture; None where it cannot be decoded."""
    from PIL import Image  # heavy

    try:
        return Image.open(io.BytesIO(raw)).convert("RGBA")
    except (OSError, Image.DecompressionBombError):
        return None


def bounded(text: str) -> str:
    """The beginning and the end of a text."""
    text = ESCAPE_SEQUENCE.sub("", text).strip("\n")
    if len(text) <= SHOWN_CHARS:
        return text
    head, tail = SHOWN_CHARS * 2 // 3, SHOWN_CHARS // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"
