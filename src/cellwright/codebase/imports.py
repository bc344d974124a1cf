"""The files of a project that its imports mean, found by the rules of each language where files lie."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_SCRIPTS = (".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", "/index.ts", "/index.tsx", "/index.js")


class ImportResolver:
    """Resolves imports below `root`, asking for each path once."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._there: dict[str, bool] = {}

    def targets(self, importing: str, language: str, module: str, names: tuple[str, ...]) -> list[str]:
        """The files that an import in the file `importing` means, relative to the root; none for what is not in it."""
        if language in ("Python", "notebook"):
            return self._python(importing, module, names)
        if language in ("JavaScript", "TypeScript", "TSX"):
            return self._first(self._script(importing, module))
        if language in ("C", "C++"):
            return self._first(_joined(folder, module) for folder in (*_above(importing), "include", "src"))
        if language == "Java":
            path = module.removesuffix(".*").replace(".", "/")
            return self._first(_joined(folder, f"{path}.java") for folder in (*_above(importing), "src/main/java"))
        if language == "Rust":
            return self._first(self._rust(importing, module, names))
        return []

    def _first(self, candidates: Iterator[str]) -> list[str]:
        return next(([path] for path in candidates if self._is_file(path)), [])

    def _is_file(self, path: str) -> bool:
        if path not in self._there:
            self._there[path] = bool(path) and not path.startswith("../") and os.path.isfile(f"{self._root}/{path}")  # noqa: PTH113
        return self._there[path]

    def _python(self, importing: str, module: str, names: tuple[str, ...]) -> list[str]:
        stripped = module.lstrip(".")
        dots = len(module) - len(stripped)
        parts = stripped.replace(".", "/")
        if dots:
            folder = PurePosixPath(importing)
            for _ in range(dots):
                folder = folder.parent
            bases = [str(folder)]
        else:
            bases = [*_above(importing), "src", "lib", "python"]
        for base in bases:
            found = [path for name in names for path in self._module(_joined(base, parts, name))]
            if own := self._module(_joined(base, parts)):
                # `from package import name`: the name is a module of its own, or something of the package
                return found if len(found) == len(names) and found else list(dict.fromkeys([*own, *found]))
            if found:
                return found
        return []

    def _module(self, path: str) -> list[str]:
        return self._first(iter((f"{path}.py", f"{path}/__init__.py", f"{path}.pyi")))

    def _script(self, importing: str, module: str) -> Iterator[str]:
        if not module.startswith("."):
            return
        base = os.path.normpath(f"{PurePosixPath(importing).parent}/{module}").replace(os.sep, "/")
        yield base
        for suffix in _SCRIPTS:
            yield f"{base}{suffix}"
        stem, dot, ending = base.rpartition(".")
        if dot and ending in ("js", "jsx", "mjs"):  # TypeScript's imports name what it is compiled to
            yield from (f"{stem}.ts", f"{stem}.tsx")

    def _rust(self, importing: str, module: str, names: tuple[str, ...]) -> Iterator[str]:
        parts = [part for part in module.split("::") if part]
        folder = PurePosixPath(importing).parent
        if not parts:
            return
        if parts[0] in ("self", "super"):
            bases = [str(folder if parts[0] == "self" else folder.parent), str(folder)]
        elif parts[0] == "crate":
            bases = [each for each in _above(importing) if each.endswith("src") or not each]
        else:
            return
        for base in bases:
            for end in range(len(parts), 0, -1):
                for name in (*names, "") if end == len(parts) else ("",):
                    path = _joined(base, *parts[1:end], name)
                    yield from (f"{path}.rs", f"{path}/mod.rs")


def importable_name(path: str) -> str:
    """The part of a path that imports of it hold: the file's name without its ending, or the folder's."""
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    return folders[-1] if stem in ("__init__", "index", "mod") and folders else stem


def _above(path: str) -> list[str]:
    """The folders that a file is in, from its own up to the root, which is ""."""
    return ["" if str(parent) == "." else str(parent) for parent in PurePosixPath(path).parents]


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part and part != ".")
