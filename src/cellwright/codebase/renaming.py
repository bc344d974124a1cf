"""The places that a definition's new name has to be put in: those that surely mean it, and those that may.

In Python a use is followed through scopes, imports and modules; of a method through `self`, its class and those that are
made of it. In other languages a use by name is the definition's if no other definition has the name, and it is no member of
an object. What cannot be told is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from cellwright.codebase.imports import ImportResolver
from cellwright.codebase.parsing.references import MODULE, UNBOUND, NameUse, PythonNames, python_names, references_in
from cellwright.codebase.parsing.source_file import SourceText
from cellwright.text import lazy_pattern

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
        starts = _line_starts(source.text)
        for use in references_in(source, name):
            start = starts[use.line - 1] + use.column - 1
            before, after = source.text[max(start - 80, 0) : start], source.text[start + len(name.encode()) :][:80]
            shorthand = _BRACED.search(before) and (after.lstrip()[:1] in (b",", b"}")) and use.kind == "read"
            member = _MEMBER.search(before) and not _OWN_MEMBER.search(before)
            key = _KEY.match(after) and _BRACED.search(before)
            doubtful = use.kind != "definition" and (member or key or shorthand)
            (unclear if doubtful else sure).append(UseOfName(path, use.line, start))
    return Renaming(tuple(sorted(sure)), tuple(sorted(unclear)))


def _line_starts(text: bytes) -> Sequence[int]:
    return [0, *(found.end() for found in re.finditer(b"\n", text))]


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
