"""One plugin: what it says of itself in `.claude-plugin/plugin.json`, what it brings, and its files.

They are copied from where they come from, and known by a hash, so that nobody changes them unasked. A link that leads out
of the plugin, and what is no file at all, refuses the whole plugin.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from cellwright.config.plugins.options import REFERENCE, PluginOption, answers_of, as_variables, read_options
from cellwright.config.user_files import SettingsProblem, read_settings_file
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.text import lazy_pattern

MANIFEST = ".claude-plugin/plugin.json"
ROOT_VARIABLE = "CLAUDE_PLUGIN_ROOT"
DATA_VARIABLE = "CLAUDE_PLUGIN_DATA"

NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of plugins and of marketplaces: they are parts of paths, of commands and of tools' names."""

CONFIGURE = "/plugin configure, or in a terminal `cellwright plugin configure`"

_REFERENCES = lazy_pattern(r"\$\{user_config\.(\w+)\}")
_PLACES = ("skills", "commands", "agents", "hooks", "mcpServers", "outputStyles")
_NOT_USED = {
    "lspServers": "language servers",
    "workflows": "workflows",
    "channels": "channels",
}

MAX_FILES = 5_000
MAX_BYTES = 100_000_000

SKIPPED = frozenset({".git", "__pycache__", ".DS_Store"})
"""Names that are no part of a plugin."""


class Plugin(Struct, frozen=True, kw_only=True):
    """A plugin and what it brings. `id` is `name@marketplace`; `root` is its folder, `data` one that it may write in.

    `skills`, `commands` and `agents` are folders, or files by themselves, as a project's `.claude` has them. `hooks` are
    events with their groups, as settings have them; `mcp_servers` are configurations by the name `plugin:NAME:SERVER`, with
    the plugin's folders put in, and its answers not: those are in `answers`. `options` are what it asks its user
    for, `answers` what it was told, secrets among it. `problems` tell what was not understood, and what there is no use for
    here. `secrets` are the user's variables that consent to it named, `folder` is what it was copied from.
    """

    id: str
    name: str
    root: Path
    data: Path
    version: str = ""
    description: str = ""
    skills: tuple[Path, ...] = ()
    commands: tuple[Path, ...] = ()
    agents: tuple[Path, ...] = ()
    hooks: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    output_styles: tuple[Path, ...] = ()
    programs: Path | None = None
    needs: tuple[str, ...] = ()
    options: tuple[PluginOption, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()
    folder: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The variables of its hooks, and what stands for them in its texts."""
        return {ROOT_VARIABLE: str(self.root), DATA_VARIABLE: str(self.data)}

    @property
    def hook_variables(self) -> dict[str, str]:
        """The variables that only its hooks have besides: the answers. Claude reads texts, so secrets are in none."""
        return {**self.variables, **as_variables(self.answers), **self.references}

    @property
    def references(self) -> dict[str, str]:
        """The texts that stand for `${user_config.NAME}` in its servers and in the arguments of its hooks."""
        return {f"{REFERENCE}{name}": answer for name, answer in self.answers.items()}


def read_plugin(
    root: Path,
    marketplace: str,
    data: Path,
    *,
    listed: Mapping[str, Any] | None = None,
    configs: Mapping[str, Any] | None = None,
) -> Plugin:
    """Read the plugin in `root`, of which `listed` is what its marketplace says. `data` is the folder of all its data.

    `configs` are the user's answers to what plugins ask for, as settings have them; None: as it is before anybody answers.

    Raises CellwrightError CONFIG_INVALID for what is no plugin, or has paths that leave it.
    """
    manifest = _object(root, MANIFEST)
    said = {**(listed or {}), **(manifest or {})}
    name = said.get("name") or root.name
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise _invalid(root, f"its name is {name!r}: letters, digits, `-`, `_` and `.` make up a name")
    plugin_id = f"{name}@{marketplace}"
    problems: list[str] = []
    options = read_options(said.get("userConfig"), problems)
    answers = None if configs is None else answers_of(plugin_id, options, configs)
    reading = _Reading(root, name, data / plugin_id, said, answers, problems)
    wanted = [option.words for option in options if option.required and option.name not in (answers or {})]
    plugin = Plugin(
        id=plugin_id,
        name=name,
        root=root,
        data=reading.data,
        version=_text(said.get("version")),
        description=_text(said.get("description")),
        skills=reading.places("skills", "skills"),
        commands=reading.places("commands", "commands"),
        agents=reading.places("agents", "agents"),
        hooks=reading.hooks(),
        mcp_servers=reading.mcp_servers(),
        output_styles=reading.places("outputStyles", "output-styles"),
        programs=root / "bin" if (root / "bin").is_dir() else None,
        needs=reading.needs(),
        options=options,
        answers=answers or {},
        problems=(
            *problems,
            *(f"its {what} have no use here" for key, what in _NOT_USED.items() if said.get(key)),
            *([f"it needs {', '.join(wanted)}: {CONFIGURE}"] if wanted and answers is not None else []),
        ),
    )
    brings = (
        *(plugin.skills, plugin.commands, plugin.agents, plugin.hooks, plugin.mcp_servers, plugin.output_styles),
        plugin.programs,
    )
    if manifest is None and not any(brings):
        raise _invalid(root, f"there is no {MANIFEST}, and nothing that a plugin could bring")
    return plugin


class _Reading(Struct):
    """A plugin while it is read."""

    root: Path
    name: str
    data: Path
    said: Mapping[str, Any]
    answers: Mapping[str, str] | None
    problems: list[str]

    def places(self, key: str, usual: str) -> tuple[Path, ...]:
        """The files and folders that it has at the usual place, and those that it names."""
        named = [place for place in self._named(key) if isinstance(place, str)]
        found = [self.root / usual, *(_inside(self.root, place) for place in named)]
        missing = [place for place, path in zip(named, found[1:], strict=True) if not path.exists()]
        self.problems += [f"`{key}` names {place}, which is not there" for place in missing]
        return tuple(dict.fromkeys(path for path in found if path.exists()))

    def hooks(self) -> Mapping[str, Sequence[Any]]:
        joined: dict[str, list[Any]] = {}
        for where, content in self._objects("hooks", "hooks/hooks.json"):
            events = content.get("hooks", content)
            if not isinstance(events, dict):
                self.problems.append(f"{where}: `hooks` is not an object")
                continue
            for event, groups in events.items():
                if event == "description":
                    continue
                if not isinstance(groups, list):
                    self.problems.append(f"{where}: `{event}` is not a list")
                    continue
                joined.setdefault(event, []).extend(self._safe(group, f"{where}: {event}") for group in groups)
        return joined

    def _safe(self, group: Any, where: str) -> Any:
        """The group without commands of a shell that an answer would be put into: the shell would run what is in it."""
        handlers = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(handlers, list):
            return group
        unsafe = [
            each
            for each in handlers
            if isinstance(each, dict) and each.get("args") is None and f"${{{REFERENCE}" in str(each.get("command"))
        ]
        self.problems += [
            f"{where}: a hook has ${{user_config.…}} in a shell's command and is left out: $CLAUDE_PLUGIN_OPTION_NAME has "
            "the value there"
            for _ in unsafe
        ]
        return {**group, "hooks": [each for each in handlers if each not in unsafe]}

    def mcp_servers(self) -> Mapping[str, Mapping[str, Any]]:
        servers: dict[str, Mapping[str, Any]] = {}
        folders = {ROOT_VARIABLE: str(self.root), DATA_VARIABLE: str(self.data)}
        for where, content in self._objects("mcpServers", ".mcp.json"):
            found = content.get("mcpServers", content)
            for server, entry in (found if isinstance(found, dict) else {}).items():
                if isinstance(entry, dict):
                    wanted = dict.fromkeys(_REFERENCES.findall(str(entry)))
                    missing = [each for each in wanted if each not in (self.answers or {})]
                    if self.answers is not None and missing:
                        told = ", ".join(missing)
                        self.problems.append(f"the server {server!r} needs {told}: {CONFIGURE}")
                        continue
                    servers[f"plugin:{self.name}:{server}"] = put_in(entry, folders)
                else:
                    self.problems.append(f"{where}: the server {server!r} is not an object")
        return servers

    def needs(self) -> tuple[str, ...]:
        """The plugins that it depends on: names, or `name@marketplace`."""
        listed = self.said.get("dependencies") or []
        found: list[str] = []
        for each in listed if isinstance(listed, list) else [listed]:
            name = each.get("name") if isinstance(each, dict) else each
            place = each.get("marketplace") if isinstance(each, dict) else None
            if isinstance(name, str) and name.strip():
                found.append(f"{name.strip()}@{place}" if isinstance(place, str) else name.strip())
            else:
                self.problems.append(f"`dependencies` holds {str(each)[:80]!r}, which names no plugin")
        return tuple(found)

    def _objects(self, key: str, usual: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The JSON at the usual place, in the files that it names, and in the manifest itself."""
        named = [usual] if (self.root / usual).exists() else []
        for place in self._named(key):
            if isinstance(place, dict):
                yield f"{MANIFEST}: {key}", place
            elif isinstance(place, str) and (self.root / usual) != _inside(self.root, place):
                named.append(place)
        for place in named:
            content = _object(self.root, place)
            if content is None:
                self.problems.append(f"`{key}` names {place}, which is not there")
            else:
                yield place, content

    def _named(self, key: str) -> list[Any]:
        given = self.said.get(key)
        listed = given if isinstance(given, list) else [] if given is None else [given]
        wrong = [each for each in listed if not isinstance(each, str | dict)]
        self.problems += [f"`{key}` holds {str(each)[:80]!r}, which is no path" for each in wrong]
        return [each for each in listed if each not in wrong]


def put_in(value: Any, variables: Mapping[str, str]) -> Any:
    """`value` with `${NAME}` in its texts replaced by what `variables` say.

    >>> put_in({"args": ["${CLAUDE_PLUGIN_ROOT}/server.py"]}, {"CLAUDE_PLUGIN_ROOT": "/p"})
    {'args': ['/p/server.py']}
    """
    if isinstance(value, dict):
        return {key: put_in(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [put_in(each, variables) for each in value]
    if isinstance(value, str):
        for name, text in variables.items():
            value = value.replace(f"${{{name}}}", text)
    return value


def _inside(root: Path, place: str) -> Path:
    """The path in the plugin that `./place` names. Raises CellwrightError for one that leads out of it."""
    parts = place.removeprefix("./").split("/")
    if place.startswith(("/", "~")) or "\\" in place or "\0" in place or ".." in parts:
        raise _invalid(root, f"it names {place!r}: paths begin with `./` and stay inside of the plugin")
    path = root.joinpath(*(part for part in parts if part not in ("", ".")))
    if not path.resolve().is_relative_to(root.resolve()):
        raise _invalid(root, f"it names {place!r}, which leads out of it")
    return path


def _object(root: Path, place: str) -> dict[str, Any] | None:
    path = _inside(root, place)
    try:
        return read_settings_file(path)
    except SettingsProblem as problem:
        raise _invalid(root, str(problem)) from None


def _text(value: Any) -> str:
    return " ".join(str(value).split())[:500] if isinstance(value, str | int | float) else ""


def _invalid(root: Path, why: str) -> CellwrightError:
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"{root} is not a plugin that can be used: {why}.")


class PluginFile(Struct, frozen=True):
    """One entry below a plugin's folder: its path from there, what it is, and where a link leads."""

    path: str
    kind: Literal["folder", "file", "link"]
    facts: os.stat_result
    target: str = ""


def list_files(root: Path) -> list[PluginFile]:
    """Everything below `root`, in an order that does not change. Raises CellwrightError for what no plugin may hold."""
    found: list[PluginFile] = []
    size = 0
    try:
        for each in _walk(root, ""):
            found.append(each)
            size += each.facts.st_size if each.kind == "file" else 0
            if len(found) > MAX_FILES or size > MAX_BYTES:
                raise _refused(root, f"it holds more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB")
    except OSError as error:
        raise _refused(root, f"{error.filename or root} cannot be read: {error.strerror}") from error
    return sorted(found, key=lambda each: each.path)


def digest_of(root: Path) -> str:
    """The hash of all files below `root`: names, contents, which can be run. Raises CellwrightError."""
    digest = hashlib.sha256()
    for each in list_files(root):
        digest.update(f"{each.kind}\0".encode() + os.fsencode(each.path) + b"\0")
        if each.kind == "link":
            digest.update(os.fsencode(each.target))
        elif each.kind == "file":
            digest.update(b"x" if each.facts.st_mode & 0o100 else b"-")
            try:
                with (root / each.path).open("rb") as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
            except OSError as error:
                raise _refused(root, f"{each.path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def signature_of(root: Path) -> tuple[object, ...]:
    """The facts of all files below `root`, which differ when one was changed. Raises CellwrightError."""
    return tuple(
        (each.path, each.facts.st_mtime_ns, each.facts.st_ctime_ns, each.facts.st_size, each.facts.st_ino)
        for each in list_files(root)
    )


def copy_files(source: Path, target: Path) -> None:
    """Copy the plugin at `source` to `target`, which must not exist. Raises CellwrightError."""
    files = list_files(source)
    try:
        target.mkdir(parents=True, mode=0o700)
        for each in files:
            place = target / each.path
            if each.kind == "folder":
                place.mkdir(mode=0o700)
            elif each.kind == "link":
                place.symlink_to(each.target)
            else:
                shutil.copyfile(source / each.path, place, follow_symlinks=False)
                place.chmod(0o700 if each.facts.st_mode & 0o100 else 0o600)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise CellwrightError(
            ErrorCode.FILE_ACCESS_ERROR, f"The plugin could not be copied to {target}: {error}."
        ) from error


def _walk(root: Path, below: str) -> Iterator[PluginFile]:
    with os.scandir(root / below) as entries:
        for entry in entries:
            if entry.name in SKIPPED:
                continue
            path = f"{below}/{entry.name}" if below else entry.name
            facts = entry.stat(follow_symlinks=False)
            if entry.is_symlink():
                yield PluginFile(path, "link", facts, _target(root, path))
            elif entry.is_dir(follow_symlinks=False):
                yield PluginFile(path, "folder", facts)
                yield from _walk(root, path)
            elif entry.is_file(follow_symlinks=False):
                yield PluginFile(path, "file", facts)
            else:
                raise _refused(root, f"{path} is neither a file nor a folder")


def _target(root: Path, path: str) -> str:
    """The target of the link at `path`, which is within the plugin however it is copied."""
    target = os.readlink(root / path)  # noqa: PTH115  a path as it is written
    real, whole = os.path.realpath(root / path), os.path.realpath(root)
    if os.path.isabs(target) or os.path.commonpath([real, whole]) != whole:  # noqa: PTH117
        raise _refused(root, f"the link {path} leads to {target}, which is outside of it")
    return target


def _refused(root: Path, why: str) -> CellwrightError:
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"The plugin in {root} is not taken: {why}.")
