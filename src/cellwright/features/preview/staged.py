"""The copy that a preview works on: the project's files, what is different in them, and which calls work on the copy.

Large files and folders that programs make (`.git`, environments) are links to the user's own: they can be read, and nothing
in a preview may write to where they lead. Code runs in the copy of the kernel; all else waits.

The usual policy judges each call by the user's own paths, so that rules hold as ever. What it would ask about because files
change or code runs is not asked, since none of it is the user's; what it denies stays denied.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentFeatures, OtherTools
from cellwright.agent.calls.approval import Decision, PolicyAround
from cellwright.agent.tool import READING_KINDS, Content, Tool, ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.this_process.files import new_folder, remove

MOST_FILES = 20_000
MOST_BYTES = 400 * 2**20
LARGEST_COPY = 8 * 2**20
"""A larger file is linked."""
LARGEST_ACCEPTED = 100 * 2**20

_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

LINKED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox", ".pixi", ".mypy_cache"}
    | {".ruff_cache", ".pytest_cache", ".ipynb_checkpoints"}
)
"""Folders that are not copied, and whose changes are none of the turn's."""

_PATH_ENDS = r"(?=[/\s'\"`:;,)\]]|$)"

ACCEPT = "AcceptPreview"
"""The tool by which the user accepts parts at the end."""

_IN_COPY = frozenset({*READING_KINDS, "edit", "shell", "repository", "lint", "tests"})
"""Kinds of tools that work on the copy of the files."""
_JUDGED = frozenset({*READING_KINDS, "repository", "agent", "variables"})
"""Kinds of calls that are judged as in any turn."""
_PATHS = ("file_path", "notebook_path", "path")
_FILES = frozenset({*READING_KINDS, "edit", "repository"})
"""Kinds of those that nothing confines: they work in this process."""
_WHOLE_FOLDERS = READING_KINDS - {"read"}
_CHANGING = frozenset({"edit", "patch", "shell", "lint", "tests", "cells", "fresh_kernel", "python"})
_AS_EVER = frozenset({"skill", "question", "plan", "todos", "notes", "fetch", "web_search"})

STAGED = "This turn is a preview: files are changed in a copy of them, and you are asked at its end."
CONFINED = "This turn is a preview: it runs in a copy of the files, without network."
WAY_ON = "Say what to do after the preview, and continue without it."


def leads_out(name: str) -> str:
    """Return why a link is not followed."""
    return f"{name} is a link that was made in this preview, and it leads out of the copied files. Remove it first."


class TreeTooLarge(Exception):
    """The folder has more than a preview copies; the text is a sentence."""


class FileChange(Struct, frozen=True):
    """A file that is other in the copy. `name` is its path below the project, `before` and `after` its contents."""

    name: str
    before: bytes | None
    after: bytes | None
    executable: bool = False


class _Copied(Struct, frozen=True):
    size: int
    mtime_ns: int
    sha256: str


class StagedTree(Struct):
    """A copy of `project`, in `root`. `given` is the project's path as others spell it."""

    given: Path
    project: Path
    folder: Path
    root: Path
    copied: dict[str, _Copied] = field(default_factory=dict)
    on_disk: dict[str, _Copied] = field(default_factory=dict)
    replaced: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def make(cls, project: Path, may_read: Callable[[str], bool]) -> StagedTree:
        """Copy what of `project` may be read. Raises TreeTooLarge and OSError; nothing is left then."""
        folder = new_folder("preview")
        tree = cls(project, Path(os.path.realpath(project)), folder, folder / "files")
        try:
            tree.root.mkdir(mode=0o700)
            tree._copy(may_read)
        except BaseException:
            remove(folder)
            raise
        return tree

    def _copy(self, may_read: Callable[[str], bool]) -> None:
        size = files = 0
        for name, entry in _walk(self.project):
            target = self.root / name
            if entry.is_dir(follow_symlinks=False):
                if entry.name in LINKED:
                    target.symlink_to(entry.path)
                else:
                    target.mkdir()
                continue
            if entry.is_symlink():
                target.symlink_to(os.path.join(os.path.dirname(entry.path), os.readlink(entry.path)))  # noqa: PTH115, PTH118, PTH120
                continue
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode) or not may_read(entry.path):
                continue
            files += 1
            size += status.st_size if status.st_size <= LARGEST_COPY else 0
            if files > MOST_FILES or size > MOST_BYTES:
                message = (
                    f"{self.project} has more than a preview copies ({MOST_FILES:,} files, {MOST_BYTES >> 20} MB)."
                )
                raise TreeTooLarge(message)
            if status.st_size > LARGEST_COPY:
                target.symlink_to(entry.path)
                continue
            self._keep(name, Path(shutil.copy2(entry.path, target)))

    def _keep(self, name: str, copy: Path) -> None:
        data, status = copy.read_bytes(), copy.lstat()
        self.copied[name] = _Copied(status.st_size, status.st_mtime_ns, hashlib.sha256(data).hexdigest())
        self.on_disk.setdefault(name, self.copied[name])

    def replace(self, name: str, data: bytes) -> None:
        """The copy of a file begins with `data`: what its user sees of it is newer than the file."""
        copy = self.root / name
        copy.unlink(missing_ok=True)
        copy.write_bytes(data)
        self._keep(name, copy)
        self.replaced[name] = data

    def staged(self, path: str | Path) -> Path | None:
        """The place in the copy of `path` (relative: to the project); None if it is not in the project."""
        whole = os.path.normpath(self.project / Path(path).expanduser())
        spelled = os.path.realpath(os.path.dirname(whole))  # noqa: PTH120
        name = os.path.relpath(Path(spelled, Path(whole).name), self.project)
        return None if name.startswith("..") else self.root / name

    def may_write(self, path: str | Path) -> bool:
        """Return whether `path` has a place in the copy, and not in a folder or file that is linked to."""
        place = self.staged(path)
        return place is not None and self._holds(os.path.realpath(place))

    def is_own(self, place: str | Path) -> bool:
        """Return whether a place in the copy is in it, or leads where the user's own path leads, which was judged.

        False of a link that code in the preview has made to somewhere else.
        """
        real = os.path.realpath(place)
        return self._holds(real) or real == os.path.realpath(self.project / self.name_of(Path(place)))

    def refusal(self, place: Path) -> str:
        """Say why a place in the copy is not followed; "" if it may be."""
        return "" if self.is_own(place) else leads_out(self.name_of(place))

    def stray_link(self) -> str:
        """The first link that code in the preview has made out of the copy, by its path below the project; "" if none."""
        links = (name for name, entry in _walk(self.root) if entry.is_symlink())
        return next((name for name in links if not self.is_own(self.root / name)), "")

    def _holds(self, real: str) -> bool:
        return Path(real).is_relative_to(os.path.realpath(self.root))

    def name_of(self, path: Path) -> str:
        """The path below the project of a place in the copy."""
        return str(path.relative_to(self.root))

    def in_copy(self, text: str) -> str:
        """`text` with the project's path as that of the copy."""
        for spelled in dict.fromkeys((self.given, self.project)):
            text = re.sub(re.escape(str(spelled)) + _PATH_ENDS, lambda _: str(self.root), text)
        return text

    def in_project(self, text: str) -> str:
        """`text` with the copy's path as that of the project."""
        return text.replace(str(self.root), str(self.given))

    def original(self, name: str) -> bytes | None:
        """The content that a file began with; None if it was not there, or has changed on disk since."""
        return self.replaced[name] if name in self.replaced else self._unchanged(name)

    def is_as_copied(self, name: str) -> bool:
        """Return whether what is on disk is what was there when it was copied, be it nothing."""
        return self._unchanged(name) is not None if name in self.on_disk else not os.path.lexists(self.project / name)

    def _unchanged(self, name: str) -> bytes | None:
        data, was = _read(str(self.project / name)), self.on_disk.get(name)
        same = data is not None and was is not None and hashlib.sha256(data).hexdigest() == was.sha256
        return data if same else None

    def changed(self) -> list[FileChange]:
        """The files that are other than they began."""
        found = []
        there = set()
        for name, entry in _walk(self.root):
            there.add(name)
            if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
                continue
            status, was = entry.stat(follow_symlinks=False), self.copied.get(name)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_ACCEPTED:
                continue
            if was is not None and (was.size, was.mtime_ns) == (status.st_size, status.st_mtime_ns):
                continue
            data = _read(entry.path)
            if data is None or (was is not None and hashlib.sha256(data).hexdigest() == was.sha256):
                continue
            found.append(
                FileChange(name, None if was is None else self.original(name), data, bool(status.st_mode & 0o100))
            )
        found += [FileChange(name, self.original(name), None) for name in self.copied if name not in there]
        return sorted(found, key=lambda change: change.name)

    def close(self) -> None:
        """Remove it."""
        remove(self.folder)


def _read(path: str) -> bytes | None:
    """The content of a file of the copy: never what a link leads to, which code could put there at any moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _AS_IT_IS)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LARGEST_ACCEPTED) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _walk(top: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below `top` with its path from there; folders that are linked to are not entered."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(top / folder) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                name = f"{folder}/{entry.name}" if folder else entry.name
                yield name, entry
                if entry.is_dir(follow_symlinks=False) and entry.name not in LINKED:
                    waiting.append(name)


class Stage(Struct, eq=False):
    """The place of the calls of a preview. `tree` is None until the copies are made; `is_off`: it is none any more.

    `kernel_tools` are those that run in the copy of the kernel, by name, and `looking` describes its variables; nothing runs
    there within `still`. `can_ask`: somebody can answer questions.
    """

    kernel_tools: Mapping[str, Tool]
    looking: Tool
    files: Callable[[Path], Sequence[Tool]]
    still: Callable[[], AbstractAsyncContextManager[None]]
    can_ask: bool
    tree: StagedTree | None = None
    is_off: bool = False
    has_run: bool = False
    """Code has run in the copy of the kernel."""
    _made: dict[str, Tool] | None = None

    @property
    def at_work(self) -> StagedTree | None:
        """The copy of the files while calls work on it."""
        return None if self.is_off else self.tree

    @property
    def waits(self) -> bool:
        """True while the copies are not made: no call may run."""
        return self.tree is None and not self.is_off

    def stages(self, tool: Tool) -> bool:
        """Return whether calls of `tool` come to nothing but the copies."""
        return self.tool(tool) is not tool

    def tool(self, tool: Tool) -> Tool:
        """The tool that works in the preview in the place of `tool`, which is itself where there is none."""
        assert self.tree is not None
        if (found := self.kernel_tools.get(tool.name)) is not None:
            return found
        if tool.name == self.looking.name and tool.access.kind == "variables":
            return self.looking
        if tool.access.kind not in _IN_COPY:
            return tool
        if self._made is None:
            self._made = {each.name: each for each in self.files(self.tree.root)}
        own = self._made.get(tool.name)
        # a tool that somebody else brings may have the name of one of ours
        return tool if own is None or own.access != tool.access else own


def staged_tool(tool: Tool, stage: Stage) -> Tool:
    """`tool` as Claude calls it in a preview. It is described as ever: a session's tools stay what they are."""

    async def call(given: dict[str, Any], ctx: ToolContext) -> ToolResult | Content:
        tree = stage.at_work
        if stage.waits:
            raise ToolError("The copies that this preview works on are not there.")
        own = tool if tree is None else stage.tool(tool)
        if tree is None or own is tool:
            if tree is not None and tool.access.kind in _CHANGING:
                raise ToolError(f"{tool.name} does not work on the copies of a preview.")
            return await tool.call(given, ctx)
        return await _called(own, given, ctx, stage, tree)

    def has_effects() -> bool | None:
        own = tool.has_effects() if callable(tool.has_effects) else tool.has_effects
        return False if stage.at_work is not None and stage.stages(tool) else own

    def function(name: str) -> Callable[[Mapping[str, Any]], Any]:
        def of_who_works(given: Mapping[str, Any]) -> Any:
            who = tool if stage.at_work is None else stage.kernel_tools[tool.name]
            return _or_nothing(getattr(who, name), name)(given)

        return of_who_works

    if tool.name not in stage.kernel_tools:
        return replace(tool, call=call, has_effects=has_effects)
    return replace(
        tool, call=call, has_effects=has_effects, **{name: function(name) for name in ("facts", "prepare", "preview")}
    )


async def _called(
    own: Tool, given: Mapping[str, Any], ctx: ToolContext, stage: Stage, tree: StagedTree
) -> ToolResult | Content:
    """Call what works in the preview, with the copy's paths; its result has the user's."""
    given = _mapped(given, tree)
    if own.name in stage.kernel_tools:
        stage.has_run = True
        result = await own.call(given, ctx)
    elif own.access.kind in _FILES:
        async with stage.still():
            _refuse_links(given, own, tree)
            result = await _on_files(own, given, ctx)
    else:
        result = await _on_files(own, given, ctx)
    if not isinstance(result, ToolResult):
        result = ToolResult(result)
    display = None if result.display is None else _named(result.display, tree)
    return replace(result, content=_named(result.content, tree), display=display)


async def _on_files(own: Tool, given: Mapping[str, Any], ctx: ToolContext) -> ToolResult | Content:
    given = own.canonical(given)
    if own.prepare is not None:
        await own.prepare(given)
    # what was judged are the user's own places
    return await own.call(given, replace(ctx, facts=own.facts(given) if own.facts is not None else {}))


def _refuse_links(given: Mapping[str, Any], own: Tool, tree: StagedTree) -> None:
    """Raises ToolError for a link that code in the preview has made: only the user's own path was judged."""

    places = [Path(value) for name in _PATHS if isinstance(value := given.get(name), str)]
    stray = next(
        (tree.name_of(each) for each in places if each.is_relative_to(tree.root) and not tree.is_own(each)), ""
    )
    if stray := stray or (tree.stray_link() if own.access.kind in _WHOLE_FOLDERS else ""):
        raise ToolError(leads_out(stray))


def _or_nothing(function: Callable[..., Any] | None, name: str) -> Callable[..., Any]:
    if function is not None:
        return function

    async def nothing(_given: Mapping[str, Any]) -> None:
        return None

    return (lambda _given: {}) if name == "facts" else nothing


def _mapped(given: Mapping[str, Any], tree: StagedTree) -> dict[str, Any]:
    """The input with the user's paths as those of the copy; contents of files stay what they are."""
    mapped = dict(given)
    for name in _PATHS:
        if isinstance(value := given.get(name), str) and (place := tree.staged(value)) is not None:
            mapped[name] = str(place)
    for name in ("command", "code"):
        if isinstance(value := given.get(name), str):
            mapped[name] = tree.in_copy(value)
    return mapped


def _named(value: Any, tree: StagedTree) -> Any:
    """The result with the copy's paths as the user's."""
    if isinstance(value, str):
        return tree.in_project(value)
    if isinstance(value, Mapping):
        return {key: _named(each, tree) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_named(each, tree) for each in value)
    return value


class StagedFeatures(OtherTools):
    """The features of an agent whose turn is a preview: tools that come late are staged, too."""

    def __init__(self, others: AgentFeatures, stage: Stage) -> None:
        super().__init__(others, lambda: [staged_tool(tool, stage) for tool in others.tools()])
        self._stage = stage

    @property
    def is_preview(self) -> bool:
        return not self._stage.is_off


class PreviewPolicy(PolicyAround, frozen=True):
    """`base`, for a turn that is a preview."""

    stage: Stage

    def may_read(self, path: str) -> bool:
        return self.base.may_read(self.stage.tree.in_project(path) if self.stage.tree is not None else path)

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        tree, kind = self.stage.at_work, tool.access.kind
        if self.stage.waits:
            return Decision("deny", "The copies that this preview works on are not there.")
        if tree is None:
            return self.base.decide(tool, tool_input)
        if tool.name == ACCEPT:
            # a list that nobody can answer is shown all the same
            return Decision("ask", STAGED, firm=True) if self.stage.can_ask else Decision("allow", STAGED)
        if tool.name in self.stage.kernel_tools:
            return self._in_kernel(tool, tool_input)
        judged = self.base.decide(tool, tool_input)
        if judged.behavior == "deny" or kind in _AS_EVER:
            return judged
        if kind in _CHANGING and not self.stage.stages(tool):
            return _refused(f"{tool.name} would change more than the copies")
        match kind:
            case "edit":
                return self._edit(tool, tool_input, tree)
            case "shell" | "lint" | "tests":
                return self._program(judged, tool_input, tree)
        return self._other(judged, tool, tool_input)

    def _other(self, judged: Decision, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        kind = tool.access.kind
        if kind == "agent" and tool_input.get("run_in_background"):
            return _refused("an agent in the background would work on when it has ended")
        if kind in _JUDGED or (tool.read_only and kind not in ("cells", "fresh_kernel")):
            return judged
        return _refused(f"{tool.name} would have effects outside of it")

    def _in_kernel(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        judged = self.base.decide(replace(tool, access=replace(tool.access, kind="branch", field="code")), tool_input)
        if judged.behavior != "deny" and judged.confinement is None:
            return Decision("deny", "A preview runs code only where the system confines it, and here it does not.")
        return judged

    def _edit(self, tool: Tool, tool_input: Mapping[str, Any], tree: StagedTree) -> Decision:
        path = tool_input.get(tool.access.field)
        if not isinstance(path, str) or not tree.may_write(path):
            reason = (
                f"A preview changes files of {tree.given} only, and neither large ones nor what is linked to. {WAY_ON}"
            )
            return Decision("deny", reason)
        return Decision("allow", STAGED)

    def _program(self, judged: Decision, tool_input: Mapping[str, Any], tree: StagedTree) -> Decision:
        if tool_input.get("run_in_background"):
            return _refused("a command in the background would outlive it")
        branch = self.stage.kernel_tools["Branch"]
        facts = {"code": "", **(branch.facts({"code": ""}) if branch.facts is not None else {})}
        bounds = self._in_kernel(branch, facts).confinement
        if bounds is None:
            return Decision(
                "deny", "A preview runs commands only where the system confines them, and here it does not."
            )
        confined = dataclasses.replace(bounds, write=(str(tree.root),), hosts=None)
        if judged.firm:
            return replace(judged, confinement=confined, trial=False)
        return Decision("allow", CONFINED, confinement=confined)


def _refused(why: str) -> Decision:
    return Decision("deny", f"Not in a preview: {why}. {WAY_ON}")
