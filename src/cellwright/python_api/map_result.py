"""The answers of a map: a row for each prompt, in the order of the prompts, and the file that keeps them as they come.

What was paid for is on disk before it is counted, and is not asked again: JSON lines, appended one by one: a header, then
an `answer` for each prompt that was answered, a `sending` before a batch is created and a `batch` once its id is known.
A line that was cut off, or is none of these, is passed over.
"""

from __future__ import annotations

import hashlib
import html
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec
from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.pricing import add_usage
from cellwright.sessions.project_writes import check_way
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder
from cellwright.sessions.transcripts.transcript_lock import acquire
from cellwright.text import dollars

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 20
SHOWN_CHARS = 300

FORMAT = 1


class MapRow(Struct, frozen=True):
    """One prompt and its answer. `index` is the prompt's name in what was given: a number, a Series' label, a dict's key.

    `value` is the answer as the type of `schema`; None without one. `error` is None for a prompt that was answered; an
    unanswered one has what its error left of it. `kept`: the answer is of an earlier call that did not come to its end.
    `usage` is the API's, `cost_usd` in US dollars, None where a price is not known.

    >>> row = MapRow("north", "Which tables are here?", "There is one.", cost_usd=0.002)
    >>> row.index, row.text, row.error
    ('north', 'There is one.', None)
    """

    index: Any
    prompt: str
    text: str = ""
    value: Any = None
    error: CellwrightError | None = None
    stop_reason: str = ""
    usage: Mapping[str, Any] = {}
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    kept: bool = False


class MapResult(Sequence[MapRow]):
    """The rows of a map, in the order of the prompts; a notebook shows them as a table.

    >>> import cellwright
    >>> result = cellwright.map(["Which tables are here?"])
    >>> result.texts, result.errors, result[0].stop_reason
    (['There is one: sales.csv.'], [], 'end_turn')
    """

    def __init__(self, rows: Sequence[MapRow]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> MapRow: ...
    @overload
    def __getitem__(self, index: slice) -> MapResult: ...
    def __getitem__(self, index: int | slice) -> MapRow | MapResult:
        return MapResult(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[MapRow]:
        return iter(self._rows)

    @property
    def texts(self) -> list[str | None]:
        """The answers; None for prompts that were not answered."""
        return [None if row.error else row.text for row in self]

    @property
    def values(self) -> list[Any]:
        """The answers as the type of `schema`; None for prompts that were not answered."""
        return [row.value for row in self]

    @property
    def errors(self) -> list[MapRow]:
        """The rows of the prompts that were not answered."""
        return [row for row in self if row.error]

    @property
    def cost_usd(self) -> float | None:
        """The cost of all answers in US dollars, kept ones included; None where a price is not known."""
        costs = [row.cost_usd for row in self]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def usage(self) -> Mapping[str, Any]:
        """The sum of the API's usage blocks."""
        total: dict[str, Any] = {}
        for row in self:
            total = add_usage(total, row.usage)
        return total

    def frame(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame, under the labels that the prompts had.

        Columns: `prompt`, `text`, the fields of `value` (or `value` itself where it has none), `error` (words, or None),
        `cost_usd`, `seconds`. A field whose name is taken is called `value_NAME`. Raises `CellwrightError` EXECUTION_ERROR
        where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            message = "A DataFrame needs pandas: pip install pandas. `texts`, `values` and the rows do without."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message) from None
        columns: dict[str, list[Any]] = {"prompt": [row.prompt for row in self], "text": self.texts}
        own = {*columns, "error", "cost_usd", "seconds"}
        for name, values in self._value_columns().items():
            columns[f"value_{name}" if name in own else name] = values
        columns["error"] = [None if row.error is None else row.error.message for row in self]
        columns["cost_usd"] = [row.cost_usd for row in self]
        columns["seconds"] = [row.seconds for row in self]
        return pd.DataFrame(columns, index=[row.index for row in self])

    def _value_columns(self) -> dict[str, list[Any]]:
        if all(row.value is None for row in self):
            return {}
        fields = [_fields(row.value) for row in self]
        if any(found is None and row.value is not None for found, row in zip(fields, self, strict=True)):
            return {"value": self.values}
        names = dict.fromkeys(name for found in fields for name in found or ())
        return {name: [(found or {}).get(name) for found in fields] for name in names}

    def summary(self) -> str:
        """One line: how many prompts, how many of them failed, what they cost."""
        words = f"{len(self):,} prompt{'' if len(self) == 1 else 's'}"
        if failed := len(self.errors):
            words += f", {failed:,} not answered"
        return words if self.cost_usd is None else f"{words}, {dollars(self.cost_usd)}"

    def __repr__(self) -> str:
        return f"<MapResult: {self.summary()}>"

    def _repr_html_(self) -> str:
        rows = ""
        for row in self[:SHOWN_ROWS]:
            texts = (row.prompt, row.text if row.error is None else f"⚠ {row.error.message}")
            cells = "".join(f'<td style="text-align: left">{html.escape(_short(text))}</td>' for text in texts)
            rows += f"<tr><th>{html.escape(_short(str(row.index)))}</th>{cells}</tr>"
        more = f"<p>… and {len(self) - SHOWN_ROWS:,} more</p>" if len(self) > SHOWN_ROWS else ""
        head = "<tr><th></th><th>prompt</th><th>answer</th></tr>"
        return f"<p>{html.escape(self.summary())}</p><table><thead>{head}</thead><tbody>{rows}</tbody></table>{more}"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of a value that has names for them; None for a list, a number, …."""
    if isinstance(value, Mapping):
        return {str(name): each for name, each in value.items()}
    if hasattr(value, "model_dump"):  # a pydantic model
        return dict(value)
    names = getattr(type(value), "__dataclass_fields__", None) or getattr(type(value), "__struct_fields__", None)
    return None if names is None else {name: getattr(value, name) for name in names}


def error_of(code: str, message: str, *, recoverable: bool) -> CellwrightError:
    """The error of a row."""
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.EXECUTION_ERROR
    return CellwrightError(known, message, recoverable=recoverable)


class Answer(Struct, frozen=True, tag="answer", tag_field="type"):
    """The answer to the prompt `key`: its text, or the `error` that ended it (code and message)."""

    key: str
    text: str = ""
    stop_reason: str = ""
    usage: Mapping[str, Any] = {}
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    error_code: str = ""
    error: str = ""
    recoverable: bool = False
    rate_limited: int = 0


class Header(Struct, frozen=True, tag="map", tag_field="type"):
    format: int = FORMAT


class Sending(Struct, frozen=True, tag="sending", tag_field="type"):
    """A batch of these prompts is going to be created, at `since` (epoch time) or later."""

    keys: Sequence[str]
    since: float


class SentBatch(Struct, frozen=True, tag="batch", tag_field="type"):
    """The batch `id` holds the prompts `keys`."""

    id: str
    keys: Sequence[str]


Line = Header | Answer | Sending | SentBatch
_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode


def default_store(keys: Sequence[str]) -> Path:
    """The file for a map of these prompts that was not given one: the same prompts find it again."""
    digest = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:32]
    return state_folder() / "maps" / f"{digest}.jsonl"


class AnswerStore:
    """The file at `path`, opened by one writer at a time; `close` gives it free.

    `answers` are those that were kept, by key; `batches` those that were sent, `unconfirmed` what was going to be sent
    as a batch whose id is not known. Raises `CellwrightError` where the file is another's, or in use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Answer] = {}
        self.batches: list[SentBatch] = []
        self.unconfirmed: Sending | None = None
        name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]
        lock = state_folder() / "maps" / f"{name}.lock"
        make_private_folder(lock.parent)
        lease = acquire(lock, 0)
        if lease is None:
            message = f"Another process asks the prompts of {path} just now. Wait for its end, or give another `store`."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message, recoverable=True)
        self._lease = lease
        try:
            self._file = self._opened()
        except BaseException:
            lease.release()
            raise

    def add(self, line: Answer | Sending | SentBatch) -> None:
        """Keep a line; it is on disk when this returns. Blocks on the disk."""
        self._write(line)
        self._count(line)

    def close(self, *, discard: bool = False) -> None:
        """Give the file free; with `discard` nothing of it is needed any more."""
        os.close(self._file)
        if discard:
            self.path.unlink(missing_ok=True)
        self._lease.release()

    def _opened(self) -> int:
        try:
            place = check_way(Path.cwd(), self.path)  # a project's link is nobody's choice, though its name may be
            make_private_folder(place.parent)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            descriptor = os.open(place, flags, PRIVATE_FILE)
        except OSError as error:
            message = f"The answers cannot be kept in {self.path}: {error.strerror}. Nothing was sent."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
        try:
            self._read(self.path.read_bytes(), descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _read(self, data: bytes, descriptor: int) -> None:
        first, *lines = data.split(b"\n")
        if not data:
            os.write(descriptor, _encode(Header()) + b"\n")
        elif not isinstance(_line(first), Header):
            message = (
                f"{self.path} holds something else than the answers of a map. Give another `store`. Nothing was sent."
            )
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        elif not data.endswith(b"\n"):
            os.write(descriptor, b"\n")  # a line that was cut off stays one of its own
        for line in lines:
            if (known := _line(line)) is not None:
                self._count(known)

    def _write(self, line: Line) -> None:
        data = _encode(line) + b"\n"
        written = os.write(self._file, data)
        if written < len(data):
            raise OSError(f"{self.path} is full")
        os.fsync(self._file)

    def _count(self, line: Line) -> None:
        match line:
            case Answer():
                self.answers[line.key] = line
            case Sending():
                self.unconfirmed = line
            case SentBatch():
                self.batches.append(line)
                self.unconfirmed = None
            case Header():
                pass


def _line(data: bytes) -> Line | None:
    try:
        line: Line = _decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return line
