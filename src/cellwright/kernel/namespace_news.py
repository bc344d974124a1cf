"""Which variables are new or have changed, and what each is in one line.

A name counts when it was bound, when a cell stored into it (`df["a"] = 1`), or when its size is another one than at the
last look: a list that grew through a method.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cellwright.kernel.described.looking import classes
from cellwright.kernel.namespace.hidden_state import BEFORE_ALL
from cellwright.kernel.namespace.names import cell_names
from cellwright.kernel.namespace.namespace import Fingerprint, fingerprint, is_code, user_variables
from cellwright.kernel.namespace.summary import describe_all, line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.namespace.cell_log import Binding, CellLog, RanCell


@dataclass(frozen=True, slots=True)
class Variable:
    """A name at one time: what it was in a line, and its binding. `what` is "" for values, which have a line of their own.

    The line is "" where it was not asked for.
    """

    line: str
    what: str
    binding: Binding | None


@dataclass(frozen=True, slots=True)
class Look:
    """The namespace at one time, the names bound last first. `moved` had another line at the look before."""

    variables: Mapping[str, Variable]
    moved: frozenset[str]
    names: frozenset[str]

    def news(self, order: int, runs: Sequence[RanCell]) -> VariableNews:
        """What is new above `order`, where the user ran `runs`; everything is where nothing was told before."""
        everything = order == BEFORE_ALL
        stored = {name for run in runs if run.source for name in cell_names(run.source).changed}

        def is_new(name: str, binding: Binding | None) -> bool:
            bound = binding is not None and binding.order > order and binding.by != "claude"
            return everything or bound or name in stored or name in self.moved

        new = {name: each for name, each in self.variables.items() if is_new(name, each.binding)}
        deleted = {name for run in runs for name in run.deleted if name not in self.names}
        kinds = sorted({each.what for each in new.values() if each.what})
        return VariableNews(
            tuple((name, each.line) for name, each in new.items() if not each.what),
            tuple((kind, tuple(sorted(name for name, each in new.items() if each.what == kind))) for kind in kinds),
            () if everything else tuple(sorted(deleted)),
        )


@dataclass(frozen=True, slots=True)
class VariableNews:
    """`lines` are of values, the newest first; `names` those of modules, functions and classes, by what they are."""

    lines: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    deleted: tuple[str, ...] = ()


class NamespaceNews:
    """Looks at the namespace of one shell, on the thread that runs its cells. Keeps sizes and ids, and no values."""

    def __init__(self, shell: InteractiveShell, log: CellLog) -> None:
        self._shell = shell
        self._log = log
        self._seen: dict[str, _Seen] = {}

    def look(self, lines: int = 0, *, remember: bool = True) -> Look:
        """The namespace as it is now, the newest `lines` values with a line each.

        The next look is compared with this one if it is remembered.
        """
        bindings = self._log.bindings()
        values = user_variables(self._shell)
        seen = {name: _Seen(_order(bindings, name), fingerprint(value)) for name, value in values.items()}
        # what was bound anew says so itself
        moved = frozenset(
            name
            for name, now in seen.items()
            if (before := self._seen.get(name)) is not None and before.order == now.order and before != now
        )
        if remember:
            self._seen = seen
        touched = self._touched(bindings, moved)
        # of those that one cell touched, what is new to the namespace comes first
        names = sorted(values, key=lambda name: touched.get(name, BEFORE_ALL))[::-1]
        shown = [name for name in names if not is_code(values[name])][:lines]
        told = dict(describe_all({name: values[name] for name in shown}, line))
        return Look(
            {name: Variable(_text(told, name), _what(values[name]), bindings.get(name)) for name in names},
            moved,
            frozenset(self._shell.user_ns),
        )

    def _touched(self, bindings: Mapping[str, Binding], moved: Iterable[str]) -> dict[str, int]:
        """When each name was last bound or stored into."""
        touched = {name: binding.order for name, binding in bindings.items()}
        for run in self._log.runs():
            if run.source is not None and not run.is_prompt:
                touched |= {name: max(run.order, touched.get(name, 0)) for name in cell_names(run.source).changed}
        return touched | dict.fromkeys(moved, self._log.order)


class _Seen(NamedTuple):
    """What a name was at a look."""

    order: int
    fingerprint: Fingerprint


def _order(bindings: Mapping[str, Binding], name: str) -> int:
    return bindings[name].order if name in bindings else BEFORE_ALL


def _text(told: Mapping[str, str], name: str) -> str:
    """The line of a value without its name; "" where there is none."""
    return told[name].removeprefix(f"{name}: ") if name in told else ""


def _what(value: object) -> str:
    """What is named with others of its kind in one line; "" for values, which have their own."""
    if not is_code(value):
        return ""
    kind = type(value)
    return "modules" if kind is types.ModuleType else "classes" if type in classes(value) else "functions"
