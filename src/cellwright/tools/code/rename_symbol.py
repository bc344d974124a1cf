"""RenameSymbol: a function, class, method or variable of the project gets another name, and so do all its uses.

The places are found before anybody is asked, so that the rules judge, and the user sees, each file that would change. Places
of which it cannot be told whether they mean it are never changed unasked: the call has to say what becomes of them.

In Python a use is followed through scopes, imports and modules; of a method through `self`, its class and those that are
made of it. In other languages a use by name is the definition's if no other definition has the name, and it is no
member of an object. What cannot be told is never guessed.
"""

from __future__ import annotations

import asyncio
import keyword
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import astuple

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.codebase.index_reader import ImportResolver, IndexedSymbol
from cellwright.codebase.references import MODULE, UNBOUND, NameUse, PythonNames, python_names, references_in
from cellwright.codebase.source_file import SourceText, language_of, place_in, source_text
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import counted, lazy_pattern
from cellwright.tools.code.navigation.find_names import Within, definition_line, files_using
from cellwright.tools.code.navigation.project_code import ProjectCode, short
from cellwright.tools.files.changes import FilesOutput, in_thread
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.patched_files import PatchedFiles, file_on_disk, patched_files
from cellwright.tools.files.replace import EDITED_BYTES
from cellwright.tools.inputs import HERE, SYMBOL_NAMES
from cellwright.tools.paths import file_errors, real_path

MAX_FILES = 500
PLACES_NAMED = 40
_BOM = b"\xef\xbb\xbf"

DESCRIPTION = """\
Rename a function, class, method or module-level variable and all that surely means it, in all files: definition, imports, \
calls, `__all__`. Python is followed through scopes and imports; other languages go by a name that is defined once.
- Places that may or may not mean it (`x.name` of an unknown x) stop the call, which lists them: call again with `also`, \
the places (`path:line`) that mean it, or [] for none.
- Comments, strings and notebooks are left as they are; the result names notebooks that use it."""

Place = Annotated[str, Meta(min_length=3, pattern=r"^.+:\d+$")]

PYTHON_LANGUAGES = frozenset({"Python", "notebook"})
SAME_LANGUAGE = (
    PYTHON_LANGUAGES,
    frozenset({"JavaScript", "TypeScript", "TSX"}),
    frozenset({"C", "C++"}),
)
"""Languages whose files use each other's definitions."""

_MEMBER = lazy_pattern(rb"(?:\.|\?\.|->)\s*$")
_OWN_MEMBER = lazy_pattern(rb"\b(?:this|self)\s*(?:\.|->)\s*$")
_KEY = lazy_pattern(rb"\s*:(?!:)")
_BRACED = lazy_pattern(rb"[{,]\s*$")


class RenameSymbolInput(ToolInput):
    """The input of RenameSymbol."""

    aliases: ClassVar = SYMBOL_NAMES
    symbol: Annotated[str, Meta(min_length=1, pattern=r"^[^\s\x00*]+$", description="`name` or `Class.method`.")]
    new_name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^\w+$", description="The new name alone.")]
    path: Annotated[Within, Meta(description="The file that defines it, where several do.")] = HERE
    also: (
        Annotated[
            tuple[Place, ...],
            Meta(description="Unclear places to rename, too, as an earlier call listed them; [] for none of them."),
        ]
        | None
    ) = None


class _Plan(Struct, frozen=True):
    """A renaming that was worked out: the files as they would be, and notes for the model."""

    patched: PatchedFiles
    notes: Sequence[str]
    paths: Sequence[str]

    @property
    def patch(self) -> str:
        """The change as the policy judges it, and as it must still be when it is made."""
        return self.patched.diff


class _Renamer:
    """Renamings that were worked out and not yet made."""

    def __init__(self, code: ProjectCode, state: FileState) -> None:
        self.code = code
        self.state = state
        self._plans: OrderedDict[tuple[Any, ...], _Plan] = OrderedDict()

    async def prepare(self, input: RenameSymbolInput) -> None:
        """Find the places, so that the policy and the user are asked about each file. Raises ToolError."""
        key = astuple(input)
        self._plans.pop(key, None)
        self._plans[key] = await self._plan(input)
        while len(self._plans) > 8:
            self._plans.popitem(last=False)

    def facts(self, input: RenameSymbolInput) -> dict[str, Any]:
        """The patch that would be applied; nothing where it was not worked out."""
        plan = self._plans.get(astuple(input))
        return {} if plan is None else {"patch": plan.patch}

    async def preview(self, input: RenameSymbolInput) -> Preview:
        plan = self._plans.get(astuple(input)) or await self._plan(input)
        first = plan.paths[0] if plan.paths else ""
        return Preview(f"{_title(input)}: {plan.patched.summary}", plan.patch, "diff", path=first)

    async def run(self, input: RenameSymbolInput, context: ToolContext) -> ToolResult:
        asked = self._plans.pop(astuple(input), None)
        plan = await self._plan(input)
        if asked is not None and asked.patch != plan.patch:
            message = "The files were changed after it was asked whether this may be done; nothing was. Call again."
            raise ToolError(message, code=ErrorCode.FILE_ACCESS_ERROR)
        if hidden := [path for path in plan.paths if not context.may_read(str(self.code.root / path))]:
            message = (
                f"{counted(len(hidden), 'file')} that would change may not be read by you, so nothing was renamed."
            )
            raise ToolError(message, code=ErrorCode.PERMISSION_DENIED)

        def work(stopped: Callable[[], bool]) -> ToolResult:
            plan.patched.write(self.state, stopped)
            head = f"Renamed {input.symbol} to {input.new_name} in {plan.patched.summary}:"
            text = "\n".join([head, *plan.patched.lines, *plan.notes])
            return ToolResult(text, plan.patched.display(), structured=plan.patched.output())

        return await in_thread(work)

    async def _plan(self, input: RenameSymbolInput) -> _Plan:
        under = self.code.scope(input.path)
        await self.code.refresh()
        if await self.code.state() != "complete":
            why = self.code.problem or "it is still being built; call again in a moment"
            message = (
                f"A use that is not known would be left out, so nothing is renamed without the whole index: {why}."
            )
            raise ToolError(message, code=ErrorCode.EXECUTION_ERROR)
        symbol = await self._definition(input, under)
        _check_name(input.new_name, symbol)
        languages = related_languages(symbol.file.language)
        paths = [
            path for path in await files_using(self.code, symbol.name, "") if language_of(PurePath(path)) in languages
        ]
        if len(paths) > MAX_FILES:
            message = f"{symbol.name} is in {len(paths):,} files; at most {MAX_FILES} are looked through."
            raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
        return await asyncio.to_thread(self._worked_out, input, symbol, paths)

    async def _definition(self, input: RenameSymbolInput, under: str) -> IndexedSymbol:
        found = [
            each
            for each in await self.code.definitions(input.symbol, under, _ANYTHING)
            if each.name == input.symbol.rpartition(".")[2]
        ]
        found = [each for each in found if not each.declared] or found
        # what a plain name means first: not a local variable or an attribute of the same name
        found = [each for each in found if each.kind != "variable"] or found
        if "." not in input.symbol:
            found = [each for each in found if each.qualified == each.name] or found
        if not found:
            message = f"{input.symbol} is not defined in the project. Use FindDefinitions to see its symbols."
            raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
        places = {(each.file.path, each.qualified) for each in found}
        if len(places) > 1:
            listed = "\n".join(definition_line(each) for each in found[:PLACES_NAMED])
            message = f"{input.symbol} is defined in several places. Name one: `Class.method`, or its file as `path`."
            raise ToolError(f"{message}\n{listed}", code=ErrorCode.INVALID_PARAMETERS)
        symbol = found[0]
        if symbol.file.language not in PYTHON_LANGUAGES and under:
            others = await self.code.definitions(symbol.name, "", _ANYTHING)
            related = related_languages(symbol.file.language)
            others = [each for each in others if each.file.language in related and not each.declared]
            if any(each.file.path != symbol.file.path for each in others):
                message = (
                    f"Other files define {symbol.name}, too; uses in {symbol.file.language} cannot be distinguished."
                )
                raise ToolError(f"{message} Use FindReferences and ApplyPatch.", code=ErrorCode.INVALID_PARAMETERS)
        return symbol

    def _worked_out(self, input: RenameSymbolInput, symbol: IndexedSymbol, paths: Sequence[str]) -> _Plan:
        data = {path: self._bytes(path) for path in paths}
        texts = {path: source_text(PurePath(path), each) for path, each in data.items() if each is not None}
        sources = {path: source for path, source in texts.items() if source is not None and source.grammar is not None}
        renaming = self._places(symbol, sources)
        _check_unused(input.new_name, symbol, sources, renaming)
        chosen = _chosen(input, renaming, sources)
        by_file: dict[str, list[int]] = {}
        for use in chosen:
            by_file.setdefault(use.path, []).append(use.start)
        notebooks = [path for path in by_file if sources[path].language == "notebook"]
        files = []
        for path, starts in by_file.items():
            if path in notebooks:
                continue
            with file_errors(path):
                file = file_on_disk(real_path(self.code.root / path), path, self.state)
            assert file.before is not None
            shift = len(_BOM) if file.before.startswith(_BOM) else 0
            if file.before[shift:] != sources[path].text:
                raise ToolError(f"{path} was changed just now. Call again.", code=ErrorCode.FILE_ACCESS_ERROR)
            file.now = renamed(file.before, [start + shift for start in starts], symbol.name, input.new_name)
            files.append(file)
        notes = []
        for path in notebooks:
            places = dict.fromkeys(place_in(sources[path].cells, use.line) for use in chosen if use.path == path)
            notes.append(
                f"{path} uses it, too, and was left as it is (change it with NotebookEdit): {', '.join(places)}"
            )
        patched = patched_files(files, allow_syntax_errors=False)
        return _Plan(patched, notes, [path for path in by_file if path not in notebooks])

    def _bytes(self, path: str) -> bytes | None:
        try:
            return (self.code.root / path).read_bytes()
        except OSError:
            return None

    def _places(self, symbol: IndexedSymbol, sources: Mapping[str, SourceText]) -> Renaming:
        if symbol.file.language not in PYTHON_LANGUAGES:
            return other_renaming(sources, symbol.name)
        outer = symbol.qualified.rpartition(".")[0]
        classes = {each.qualified for each in self.code.symbols(symbol.file.path) if each.kind == "class"}
        if outer and outer not in classes:
            message = f"{symbol.qualified} is local to {outer}: change it with Edit."
            raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
        if re.fullmatch(r"__\w+__", symbol.name):
            raise ToolError(f"Python itself goes by {symbol.name}.", code=ErrorCode.INVALID_PARAMETERS)
        owner = outer.rpartition(".")[2]
        return python_renaming(sources, symbol.name, symbol.file.path, owner, ImportResolver(self.code.root))


_ANYTHING = ToolContext("", lambda **_: None)
"""The context of a search whose rows are judged later, with the patch that they lead to."""


def rename_symbol_tool(code: ProjectCode, state: FileState) -> Tool:
    """RenameSymbol, for the code of one project. `state` is the session's memory of files."""
    renamer = _Renamer(code, state)

    @tool(
        name="RenameSymbol",
        rarely_used=True,
        has_effects=False,
        output=FilesOutput,
        description=DESCRIPTION,
        access=ToolAccess("patch", "patch"),
        category="code",
        best_for="another name for a function or class",
        limits=ToolLimits(seconds=120, file_bytes=EDITED_BYTES),
        examples=[{"symbol": "load_rows", "new_name": "read_rows"}],
        title=_title,
        preview=renamer.preview,
        prepare=renamer.prepare,
        facts=renamer.facts,
    )
    async def rename_symbol(input: RenameSymbolInput, context: ToolContext) -> ToolResult:
        return await renamer.run(input, context)

    return rename_symbol


def _title(input: RenameSymbolInput) -> str:
    return f"Rename {input.symbol} to {input.new_name}"


def _check_name(new_name: str, symbol: IndexedSymbol) -> None:
    if new_name == symbol.name:
        raise ToolError(f"It is called {new_name} already.", code=ErrorCode.INVALID_PARAMETERS)
    python = symbol.file.language in PYTHON_LANGUAGES
    if not new_name.isidentifier() or (python and keyword.iskeyword(new_name)):
        raise ToolError(f"{new_name!r} cannot be a name in {symbol.file.language}.", code=ErrorCode.INVALID_PARAMETERS)


def _check_unused(new_name: str, symbol: IndexedSymbol, sources: Mapping[str, SourceText], renaming: Renaming) -> None:
    """Raise ToolError where the new name is in use in a file that would change: one of them would hide the other."""
    taken = [
        f"{path}{place_in(sources[path].cells, line)}"
        for path in dict.fromkeys(use.path for use in renaming.sure)
        for line in _lines_with(new_name, symbol, sources[path])
    ]
    if taken:
        more = f" and {len(taken) - PLACES_NAMED} more" if len(taken) > PLACES_NAMED else ""
        message = f"{new_name} is in use where {symbol.name} is: {', '.join(taken[:PLACES_NAMED])}{more}."
        raise ToolError(f"{message} Choose another name.", code=ErrorCode.INVALID_PARAMETERS)


def _lines_with(name: str, symbol: IndexedSymbol, source: SourceText) -> list[int]:
    """The lines on which a name stands that would not be told apart from the symbol, if that were called so."""
    if symbol.file.language not in PYTHON_LANGUAGES:
        return [each.line for each in references_in(source, name)]
    uses = python_names(source.text, name).uses
    if symbol.kind == "method":
        owner = symbol.qualified.split(".")[-2]
        inside = [use for use in uses if use.within[:1] == (owner,)]
        return [use.line for use in inside if use.role == "name" or use.owner in ("self", "cls")]
    return [use.line for use in uses if use.role in ("name", "imported")]


def _chosen(input: RenameSymbolInput, renaming: Renaming, sources: Mapping[str, SourceText]) -> list[UseOfName]:
    """The places to change. ToolError where the call has not said what becomes of unclear ones."""
    unclear = {f"{use.path}{place_in(sources[use.path].cells, use.line)}": use for use in renaming.unclear}
    if input.also is None and unclear:
        lines = []
        for place, use in unclear.items():
            line = sources[use.path].text.split(b"\n")[use.line - 1]
            lines.append(f"{place}: {short(line.decode('utf-8', 'replace'))}")
        more = [f"and {len(lines) - PLACES_NAMED} more"] if len(lines) > PLACES_NAMED else []
        raise ToolError(
            f"{counted(len(renaming.sure), 'place')} certainly mean {input.symbol}; the following are unclear. Look at "
            "them, then call again with `also`: the ones that mean it, or [] for none. Nothing was renamed.\n"
            + "\n".join([*lines[:PLACES_NAMED], *more]),
            code=ErrorCode.INVALID_PARAMETERS,
            details={"unclear": list(unclear)},
        )
    wanted = dict.fromkeys(input.also or ())
    if unknown := [place for place in wanted if place not in unclear]:
        message = (
            f"No unclear use of {input.symbol} is at {', '.join(unknown)}. Unclear are: {', '.join(unclear) or 'none'}."
        )
        raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
    lines_wanted = {(unclear[place].path, unclear[place].line) for place in wanted}
    return [*renaming.sure, *(use for use in renaming.unclear if (use.path, use.line) in lines_wanted)]


class UseOfName(Struct, frozen=True, order=True):
    """A place where a name stands: its byte in the text of the file `path`, and its line there."""

    path: str
    line: int
    start: int


class Renaming(Struct, frozen=True):
    """The places of a renaming: `sure` ones mean the definition, `unclear` ones may. Others of that name do not."""

    sure: tuple[UseOfName, ...]
    unclear: tuple[UseOfName, ...]


def related_languages(language: str) -> frozenset[str]:
    """The languages whose files may use a definition of this one."""
    return next((group for group in SAME_LANGUAGE if language in group), frozenset({language}))


def python_renaming(
    sources: Mapping[str, SourceText], name: str, defined_in: str, owner: str, resolver: ImportResolver
) -> Renaming:
    """The places of the function, class or variable `name`, or of the method `name` of the class `owner`.

    `sources` are the files that hold the name, by path; `defined_in` is the path of the one that defines it.
    """
    names = {path: python_names(source.text, name) for path, source in sources.items()}
    find = _method_uses if owner else _module_uses
    sure, unclear = find(names, defined_in, owner, resolver)
    return Renaming(tuple(sorted(sure)), tuple(sorted(unclear)))


_Places = tuple[list[UseOfName], list[UseOfName]]


def _module_uses(names: Mapping[str, PythonNames], home: str, _owner: str, resolver: ImportResolver) -> _Places:
    ours, exporting = _reached(names, home, resolver)

    def is_ours(path: str, use: NameUse) -> bool:
        match use.role:
            case "name":
                return (path, use.scope) in ours
            case "listed":
                return path in exporting
            case "imported":
                return _leads(resolver, path, use.module, exporting)
            case "member":
                return any(
                    _leads(resolver, path, module, exporting) for module in _modules_meant(names[path], use.owner)
                )
        return False

    return [_place(path, use) for path, found in names.items() for use in found.uses if is_ours(path, use)], []


def _reached(
    names: Mapping[str, PythonNames], home: str, resolver: ImportResolver
) -> tuple[set[tuple[str, int]], set[str]]:
    """The scopes in which the name is that of the module `home`, by file; and the files that it can be imported from."""
    ours, exporting = {(home, MODULE)}, {home}
    before = 0
    while before != len(ours):
        before = len(ours)
        for path, found in names.items():
            taken = [each for each in found.uses if each.role == "imported" and not each.aliased]
            scopes = {each.scope for each in taken if _leads(resolver, path, each.module, exporting)}
            if path != home and any(_leads(resolver, path, star, exporting) for star in found.stars):
                scopes.add(UNBOUND)
            ours.update((path, scope) for scope in scopes)
            if not scopes.isdisjoint((MODULE, UNBOUND)):
                exporting.add(path)
    return ours, exporting


def _method_uses(names: Mapping[str, PythonNames], home: str, owner: str, _resolver: ImportResolver) -> _Places:
    family = {owner}
    classes = {each for found in names.values() for each in found.bases}
    while more := {name for name, bases in classes if name not in family and not family.isdisjoint(bases)}:
        family |= more
    definers = {use.within[0] for found in names.values() for use in found.uses if use.defines and use.within}
    bodies = {
        (path, use.scope)
        for path, found in names.items()
        for use in found.uses
        if use.defines and use.within[:1] and use.within[0] in family and use.scope not in (MODULE, UNBOUND)
    }
    sure: list[UseOfName] = []
    unclear: list[UseOfName] = []
    for path, found in names.items():
        for use in found.uses:
            verdict = _of_family(use, family, definers) if use.role == "member" else (path, use.scope) in bodies
            if verdict is None:
                unclear.append(_place(path, use))
            elif verdict and use.role in ("member", "name"):
                sure.append(_place(path, use))
    return sure, unclear


def _of_family(use: NameUse, family: set[str], definers: set[str]) -> bool | None:
    """Return whether a member is a method of one of these classes; None where that cannot be told."""
    if use.owner in ("self", "cls", "super()") and use.within:
        if use.within[0] in family:
            return True
        return False if use.within[0] in definers else None
    if use.owner_type:
        return use.owner_type in family
    last = use.owner.rpartition(".")[2]
    if last in family:
        return True
    return False if last in definers else None


def _leads(resolver: ImportResolver, path: str, module: str, exporting: set[str]) -> bool:
    return not exporting.isdisjoint(resolver.targets(path, "Python", module, ()))


def _modules_meant(names: PythonNames, owner: str) -> list[str]:
    """The modules that a dotted text may stand for, by the imports of its file."""
    meant = []
    for each in names.modules:
        if owner == each.name or owner.startswith(f"{each.name}."):
            module = each.module
            if each.item:
                module += each.item if module.endswith(".") else f".{each.item}"
            meant.append(module + owner[len(each.name) :])
    return meant


def _place(path: str, use: NameUse) -> UseOfName:
    return UseOfName(path, use.line, use.start)


def other_renaming(sources: Mapping[str, SourceText], name: str) -> Renaming:
    """The places of a name that is defined once, in languages whose scopes are not followed."""
    sure: list[UseOfName] = []
    unclear: list[UseOfName] = []
    for path, source in sources.items():
        starts = [0, *(found.end() for found in re.finditer(b"\n", source.text))]
        for use in references_in(source, name):
            start = starts[use.line - 1] + use.column - 1
            before, after = source.text[max(start - 80, 0) : start], source.text[start + len(name.encode()) :][:80]
            shorthand = _BRACED.search(before) and (after.lstrip()[:1] in (b",", b"}")) and use.kind == "read"
            member = _MEMBER.search(before) and not _OWN_MEMBER.search(before)
            key = _KEY.match(after) and _BRACED.search(before)
            doubtful = use.kind != "definition" and (member or key or shorthand)
            (unclear if doubtful else sure).append(UseOfName(path, use.line, start))
    return Renaming(tuple(sorted(sure)), tuple(sorted(unclear)))


def renamed(text: bytes, starts: Sequence[int], name: str, new_name: str) -> bytes:
    """The text with the name at these bytes exchanged.

    >>> renamed(b"a = b + a", [0, 8], "a", "total")
    b'total = b + total'
    """
    pieces = []
    done = 0
    for start in sorted(starts):
        pieces += [text[done:start], new_name.encode()]
        done = start + len(name.encode())
    return b"".join([*pieces, text[done:]])
