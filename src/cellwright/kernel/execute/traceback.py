"""Tracebacks as short as they are useful: the user's frames, and the one where the error happened.

A cell's failure is described as plain text: nothing of the error's objects is kept, and no `__str__` of the user's is
called.
"""

from __future__ import annotations

import itertools
import site
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.kernel.namespace.cell_names import cell_of_file
from cellwright.kernel.namespace.description import classes, own_vars
from cellwright.text import counted

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

OUR_FOLDER = str(Path(__file__).parents[2])
LIBRARY_FOLDERS = tuple(
    {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        site.getusersitepackages(),
    }
)

HEAD_CHARS, TAIL_CHARS = 6_000, 6_000
"""Of a traceback that is longer than both."""

NameOf = Callable[[str], str | None]


def short_traceback(error: BaseException, name_of: NameOf) -> str:
    """The traceback of `error` and of what caused it, without the frames of libraries except the last, and of ours.

    `name_of(file)` is the name that a cell's file is shown under, or None for other files.
    """
    shown = traceback.TracebackException.from_exception(error)
    for part in _parts(shown):
        frames = [frame for frame in part.stack if name_of(frame.filename) or not in_library(frame.filename)]
        if part.stack and part.stack[-1] not in frames:
            # what happens in a file of ours or IPython's says nothing about the user's code
            last = part.stack[-1].filename
            frames += [] if last.startswith(OUR_FOLDER) or "IPython" in Path(last).parts else part.stack[-1:]
        for frame in frames:
            frame.filename, frame.name = name_of(frame.filename) or frame.filename, _function(frame.name)
        part.stack[:] = frames
        if isinstance(getattr(part, "filename", None), str):  # only a SyntaxError has one
            part.filename = name_of(part.filename) or part.filename
    text = "".join(shown.format())
    # messages of errors can hold whole data sets; the end says what happened, the beginning where
    if (left_out := len(text) - HEAD_CHARS - TAIL_CHARS) <= 0:
        return text
    return f"{text[:HEAD_CHARS]}\n[… {left_out:,} characters left out …]\n{text[-TAIL_CHARS:]}"


def _function(name: str) -> str:
    # IPython 7.34 to 8.6 calls what runs in a cell by its line
    return "<module>" if name.startswith("<cell line: ") else name


def _parts(shown: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting = [shown]  # no recursion: an error that comes of hundreds of others is no rarity in a loop that tries again
    while waiting:
        part = waiting.pop()
        yield part
        others = (part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ()))
        waiting += [other for other in others if other is not None]


def in_library(filename: str) -> bool:
    """Return whether the file is a library's or ours, and not the user's."""
    folders = ("site-packages", "dist-packages")
    return filename.startswith((*LIBRARY_FOLDERS, OUR_FOLDER, "<frozen")) or any(
        folder in Path(filename).parts for folder in folders
    )


LINE_CHARS = 200
FRAMES_KEPT = 6
MORE_KEPT = 8
CAUSES_KEPT = 3
THIS_CELL = "this cell"
PLAIN = (str, int, float, bool, type(None))


class Frame(Struct, frozen=True):
    """A place on the way to an error: `file` is a cell's name ("Cell In[3]") or a path; `text` is empty where not known."""

    file: str
    line: int
    function: str
    text: str = ""

    @property
    def of_the_cell(self) -> bool:
        """True when it is a line of the cell itself."""
        return self.function == "<module>" and (self.file == THIS_CELL or self.file.startswith("Cell "))


class CellFailure(Struct, frozen=True):
    """The error raised (`name` is the class's) and its place: the user's frames and the last one, outermost first.

    `more` has its notes, the errors of a group, and what it came of, a line each.
    """

    name: str
    message: str
    frames: tuple[Frame, ...]
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = _with_message(self.name, self.message)
        return "\n".join([first, *(f"  {_in_words(frame)}" for frame in self.frames), *self.more])


def describe_error(error: BaseException, shell: InteractiveShell, source: str) -> CellFailure:
    """Describe `error`, raised by the cell with this `source`, as far as possible without calling any user code."""
    frames = list(_frames(error.__traceback__, shell, source))
    if (place := _place_of(error)) is not None:
        # of a cell that could not be compiled no frame is the user's
        frames = [*frames, _named(place, error, shell)] if _is_in_cell(error.__traceback__, shell) else [place]
    if len(frames) > FRAMES_KEPT:
        frames = [*frames[:2], *frames[2 - FRAMES_KEPT :]]
    more = (line[:LINE_CHARS] for line in itertools.islice(_more(error), MORE_KEPT))
    return CellFailure(_class_name(error), _message(error)[:1_000], tuple(frames), tuple(more))


def _class_name(error: BaseException) -> str:
    return str(type.__dict__["__qualname__"].__get__(type(error)))


def _message(error: BaseException) -> str:
    """Return what `str(error)` would say, as far as its arguments are plain."""
    args = _of(BaseException, "args", error)
    if _place_of(error) is not None:
        args = args[:1]
    elif BaseExceptionGroup in classes(error):
        args = (f"{_plainly(args[0])} ({counted(len(_of(BaseExceptionGroup, 'exceptions', error)), 'error')})",)
    whole = type(error) is KeyError and all(type(value) in PLAIN for value in args)
    message = ", ".join(map(repr if whole else _plainly, args))
    if OSError in classes(error) and type(file := _of(OSError, "filename", error)) is str:
        message += f": {file!r}"
    return message


def _more(error: BaseException) -> Iterator[str]:
    notes = own_vars(error).get("__notes__")
    for note in notes if type(notes) is list else ():
        yield from note.splitlines() if type(note) is str else ()
    yield from _errors_within(error)
    for _ in range(CAUSES_KEPT):
        cause, context = _of(BaseException, "__cause__", error), _of(BaseException, "__context__", error)
        if cause is None and (context is None or _of(BaseException, "__suppress_context__", error)):
            return
        how, error = ("Caused by", cause) if cause is not None else ("While handling", context)
        yield f"{how} {_in_a_line(error)}"


def _errors_within(error: BaseException, depth: int = 1) -> Iterator[str]:
    """The errors of a group, and of the groups in it."""
    if BaseExceptionGroup in classes(error) and depth <= MORE_KEPT:
        for each in _of(BaseExceptionGroup, "exceptions", error):
            yield f"{'  ' * depth}{_in_a_line(each)}"
            yield from _errors_within(each, depth + 1)


def _in_a_line(error: BaseException) -> str:
    return _with_message(_class_name(error), _message(error))


def _with_message(name: str, message: str) -> str:
    return f"{name}: {message}" if message else name


def _of(cls: type[BaseException], name: str, error: BaseException) -> Any:
    """An attribute as the built-in class has it, whatever the error's own class makes of it."""
    return cls.__dict__[name].__get__(error)


def _place_of(error: BaseException) -> Frame | None:
    """Find the place in the source that could not be compiled; None for errors of other kinds."""
    args = _of(BaseException, "args", error)
    if SyntaxError not in classes(error) or len(args) != 2 or type(args[1]) is not tuple or len(args[1]) < 4:
        return None
    line, text = args[1][1], "" if args[1][3] is None else _plainly(args[1][3])
    return Frame(THIS_CELL, line if type(line) is int else 0, "<module>", text.strip()[:LINE_CHARS])


def _named(frame: Frame, error: BaseException, shell: InteractiveShell) -> Frame:
    """`place` with the file that it is in."""
    file = _plainly(_of(BaseException, "args", error)[1][0])
    cell = cell_of_file(shell, file)
    return replace(frame, file=" ".join(cell) if cell is not None else file)


def _is_in_cell(traceback: TracebackType | None, shell: InteractiveShell) -> bool:
    """Return whether the code of a cell ran when it was raised."""
    while traceback is not None:
        if cell_of_file(shell, traceback.tb_frame.f_code.co_filename) is not None:
            return True
        traceback = traceback.tb_next
    return False


def _plainly(value: object) -> str:
    # isinstance would ask the value for its __class__
    if type(value) not in PLAIN:
        return f"<{type.__dict__['__name__'].__get__(type(value))}>"
    return str(value)


def _frames(traceback: TracebackType | None, shell: InteractiveShell, source: str) -> Iterator[Frame]:
    last: Frame | None = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        cell = cell_of_file(shell, code.co_filename)
        frame = Frame(code.co_filename, traceback.tb_lineno, _function(code.co_name))
        traceback, last = traceback.tb_next, frame
        if cell is not None:
            lines = source.splitlines() if frame.function == "<module>" else []
            text = lines[frame.line - 1].strip()[:LINE_CHARS] if 0 < frame.line <= len(lines) else ""
            yield Frame(" ".join(cell), frame.line, frame.function, text)
            last = None
        elif not in_library(frame.file):
            yield frame
            last = None
    if last is not None:
        yield last


def _in_words(frame: Frame) -> str:
    where = f"{frame.file}, line {frame.line}"
    if frame.function != "<module>":
        where += f", in {frame.function}"
    return f"{where}: {frame.text}" if frame.text else where
