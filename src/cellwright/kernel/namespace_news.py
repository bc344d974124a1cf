"""Which variables are new or have changed, and what each is in one line.

A name counts when it was bound, when a cell stored into it (`df["a"] = 1`), or when its line is another one than at the
last look: a list that grew through a method.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cellwright.kernel.cell_log import is_hidden
from cellwright.kernel.cell_names import cell_names
from cellwright.kernel.hidden_state import BEFORE_ALL

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.cell_log import Binding, CellLog, RanCell

LOOKED_AT = 500
"""Of a namespace with more names, the ones bound last are looked at."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A name at one time: what it was in a line, `what` for modules and the like, which are only named, and its binding."""

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
    """Looks at the namespace of one shell, on the thread that runs its cells. Keeps lines, and no values."""

    def __init__(self, shell: InteractiveShell, log: CellLog, line_of: Callable[[object], str]) -> None:
        self._shell = shell
        self._log = log
        self._line_of = line_of
        self._lines: dict[str, str] = {}

    def look(self, *, remember: bool = True) -> Look:
        """The namespace as it is now; the next look is compared with this one if it is remembered."""
        bindings = self._log.bindings()
        variables = {}
        for name, value in self._values(bindings).items():
            what = _what(value)
            variables[name] = Variable("" if what else self._line_of(value), what, bindings.get(name))
        before, lines = self._lines, {name: each.line for name, each in variables.items()}
        moved = frozenset(name for name, line in lines.items() if name in before and before[name] != line)
        if remember:
            self._lines = lines
        return Look(variables, moved, frozenset(self._shell.user_ns))

    def _values(self, bindings: Mapping[str, Binding]) -> dict[str, Any]:
        """The user's variables, the ones bound last first."""
        shell = self._shell
        of_ipython = shell.user_ns_hidden
        found = [
            (name, value)
            for name, value in shell.user_ns.copy().items()
            if type(name) is str and not is_hidden(name) and not (name in of_ipython and of_ipython[name] is value)
        ]
        orders = {name: binding.order for name, binding in bindings.items()}
        found.sort(key=lambda each: orders.get(each[0], BEFORE_ALL), reverse=True)
        return dict(found[:LOOKED_AT])


def _what(value: object) -> str:
    """What is named with others of its kind in one line; "" for values, which have their own."""
    kind = type(value)
    if kind is types.ModuleType:
        return "modules"
    if kind in (types.FunctionType, types.BuiltinFunctionType):
        return "functions"
    return "classes" if type in type.__dict__["__mro__"].__get__(kind) else ""
