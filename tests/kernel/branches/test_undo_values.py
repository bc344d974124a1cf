"""Variables compared with a forked copy and brought back, by real pickles between two processes."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from cellwright.conversation.kernel_copies import VariablesPlan
from cellwright.kernel.branches.undo import ComparedNames, _Plan, compare
from cellwright.kernel.branches.undo_values import (
    CannotReturn,
    Look,
    Send,
    Value,
    ask,
    look_at,
    restore,
    serve,
)
from cellwright.kernel.namespace.cell_names import cell_names

PREPARED = """
import re
rows = [1, 2, 3]
alias = rows
settings = {"rows": rows, "depth": 3}
pair = (rows, "x")
seen = {1, 2}
number = 70
class Model:
    def __init__(self):
        self.weights = [0.5, 1.5]
model = Model()
other_name = model
def scale(value, by=2):
    return value * by + number
def counter():
    count = [0]
    def add():
        count[0] += 1
        return count[0]
    return add
add = counter()
generator = iter(rows)
"""


@pytest.fixture
def before() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(PREPARED, namespace)
    namespace["df"] = pd.DataFrame({"a": range(100), "b": ["x"] * 100})
    namespace["same_df"] = namespace["df"]
    namespace["array"] = np.arange(1000.0)
    namespace["view"] = namespace["array"][10:20]
    namespace["untouched"] = np.zeros(5)
    return namespace


class Kernel:
    """A namespace, and a forked process that has it as it was."""

    def __init__(self, namespace: dict[str, Any], channel: socket.socket) -> None:
        self.namespace = namespace
        self._channel = channel
        self._sources: list[str] = []

    def turn(self, code: str) -> None:
        self._sources.append(code)
        exec(code, self.namespace)

    def plan(self, users: str = "", *, force: bool = False) -> VariablesPlan:
        names = [cell_names(source) for source in self._sources]
        user = cell_names(users)
        asked = ComparedNames(
            bound=frozenset[str]().union(*(each.bound for each in names)),
            named=frozenset[str]().union(*(each.bound | each.changed | each.used | each.deleted for each in names)),
            by_user=user.bound | user.changed,
        )
        request = Look(tuple(asked.named), with_sharing=True)
        before = msgspec.json.decode(ask(self._channel, request), type=dict[str, Value])
        now = look_at(self.namespace, {*asked.named, *before})
        return compare(before, now, asked, force=force)

    def undo(self, users: str = "", *, force: bool = False) -> dict[str, str]:
        """Undo it; what was said of each name, with the reason if it stays."""
        plan = self.plan(users, force=force)
        assert isinstance(plan, _Plan)
        data = ask(self._channel, Send(plan.wanted)) if plan.wanted.names else b""
        restore(self.namespace, plan.wanted, data, plan.removed)
        return {
            each.name: each.text.partition(": ")[2] + (f" ({each.refused})" if each.refused else "")
            for each in plan.changes
        }

    def value(self, expression: str) -> Any:
        return eval(expression, self.namespace)


@pytest.fixture
def kernel(before: dict[str, Any]) -> Iterator[Kernel]:
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            ours.close()
            serve(before, theirs)
        os._exit(0)
    theirs.close()
    with ours:
        ours.settimeout(60)
        yield Kernel(before, ours)
    os.waitpid(child, 0)


UNDONE: dict[str, tuple[str, dict[str, str], str]] = {
    "a frame bound anew": (
        "df = df[df.a > 10]",
        {"df": "89 rows → 100 as before"},
        "df.shape == (100, 2) and df is same_df",
    ),
    "a column": (
        "df['c'] = 1",
        {"df": "3 columns → 2 as before", "same_df": "3 columns → 2 as before"},
        "list(df) == ['a', 'b'] and df is same_df",
    ),
    "rows dropped in place": (
        "df.drop(df.index[:50], inplace=True)",
        {"df": "50 rows → 100 as before", "same_df": "50 rows → 100 as before"},
        "len(same_df) == 100 and df is same_df",
    ),
    "an array in place, and its views": (
        "array += 1",
        {"array": "as before", "view": "as before"},
        "array[3] == 3 and view[0] == 10 and view.base is array",
    ),
    "an array by a view": ("view[:] = -1", {"array": "as before", "view": "as before"}, "array[10] == 10"),
    "a list in place": (
        "rows.append(4)",
        {
            "alias": "4 items → 3 as before",
            "pair": "as before",
            "rows": "4 items → 3 as before",
            "settings": "as before",
        },
        "rows == [1, 2, 3] and alias is rows and settings['rows'] is rows and pair[0] is rows",
    ),
    "a list inside of a dictionary": (
        "settings['rows'].append(5); settings['depth'] = 4",
        {"settings": "as before", "rows": "4 items → 3 as before"},
        "settings == {'rows': [1, 2, 3], 'depth': 3} and settings['rows'] is rows",
    ),
    "a dictionary bound anew": (
        "settings = {}",
        {"settings": "0 items → 2 as before"},
        "settings['rows'] is rows and settings['depth'] == 3",
    ),
    "a set": ("seen.add(3)", {"seen": "3 items → 2 as before"}, "seen == {1, 2}"),
    "a number": ("number += 5", {"number": "75 → 70 as before"}, "number == 70 and scale(1) == 72"),
    "another type": ("number = 'many'", {"number": "str → int as before"}, "number == 70"),
    "a name that is deleted": ("del settings", {"settings": "was deleted, will be back"}, "settings['rows'] is rows"),
    "new names": (
        "import json\nfresh = json.dumps(1)\ndef helper(): pass",
        {"fresh": "new, will be removed", "helper": "new, will be removed"},
        "'fresh' not in globals() and 'helper' not in globals()",
    ),
    "a function": (
        "def scale(value): return 0",
        {"scale": "as before"},
        "scale(1) == 72 and scale(1, by=5) == 75 and scale.__globals__ is globals()",
    ),
    "a function with a state": ("[add() for _ in range(5)]", {"add": "as before"}, "add() == 1"),
    "an object": (
        "model.weights[0] = 9; model.fitted = True",
        {"model": "as before", "other_name": "as before"},
        "model.weights == [0.5, 1.5] and not hasattr(model, 'fitted') and other_name is model "
        "and isinstance(model, Model)",
    ),
    "what is only read": ("sum(rows) + df.a.sum() + untouched.sum() + len(re.__name__) + model.weights[0]", {}, "True"),
    "an equal value": ("number = 35 * 2", {}, "number == 70"),
}


@pytest.mark.parametrize("case", UNDONE)
def test_changes_of_a_turn_are_undone_with_what_they_share(kernel: Kernel, case: str) -> None:
    code, said, holds = UNDONE[case]
    kernel.turn(code)
    told = kernel.undo()
    assert {name: text for name, text in told.items() if name in said} == said
    # what shares parts with it may be named as well, and nothing else
    assert not any("(" in text for text in told.values()), told
    assert kernel.value(holds)


def test_what_cannot_come_back_is_named(kernel: Kernel) -> None:
    kernel.turn("next(generator)\nclass Model: pass\nnumber = 1")
    said = kernel.undo()
    assert said["generator"].endswith("cannot be compared or restored (cannot pickle 'list_iterator' object)") or (
        said["generator"] == "as before"
    )
    assert "run its cell again" in said["Model"]
    assert said["number"] == "1 → 70 as before"
    assert kernel.value("number") == 70


def test_what_cannot_be_pickled_is_named_if_the_code_used_it(before: dict[str, Any]) -> None:
    namespace = {**before, "lock": threading.Lock(), "idle": threading.Lock()}
    values = look_at(namespace, namespace)
    names = ComparedNames(frozenset(), frozenset({"lock", "rows"}), frozenset())
    changes = {change.name: change.refused for change in compare(values, values, names).changes}
    assert changes == {"lock": "a lock cannot be compared or restored (cannot pickle '_thread.lock' object)"}


def test_names_that_the_users_cells_changed_since_are_asked_about(kernel: Kernel) -> None:
    kernel.turn("number = 1\nseen.add(9)")
    users = "number = 2"
    exec(users, kernel.namespace)
    plan = kernel.plan(users)
    assert plan.conflicts
    assert {each.name: each.refused for each in plan.changes} == {
        "number": "your cells have changed it since",
        "seen": "",
    }
    assert kernel.undo(users)
    assert kernel.value("number, seen") == (2, {1, 2})
    assert kernel.undo(users, force=True) == {"number": "2 → 70 as before"}
    assert kernel.value("number") == 70


CHANGED_BETWEEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "bound anew": lambda namespace: namespace.update(rows=[9]),
    "deleted": lambda namespace: namespace.pop("rows"),
}


@pytest.mark.parametrize("how", CHANGED_BETWEEN)
def test_what_changes_after_the_plan_stays_and_so_does_all_else(kernel: Kernel, how: str) -> None:
    kernel.turn("rows.append(4)\nnumber = 1")
    plan = kernel.plan()
    assert isinstance(plan, _Plan)
    data = ask(kernel._channel, Send(plan.wanted))
    CHANGED_BETWEEN[how](kernel.namespace)
    with pytest.raises(CannotReturn):
        restore(kernel.namespace, plan.wanted, data, plan.removed)
    assert kernel.value("number") == 1
