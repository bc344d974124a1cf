"""Why a cell failed, as plain text: nothing of the error's objects is kept, and no `__str__` of the user's is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from cellwright.kernel.user_traceback import in_library

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MESSAGE_CHARS = 1_000
LINE_CHARS = 200
FRAMES_KEPT = 6
PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Frame:
    """A place on the way to an error: `file` is a cell's name ("Cell In[3]") or a path; `text` is empty where not known."""

    file: str
    line: int
    function: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class CellError:
    """What was raised (`name` is the class's) and where: the user's frames and the last one, outermost first."""

    name: str
    message: str
    frames: tuple[Frame, ...]

    def __str__(self) -> str:
        first = f"{self.name}: {self.message}" if self.message else self.name
        return "\n".join([first, *(f"  {_in_words(frame)}" for frame in self.frames)])


def describe_error(error: BaseException, shell: InteractiveShell, source: str) -> CellError:
    """What can be said of `error`, raised by the cell with this `source`, without calling any code of the user's."""
    args = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    frames = list(_frames(error.__traceback__, shell, source))
    if isinstance(error, SyntaxError) and len(args) == 2 and isinstance(args[1], tuple):
        line, text = args[1][1], args[1][3]
        frames = [Frame("this cell", line if isinstance(line, int) else 0, "<module>", str(text or "").strip())]
        args = args[:1]
    if len(frames) > FRAMES_KEPT:
        frames = [*frames[:2], *frames[2 - FRAMES_KEPT :]]
    name = str(type.__dict__["__qualname__"].__get__(type(error)))
    message = ", ".join(map(repr if type(error) is KeyError and _all_plain(args) else _plainly, args))
    return CellError(name, message[:MESSAGE_CHARS], tuple(frames))


def _all_plain(values: tuple[object, ...]) -> bool:
    return all(type(value) in PLAIN for value in values)


def _plainly(value: object) -> str:
    # isinstance would ask the value for its __class__
    if type(value) not in PLAIN:
        return f"<{type.__dict__['__name__'].__get__(type(value))}>"
    return str(value)


def _frames(traceback: TracebackType | None, shell: InteractiveShell, source: str) -> Iterator[Frame]:
    last: Frame | None = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        cell = shell.compile.format_code_name(code.co_filename)
        frame = Frame(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback, last = traceback.tb_next, frame
        if cell is not None:
            text = _line_of(source, frame.line) if frame.function == "<module>" else ""
            yield Frame(" ".join(cell), frame.line, frame.function, text)
            last = None
        elif not in_library(frame.file):
            yield frame
            last = None
    if last is not None:
        yield last


def _line_of(source: str, number: int) -> str:
    lines = source.splitlines()
    return lines[number - 1].strip()[:LINE_CHARS] if 0 < number <= len(lines) else ""


def _in_words(frame: Frame) -> str:
    where = f"{frame.file}, line {frame.line}"
    if frame.function != "<module>":
        where += f", in {frame.function}"
    return f"{where}: {frame.text}" if frame.text else where
