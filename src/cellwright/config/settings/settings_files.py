"""The settings files there are for a folder, and the content of each.

The files are Claude Code's, strict JSON, and are read so that a broken one is named with its place and loosens nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.config.agents import project_agent_files
from cellwright.config.memory import INSTRUCTION_NAMES, outside_files, project_instructions
from cellwright.config.output_styles import project_style_files
from cellwright.config.settings.layers import SCOPES, Layer, Scope, SettingsEntry, entries_of, servers_policy
from cellwright.config.skills import places_of_skills, project_folders, project_skill_files
from cellwright.config.trust.project_files import main_checkout, not_own, project_folder
from cellwright.config.user_files import (
    MAX_BYTES,
    TIME_STEP_NS,
    KeptSearch,
    SettingsProblem,
    files_in,
    places_below,
    read_settings_file,
)
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import state_folder

_ADMINISTRATORS = {
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": r"C:\Program Files\ClaudeCode",
}
_FROM_ENVIRONMENT = {
    "ANTHROPIC_MODEL": ("model", str),
    "CELLWRIGHT_COMMAND_TIMEOUT": ("commandTimeout", float),
    "CELLWRIGHT_WEB_FETCH_TIMEOUT": ("webFetchTimeout", float),
    "CELLWRIGHT_MAX_FILE_SIZE": ("maxFileSize", int),
    "CELLWRIGHT_CACHE_TTL": ("cacheTtl", float),
    "CELLWRIGHT_ON_DENIED": ("onDenied", str),
}
TOOLS_FOLDER = ".claude/tools"
_FOLDERS = ("tools", "rules", "commands", "agents", "output-styles")
"""The folders in `.claude` that are searched to their bottom; beside them may stand whole checkouts (`worktrees`)."""

InlineSettings = tuple[Layer, Mapping[str, Any]]
"""A layer that is in no file, and its values."""


class SettingsSources(Struct, frozen=True, kw_only=True):
    """The content of all sources, before it is judged what counts. `tool_files` are the folder's, with contents.

    `instructions` are the project's files of instructions to Claude, `outside` what they bring along from elsewhere.
    `skill_files` are its skills and commands, `agent_files` its agents, `style_files` its output styles.
    """

    cwd: Path
    project: Path
    entries: tuple[SettingsEntry, ...] = ()
    tool_files: tuple[tuple[Path, bytes], ...] = ()
    instructions: tuple[Path, ...] = ()
    outside: tuple[Path, ...] = ()
    skill_files: tuple[tuple[Path, bytes], ...] = ()
    agent_files: tuple[tuple[Path, bytes], ...] = ()
    style_files: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()
    broken: bool = False


def start_folder(environ: Mapping[str, str]) -> Path:
    """The folder that a session works in: CELLWRIGHT_BASE_PATH, else the process's.

    Raises CellwrightError CONFIG_INVALID for one that is not a folder, FILE_NOT_FOUND where the process's is gone.
    """
    base = environ.get("CELLWRIGHT_BASE_PATH", "").strip()
    if not base:
        try:
            return Path.cwd()
        except FileNotFoundError:
            message = "The folder that this process is in has been deleted. Change to another one, then try again."
            raise CellwrightError(ErrorCode.FILE_NOT_FOUND, message) from None
    folder = Path(os.path.expanduser(base)).absolute()  # noqa: PTH111  `~name` stays as it is where nobody has the name
    if not folder.is_dir():
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"CELLWRIGHT_BASE_PATH is {base!r}, which is not a folder.")
    return folder


def administrators_folder() -> Path:
    """Return the folder of Claude Code's managed settings on this system."""
    return Path(_ADMINISTRATORS.get(sys.platform, "/etc/claude-code"))


def users_folder(environ: Mapping[str, str]) -> Path:
    """`~/.claude`, or what `CLAUDE_CONFIG_DIR` says."""
    return Path(environ["CLAUDE_CONFIG_DIR"]) if environ.get("CLAUDE_CONFIG_DIR") else home_folder(environ) / ".claude"


def own_folder(project: Path, environ: Mapping[str, str]) -> Path:
    """`users_folder`, unless `project` brings it (a container's CLAUDE_CONFIG_DIR, a link): then the home's, or none."""
    for folder in dict.fromkeys((users_folder(environ), home_folder(environ) / ".claude")):
        if not _is_brought(folder, project, environ):
            return folder
    return state_folder() / "no-settings"


def own_state_file(project: Path, environ: Mapping[str, str]) -> Path:
    """Claude Code's own file of state, with the user's servers; as `own_folder`."""
    configured = environ.get("CLAUDE_CONFIG_DIR")
    if configured and not _is_brought(Path(configured), project, environ):
        return Path(configured) / ".claude.json"
    file = home_folder(environ) / ".claude.json"
    return state_folder() / "no-settings" if _is_brought(file, project, environ) else file


def _is_brought(place: Path, project: Path, environ: Mapping[str, str]) -> bool:
    try:
        real, top, home = place.resolve(), project.resolve(), home_folder(environ).resolve()
    except (OSError, RuntimeError):
        return True
    if top in (home, home / ".claude") or not real.is_relative_to(top) or not real.exists():
        return False  # the home folder may be a repository of its user's
    return real == top or not place.is_absolute() or bool(not_own(top, real, environ))


def home_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def local_settings_file(project: Path) -> Path:
    """The user's own settings file of a project, shared with Claude Code; of a worktree, its main checkout's."""
    return main_checkout(project) / ".claude" / "settings.local.json"


def read_all(
    cwd: Path,
    environ: Mapping[str, str],
    *,
    managed: Path | None = None,
    above: Sequence[tuple[Layer, Mapping[str, Any]]] = (),
    scopes: Container[Scope] = SCOPES,
) -> SettingsSources:
    """Read every source for a session that starts in `cwd`. Never raises: problems are in `notices`.

    `managed` is the administrator's folder (default: the system's); `above` are layers that are in no file. Of the user's
    and the folder's files those of `scopes` are read.
    """
    cwd = cwd.absolute()
    project = project_folder(cwd)
    notices: list[str] = []
    broken = False
    # first, so that of the administrators' values those of the machine's own files go before the server's
    policy = entries_of(*servers_policy(environ, notices))
    entries = [*policy.entries]
    notices += policy.problems
    for layer in _files(cwd, project, environ, administrators_folder() if managed is None else managed):
        assert layer.file is not None
        if layer.scope != "managed" and layer.scope not in scopes:
            continue
        try:
            values = read_settings_file(layer.file) or {}
            if not isinstance(values.get("permissions", {}), dict):
                raise SettingsProblem(f"{layer.file}: `permissions` is not an object")
        except SettingsProblem as problem:
            broken = True
            notices.append(f"{problem}. The file is left out until it is fixed; until then every call asks.")
            continue
        layered = entries_of(layer, values)
        entries += layered.entries
        notices += layered.problems
    for layer, given in (_environment(cwd, environ, notices), *above):
        layered = entries_of(layer, given)
        entries += layered.entries
        notices += layered.problems
    instructions = project_instructions(cwd, project)
    return SettingsSources(
        cwd=cwd,
        project=project,
        entries=tuple(entries),
        tool_files=tuple(_contents(_tool_files(project))),
        instructions=tuple(instructions),
        outside=tuple(outside_files(instructions, project)),
        skill_files=tuple(_contents(project_skill_files(cwd, project))),
        agent_files=tuple(_contents(project_agent_files(cwd, project))),
        style_files=tuple(project_style_files(cwd, project)),
        notices=tuple(notices),
        broken=broken,
    )


def watched_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables that are settings."""
    return tuple(environ.get(name, "") for name in _FROM_ENVIRONMENT)


def watched_files(cwd: Path, environ: Mapping[str, str], managed: Path | None = None) -> list[Path]:
    """Every file and folder whose change can change what `read_all` gives."""
    project = project_folder(cwd.absolute())
    administrators = administrators_folder() if managed is None else managed
    drop_ins = administrators / "managed-settings.d"
    folders = dict.fromkeys((project, cwd.absolute(), main_checkout(project)))
    tools = project / TOOLS_FOLDER
    return [
        users_folder(environ) / "settings.json",
        *(folder / ".claude" / name for folder in folders for name in ("settings.json", "settings.local.json")),
        administrators / "managed-settings.json",
        drop_ins,
        *_drop_ins(drop_ins),
        tools,
        *_tool_files(project),
        *project_instructions(cwd.absolute(), project),
        *project_skill_files(cwd.absolute(), project),
        *project_agent_files(cwd.absolute(), project),
        *project_style_files(cwd.absolute(), project),
    ]


class WatchedFiles:
    """The `watched_files` of a session, looked for anew only where something has changed that can bring others.

    Every prompt asks before and after its run, and a search lists every folder that may hold one.
    """

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        managed: Path | None = None,
        *,
        time_step_ns: int = TIME_STEP_NS,
    ) -> None:
        self._cwd, self._environ, self._managed = cwd, environ, managed
        self._search = KeptSearch(
            lambda _users: watched_files(cwd, environ, managed), self._places, time_step_ns=time_step_ns
        )

    def find(self) -> list[Path]:
        """The files and folders as they are now."""
        return self._search.find((self._environ.get("HOME"), self._environ.get("CLAUDE_CONFIG_DIR")))

    def _places(self, _users: object) -> Iterator[str]:
        cwd = self._cwd.absolute()
        project = project_folder(cwd)
        managed = administrators_folder() if self._managed is None else self._managed
        for folder in (cwd, *cwd.parents):
            yield from (f"{str(folder).rstrip(os.sep)}/{name}" for name in (".git", *INSTRUCTION_NAMES))
        for tree in dict.fromkeys((*project_folders(cwd, project), main_checkout(project))):
            yield from places_of_skills(f"{tree}/.claude/skills")
            for name in _FOLDERS:
                yield from places_below(f"{tree}/.claude/{name}")
        yield from places_below(f"{managed}/managed-settings.d")


def _files(cwd: Path, project: Path, environ: Mapping[str, str], managed: Path) -> Iterator[Layer]:
    users = own_folder(project, environ) / "settings.json"
    yield Layer(scope="user", label=str(users), file=users, root=users.parent, folder=home_folder(environ))
    shared_files = {folder / ".claude" / "settings.json": folder for folder in (project, cwd)}
    if (configured := users_folder(environ) / "settings.json") != users:
        shared_files.setdefault(configured, project)
    for shared, folder in shared_files.items():
        if not _same_file(shared, users):
            yield Layer(
                scope="project",
                label=str(shared),
                file=shared,
                root=folder,
                folder=folder,
                of_folder=True,
                foreign=True,
            )
    main = main_checkout(project)
    for checkout in dict.fromkeys((main, project)):
        local = checkout / ".claude" / "settings.local.json"
        if os.path.lexists(local):
            foreign = bool(not_own(checkout, local, environ))
            yield Layer(
                scope="local", label=str(local), file=local, root=cwd, folder=project, of_folder=True, foreign=foreign
            )
    for file in (managed / "managed-settings.json", *_drop_ins(managed / "managed-settings.d")):
        yield Layer(scope="managed", label=str(file), file=file, root=Path("/"), folder=Path("/"))


def _drop_ins(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix == ".json" and not file.name.startswith("."))
    except OSError:  # most machines have none
        return []


def _environment(cwd: Path, environ: Mapping[str, str], notices: list[str]) -> InlineSettings:
    layer = Layer(scope="environment", label="the environment", root=cwd, folder=cwd)
    own: dict[str, Any] = {}
    values: dict[str, Any] = {"cellwright": own}
    for variable, (name, read) in _FROM_ENVIRONMENT.items():
        if not (text := environ.get(variable, "").strip()):
            continue
        try:
            (values if name == "model" else own)[name] = read(text)
        except ValueError:
            notices.append(f"{variable} is {text!r}, which is not a number. It is left out.")
    return layer, values


def _tool_files(project: Path) -> list[Path]:
    """The folder's tools; what is too large to be one is not read."""
    try:
        files = files_in(project / TOOLS_FOLDER, "*.py")
        return [file for file in files if file.is_file() and file.stat().st_size <= MAX_BYTES]
    except OSError:
        return []


def _contents(files: Sequence[Path]) -> Iterator[tuple[Path, bytes]]:
    for file in files:
        try:
            if file.is_file():  # a pipe without a writer would be waited for
                yield file, file.read_bytes()
        except OSError:  # what cannot be read cannot be trusted, nor loaded
            continue


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False
