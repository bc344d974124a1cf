"""Reads the code of calls and cells: the names it loads and binds, what of it depends on a frame, where seeds stand."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from cellwright.conversation.kernel_copies import Step
from cellwright.features.stability.perturb import HOOK

SEED_ARGUMENTS = frozenset({"random_state", "seed", "random_seed", "rng"})
SEED_CALLS = frozenset({"seed", "default_rng", "RandomState", "manual_seed", "set_seed", "Random"})
LABEL_NAMES = (
    "y",
    "target",
    "label",
    "labels",
    "class",
    "outcome",
    "churn",
    "survived",
    "treatment",
    "group",
    "y_train",
)
"""Names that a label often has."""


class Frame(Struct, frozen=True):
    """A frame or array of the kernel; `columns` are empty for an array. `times`: its rows are a series in time."""

    name: str
    rows: int
    columns: tuple[str, ...] = ()
    times: bool = False


class _Names(Struct, frozen=True):
    loads: Counter[str]
    binds: frozenset[str]


def _tree(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # magics, or no Python at all
        return None


def _names(code: str) -> _Names:
    """Return the names that the code loads, and those that it binds or may change in place."""
    loads: Counter[str] = Counter()
    binds: set[str] = set()
    tree = _tree("\n".join(line for line in code.split("\n") if not line.lstrip().startswith(("%", "!"))))
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                loads[name] += 1
            case ast.Name(id=name):
                binds.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                binds.add(name)
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                binds.update(_root(node))
            case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):  # model.fit(X, y)
                binds.update(_root(method))
            case ast.AugAssign(target=ast.Name(id=name)):
                loads[name] += 1
            case _:
                pass
    return _Names(loads, frozenset(binds))


def _root(node: ast.expr) -> Iterator[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id


def loaded_names(steps: Sequence[Step]) -> Counter[str]:
    """Return the names that the code loads, with how often.

    >>> loaded_names([Step("1", "", "x = df.mean()\\nprint(df)")])["df"]
    2
    """
    return sum((_names(step.code).loads for step in steps), Counter())


def _free_names(steps: Sequence[Step]) -> set[str]:
    """Return the names that the code loads before it has bound them itself."""
    free: set[str] = set()
    bound: set[str] = set()
    for step in steps:
        tree = _tree(step.code)
        if tree is None:
            free |= set(_names(step.code).loads) - bound
            continue
        for statement in tree.body:
            own: set[str] = set()
            for node in ast.walk(statement):
                if isinstance(node, ast.comprehension):
                    own |= {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
                elif isinstance(node, ast.arg):
                    own.add(node.arg)
            names = _names(ast.unparse(statement))
            free |= set(names.loads) - bound - own
            if isinstance(
                statement, (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
            ):
                bound |= names.binds - set(names.loads)
    return free


def needed_cells(cells: Sequence[Step], calls: Sequence[Step], frame: str) -> list[Step]:
    """Return the cells, in their order, that compute from `frame` what the calls use, but not those that make the frame.

    >>> cells = [Step("a", "", "df = read()"), Step("b", "", "X = df[['a']]"), Step("c", "", "Z = df.copy()")]
    >>> [cell.id for cell in needed_cells(cells, [Step("1", "", "print(X.mean())")], "df")]
    ['b']
    """
    names = [_names(cell.code) for cell in cells]
    wanted = _free_names(calls)
    backward: set[int] = set()
    for at in reversed(range(len(cells))):
        if (names[at].binds & wanted) - {frame}:
            backward.add(at)
            wanted |= _free_names([cells[at]])
    depends = {frame}
    found: list[Step] = []
    for at in sorted(backward):
        if depends & set(names[at].loads):
            depends |= names[at].binds
            found.append(cells[at])
    return found


def best_frame(frames: Sequence[Frame], cells: Sequence[Step], calls: Sequence[Step]) -> list[Frame]:
    """Return the frames, the likeliest to be resampled first.

    Most calls depend on it; it is a table; the calls find it and do not make it; it is used most often.
    """
    free = _free_names(calls)

    def rank(frame: Frame) -> tuple[int, bool, bool, int, int]:
        before = needed_cells(cells, calls, frame.name)
        depends = {frame.name}.union(*(_names(cell.code).binds for cell in before))
        reached = 0
        for call in calls:
            names = _names(call.code)
            if depends & set(names.loads) or frame.name in names.binds:
                reached += 1
                depends |= names.binds
        uses = loaded_names([*before, *calls])[frame.name]
        return reached, bool(frame.columns), frame.name in free, uses, frame.rows

    return sorted(frames, key=rank, reverse=True)


def best_label(frame: Frame, others: Sequence[Frame], steps: Sequence[Step]) -> str:
    """Return the column of the frame, or a variable of its length, that the code most likely explains; "" if none.

    >>> best_label(Frame("df", 9, ("age", "left")), [], [Step("1", "", "y = df['left']; X = df[['age']]")])
    'left'
    """
    scores = Counter(column for step in steps for column in _columns_in(step.code) if column in frame.columns)
    for column in frame.columns:
        if column.lower() in LABEL_NAMES and scores[column]:
            scores[column] += 4
    if scores:
        return max(scores, key=lambda column: (scores[column], frame.columns.index(column)))
    used = loaded_names(steps)
    same = [
        other.name for other in others if other.rows == frame.rows and other.name != frame.name and used[other.name]
    ]
    return next((name for name in same if name.lower() in LABEL_NAMES), "")


def _columns_in(code: str) -> Iterator[str]:
    """Yield what may be columns, with those that a label is made of five times more."""
    tree = _tree(code)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Constant(value=str() as text) | ast.Attribute(attr=text):
                yield text
            case ast.Compare() | ast.Call(func=ast.Attribute(attr="groupby")):  # the groups are what is compared
                yield from _names_in(node.left if isinstance(node, ast.Compare) else node) * 3
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.lower() in LABEL_NAMES:
                yield from _names_in(value) * 5
            case _:
                pass


def _names_in(node: ast.expr) -> list[str]:
    parts = list(ast.walk(node))
    attributes = [part.attr for part in parts if isinstance(part, ast.Attribute)]
    return attributes + [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def with_hook(code: str, frame: str) -> str:
    """Return the code with the perturbation called again behind each statement that makes `frame` anew.

    >>> with_hook("df = read()\\ndf = df.dropna(); print(1)", "df")
    'df = read(); __cellwright_perturb__()\\ndf = df.dropna(); print(1)'
    """
    tree = _tree(code)
    lines = code.split("\n")
    for node in reversed(tree.body if tree is not None else []):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        makes = any(isinstance(each, ast.Name) and each.id == frame for each in targets)
        if makes and not any(isinstance(part, ast.Name) and part.id == frame for part in ast.walk(node.value)):
            at, column = (node.end_lineno or 0) - 1, node.end_col_offset or 0
            encoded = lines[at].encode()
            lines[at] = f"{encoded[:column].decode()}; {HOOK}(){encoded[column:].decode()}"
    return "\n".join(lines)


def with_seed(code: str, seed: int) -> str:
    """Return the code with `seed` in the place of the seeds that stand in it as numbers.

    >>> with_seed("rng = default_rng(0); split(X, random_state=42)", 7)
    'rng = default_rng(7); split(X, random_state=7)'
    """
    lines = code.split("\n")
    for number in sorted(_seeds(code), key=lambda each: (each.lineno, each.col_offset), reverse=True):
        line = lines[number.lineno - 1].encode()
        end = number.end_col_offset or number.col_offset
        lines[number.lineno - 1] = (line[: number.col_offset] + str(seed).encode() + line[end:]).decode()
    return "\n".join(lines)


def _seeds(code: str) -> Iterator[ast.Constant]:
    tree = _tree(code)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            if keyword.arg in SEED_ARGUMENTS:
                yield from _literal(keyword.value)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in SEED_CALLS and node.args:
            yield from _literal(node.args[0])


def _literal(node: ast.expr) -> Iterator[ast.Constant]:
    if isinstance(node, ast.Constant) and type(node.value) is int and node.lineno == node.end_lineno:
        yield node
