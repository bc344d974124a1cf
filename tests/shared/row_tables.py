"""Tables that one test judges: every row is played, and a failure names each row that is wrong."""

from __future__ import annotations

import contextlib
import functools
import inspect
import reprlib
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = 200
ROW_FAILURES = (Exception, pytest.fail.Exception)


@dataclass(frozen=True)
class Table:
    """What a test is played with: for each row its name, if it was given one, and its values."""

    test: Callable[..., None]
    rows: list[tuple[str, dict[str, Any]]]

    def wrong(self, instance: tuple[Any, ...], fixtures: dict[str, Any]) -> list[str]:
        """What is to be said of each row that is wrong."""
        told = []
        for number, (name, row) in enumerate(self.rows):
            try:
                _play(functools.partial(self.test, *instance), number, fixtures, row)
            except ROW_FAILURES as error:
                told.append(f"row {number}, {name and f'{name}: '}{_short(row)}\n{_told(error)}")
        return told


def for_each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Any = None
) -> Callable[[Callable[..., None]], Any]:
    """Use as `pytest.mark.parametrize`, where rows need no fixtures of their own.

    Rows share the test's fixtures, but each has its own `tmp_path` (an empty folder) and `monkeypatch` (undone after it),
    and its own `tools`, in an empty folder. Two tables are multiplied.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    bare = isinstance(names, str) and len(columns) == 1
    own = [dict(zip(columns, _values(row, bare), strict=True)) for row in rows]
    assert own, "a table without rows judges nothing"
    named = list(ids) if ids is not None and not callable(ids) else [""] * len(own)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        inner: Table = getattr(test, "table", Table(test, [("", {})]))
        outer = zip(named, own, strict=True)
        both = [(" ".join(filter(None, (a, b))), {**row, **more}) for a, row in outer for b, more in inner.rows]
        table = Table(inner.test, both)

        @functools.wraps(test)
        def judge(*instance: Any, **fixtures: Any) -> None:
            if wrong := table.wrong(instance, fixtures):
                pytest.fail(f"{len(wrong)} of {len(table.rows)} rows are wrong\n" + "\n".join(wrong), pytrace=False)

        signature = inspect.signature(test)
        assert set(columns) <= set(signature.parameters), f"{test.__name__} does not take all of {columns}"
        left = [parameter for name, parameter in signature.parameters.items() if name not in columns]
        judge.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        judge.table = table  # type: ignore[attr-defined]
        return judge

    return decorate


def _values(row: Any, bare: bool) -> tuple[Any, ...]:
    if hasattr(row, "marks"):  # pytest.param
        assert not row.marks, "a row has no marks"
        return tuple(row.values)
    return (row,) if bare else tuple(row)


def _play(test: Callable[..., None], number: int, fixtures: dict[str, Any], row: dict[str, Any]) -> None:
    own = dict(fixtures)
    with contextlib.ExitStack() as stack:
        for name, fixture in fixtures.items():
            if name == "tmp_path":
                own[name] = _folder(fixture, number)
            elif name == "monkeypatch":
                own[name] = stack.enter_context(fixture.context())
            elif name == "tools":
                own[name] = fixture.in_folder(_folder(fixture.cwd, number))
        test(**own, **row)


def _folder(folder: Path, number: int) -> Path:
    found = folder / f"row-{number}"
    found.mkdir(exist_ok=True)
    return found


def _short(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={SHOWN.repr(value)}" for name, value in row.items())


def _told(error: BaseException) -> str:
    """Where it failed and how, without the frames of this module."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    where = "".join(traceback.format_list(frames[:1])) if frames else ""
    return f"{where}{''.join(traceback.format_exception_only(error))}"
