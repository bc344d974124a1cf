"""The sum of all settings: `load_settings`, and `settings_of` for a reading of which not everything counts.

From the highest to the lowest, as Claude Code has it:

    managed-settings.json                         the administrator's: nothing goes before it
    options of a cell or of the command
    c.Claude, %config Claude
    <project>/.claude/settings.local.json         the user's own for this project, unless it came with it
    <project>/.claude/settings.json               the project's: before trust it can only restrict (`trust.py`)
    ~/.claude/settings.json                       the user's own ($CLAUDE_CONFIG_DIR)
    environment (CELLWRIGHT_…)

The highest single value counts, lists are joined, objects merged. A value that cannot be understood and might have
forbidden something forbids or asks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
from msgspec.structs import replace

from cellwright.agent.tool import own_tool_name
from cellwright.codebase.embedding_settings import EmbeddingSettings
from cellwright.config.settings.edit import add_allow_rules
from cellwright.config.settings.known_settings import a_path, seconds_of
from cellwright.config.settings.layers import Merged, Scope, SettingsEntry, merge, own_credentials, own_environment
from cellwright.config.settings.option_table import BRANCHES, OPTIONS
from cellwright.config.settings.sandbox import SandboxSettings, sandbox_settings
from cellwright.config.settings.settings_files import (
    SettingsSources,
    local_settings_file,
    read_all,
)
from cellwright.config.trust.project_files import carried_by
from cellwright.config.trust.trust import judge, remember_rules
from cellwright.config.user_files import SettingsProblem
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.model.models import COMPACT_AT, EFFORTS, ProviderName, is_among
from cellwright.model.provider import ModelChoice
from cellwright.permissions.modes import MODES, Mode, parse_mode, stricter
from cellwright.permissions.rules.rule import Rule, brackets_problem, grant_problem, parse_rule, restriction_problem
from cellwright.text import lazy_pattern

_MODE = ("permissions", "defaultMode")
_TOOL_NAME = lazy_pattern(r"[A-Za-z_][\w-]*")

_MCP = "mcp__"


class Origin(msgspec.Struct, frozen=True):
    """The origin of a value; `file` is None for what is in no file, `label` names the place for people."""

    value: Any
    scope: Scope
    label: str
    file: Path | None = None


class HooksSource(msgspec.Struct, frozen=True):
    """The `hooks` object of one file, as it stands there: events with their lists of groups.

    `variables` are put into the environment of its programs, and into their arguments. `of_component`: they are a skill's or
    an agent's, whose hooks may say `once`. `strict`: the user consents to them, so that what is not understood is no hook.
    `secrets` are the user's secret variables that their headers may hold; None: those that they name.
    """

    events: Mapping[str, Sequence[Mapping[str, Any]]]
    scope: Scope
    label: str
    file: Path | None
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    of_component: bool = False
    strict: bool = False
    secrets: frozenset[str] | None = None


class McpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings about MCP servers. `allowed` and `denied` are rules by name, command or address; None: all may be.

    `enabled_project_servers` are servers of `.mcp.json` that need no question; they come from the user's own files.
    """

    allowed: tuple[Any, ...] | None = None
    denied: tuple[Any, ...] = ()
    enabled_project_servers: tuple[str, ...] = ()
    disabled_project_servers: tuple[str, ...] = ()
    enables_all_of_project: bool = False


class CommonOptions(ModelChoice, frozen=True, kw_only=True):
    """The options that the settings and a run say in the same form. None: not said."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_parallel_tools: int | None = None
    tool_timeout: float | None = None
    agent: str | None = None

    def over(self, settings: CommonOptions) -> Self:
        """The same, with what the settings say where this says nothing."""
        names = CommonOptions.__struct_fields__
        return replace(self, **{name: getattr(self, name) or getattr(settings, name) for name in names})


class Settings(CommonOptions, frozen=True, kw_only=True):
    """The sum of all settings. `notices` are for the user: what is broken, and what was not believed.

    `loosest_mode` is how far options and a session may go. A limit that is None is the user's to have none of.
    `tool_files` are the trusted `.claude/tools/*.py`, with the content that is trusted.
    """

    project: Path
    default_mode: Mode = "default"
    loosest_mode: Mode = "bypassPermissions"
    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    additional_directories: tuple[Path, ...] = ()
    block_reads_outside: bool = False
    block_writes_outside: bool = False
    bypass_disabled: bool = False
    managed_rules_only: bool = False
    sandbox: SandboxSettings = msgspec.field(default_factory=SandboxSettings)
    hooks: tuple[HooksSource, ...] = ()
    disable_all_hooks: bool = False
    allow_managed_hooks_only: bool = False
    allowed_http_hook_urls: tuple[str, ...] | None = None
    http_hook_allowed_env_vars: tuple[str, ...] | None = None
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    max_effort_level: str | None = None
    always_thinking: bool = True
    show_thinking: bool = True
    fallback_models: tuple[str, ...] = ()
    available_models: tuple[str, ...] | None = None
    enforce_available_models: bool = False
    denied_models: tuple[str, ...] = ()
    allowed_models: tuple[str, ...] | None = None
    allowed_modes: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] | None = None
    allowed_mcp_servers: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    mcp: McpSettings = msgspec.field(default_factory=McpSettings)
    language: str | None = None
    output_style: str | None = None
    auto_memory: bool = False
    auto_memory_directory: Path | None = None
    attribution_commit: str | None = None
    attribution_pr: str | None = None
    claude_md_excludes: tuple[str, ...] = ()
    skill_overrides: Mapping[str, str] = msgspec.field(default_factory=dict)
    enabled_plugins: Mapping[str, bool] = msgspec.field(default_factory=dict)
    plugin_configs: Mapping[str, Any] = msgspec.field(default_factory=dict)
    known_marketplaces: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    allowed_marketplaces: tuple[Any, ...] | None = None
    blocked_marketplaces: tuple[Any, ...] = ()
    disable_skill_shell_execution: bool = False
    disable_bundled_skills: bool = False
    api_key_helper: str | None = None
    respect_gitignore: bool = True
    prompt_cache_ttl: Literal["5m", "1h"] | None = None
    bash_output_max_chars: int | None = None
    ask_user_question_seconds: float | None = None
    plans_directory: Path | None = None
    cleanup_period_days: int = 30
    file_checkpointing: bool = True
    tool_log: Path | None = None
    redact_secrets: bool = True
    numbers: bool = True
    """The numbers of an answer are looked up in what the conversation has seen."""
    python_timeout: float | None = None
    command_timeout: float | None = None
    web_fetch_timeout: float = 30.0
    max_file_size: int = 10_000_000
    cache_ttl: float = 900.0
    inline_completion: bool = True
    inline_completion_budget: float = 1.0
    code_context: Literal["off", "first-prompt", "every-prompt"] = "off"
    run_budget: float | None = None
    session_budget: float | None = None
    notebook_budget: float | None = None
    daily_budget: float | None = None
    provider: ProviderName = "api"
    own_credentials: bool = True
    on_denied: str = "ask"
    branches: str = "on"
    session_titles: str = "first-words"
    theme: str = "auto"
    layout: str = "comfortable"
    auto_compact: bool = True
    auto_compact_window: int | None = None
    auto_compact_share: float = COMPACT_AT
    compaction: Literal["api", "prompt"] = "api"
    clear_tool_results: bool = False
    embedding: EmbeddingSettings | None = None
    tool_files: tuple[tuple[Path, bytes], ...] = ()
    notices: tuple[str, ...] = ()
    merged: Merged = msgspec.field(default_factory=Merged)

    def origin(self, key: str) -> Origin | None:
        """The value of `key` (`permissions.defaultMode`) that counts, and where it comes from; None where none is set."""
        origins = self.origins(key)
        return origins[-1] if origins else None

    def origins(self, key: str) -> tuple[Origin, ...]:
        """Each value that is set for `key`, the lowest first: of a list, where each of its elements comes from."""
        entries = self.merged.entries.get(tuple(key.split(".")), ())
        return tuple(Origin(entry.value, entry.layer.scope, entry.layer.label, entry.layer.file) for entry in entries)


def load_settings(cwd: Path, environ: Mapping[str, str], *, managed: Path | None = None) -> Settings:
    """Read the files for a session that starts in `cwd`; of the folder's, what the user trusts. Never raises.

    `managed` is the administrator's folder (default: the system's).
    """
    reading = read_all(cwd, environ, managed=managed)
    trust = judge(reading, environ)
    return settings_of(reading, withheld=trust.withheld, tool_files=trust.tool_files, notices=trust.notices)


def settings_of(
    reading: SettingsSources,
    *,
    withheld: frozenset[str] = frozenset(),
    kept: Sequence[SettingsEntry] = (),
    tool_files: tuple[tuple[Path, bytes], ...] = (),
    notices: Sequence[str] = (),
) -> Settings:
    """The settings that `reading` comes to without the entries whose ids are `withheld`, and with those that are `kept`.

    Never raises: problems are in `notices`.
    """
    counting = [entry for entry in (*kept, *reading.entries) if entry.id not in withheld]
    merged = merge(counting)
    rules = _Rules(str(reading.project))
    for entry in _listed(merged, "deny"):
        rules.restrict(entry, "deny")
    for entry in _listed(merged, "ask"):
        rules.restrict(entry, "ask")
    if reading.broken:
        # it may deny anything, and neither a mode nor an allow rule goes before that
        rules.ask.append(parse_rule("*"))
    managed_only = merged.value("allowManagedPermissionRulesOnly") is True
    for entry in _listed(merged, "allow"):
        if not managed_only or entry.layer.scope == "managed":
            rules.grant(entry)
    for entry in _listed(merged, "additionalDirectories"):
        rules.open_folder(entry)
    modes = [entry for entry in (*kept, *reading.entries) if entry.path == _MODE]
    mode, entry_in_force = _mode(modes, withheld, rules.notices)
    merged.set_to(_MODE, entry_in_force)
    bypass_disabled = _any(merged, "permissions.disableBypassPermissionsMode", "disable")
    if mode == "bypassPermissions" and bypass_disabled:
        rules.notices.append("Mode bypassPermissions is switched off by `permissions.disableBypassPermissionsMode`.")
        mode = "default"
    enabling = [entry for entry in (*kept, *reading.entries) if entry.path == ("sandbox", "enabled")]
    sandbox = sandbox_settings(merged, enabling, withheld, rules.notices, reading.project)
    return Settings(
        project=reading.project,
        default_mode=mode,
        loosest_mode=stricter(_loosest(modes), "acceptEdits") if bypass_disabled else _loosest(modes),
        deny=tuple(rules.deny),
        ask=tuple(rules.ask),
        allow=tuple(rules.allow),
        additional_directories=tuple(dict.fromkeys(rules.folders)),
        block_reads_outside=_any(merged, "permissions.blockReadsOutsideWorkingDirectories", True),
        block_writes_outside=_any(merged, "permissions.blockWritesOutsideWorkingDirectories", True),
        bypass_disabled=bypass_disabled,
        managed_rules_only=managed_only,
        max_effort_level=_lowest(merged, "maxEffortLevel", EFFORTS),
        branches=_lowest(merged, "cellwright.branches", BRANCHES[::-1]) or "on",
        enforce_available_models=_any(merged, "enforceAvailableModels", True),
        sandbox=sandbox,
        hooks=_hooks(merged),
        inline_completion=not _any(merged, "cellwright.inlineCompletion", False),
        mcp=_mcp(merged),
        tool_files=tool_files,
        notices=(*reading.notices, *notices, *rules.notices),
        merged=merged,
        **_plain_values(merged, reading),
    )


_COMMON = tuple(option for option in OPTIONS if option.run_field in CommonOptions.__struct_fields__)


def _plain_values(merged: Merged, reading: SettingsSources) -> dict[str, Any]:
    """Collect values passed on as they stand, by the names of the fields of `Settings`, without what is not set."""
    value = merged.value
    marketplaces = value("extraKnownMarketplaces")
    if marketplaces is not None:
        marketplaces = {name: marketplace["source"] for name, marketplace in marketplaces.items()}
    # the words with which commits and pull requests are to name Claude; none where nobody says
    attribution = {name: value("attribution", name) for name in ("commit", "pr")}
    if all(text is None for text in attribution.values()) and value("includeCoAuthoredBy") is False:
        attribution = dict.fromkeys(attribution, "")
    memory = value("autoMemoryDirectory")
    waiting, plans, log = value("askUserQuestionTimeout"), value("plansDirectory"), value("cellwright", "toolLog")
    found = {
        "disable_all_hooks": value("disableAllHooks"),
        "allow_managed_hooks_only": value("allowManagedHooksOnly"),
        "allowed_http_hook_urls": _texts(value("allowedHttpHookUrls")),
        "http_hook_allowed_env_vars": _texts(value("httpHookAllowedEnvVars")),
        "env": own_environment(merged),
        **{option.run_field: value(*option.setting.split(".")) for option in _COMMON},
        "available_models": _texts(value("availableModels")),
        "denied_models": _texts(value("deniedModels")),
        "allowed_models": _texts(value("cellwright", "allowedModels")),
        "allowed_modes": _texts(value("cellwright", "allowedModes")),
        "allowed_tools": _texts(value("cellwright", "allowedTools")),
        "allowed_mcp_servers": _texts(value("cellwright", "allowedMcpServers")),
        "denied_tools": _texts(value("cellwright", "deniedTools")),
        "language": value("language"),
        "output_style": value("outputStyle"),
        "auto_memory": value("autoMemoryEnabled"),
        "auto_memory_directory": None if memory is None else Path(memory).expanduser().absolute(),
        "always_thinking": value("alwaysThinkingEnabled"),
        "show_thinking": value("showThinkingSummaries"),
        "fallback_models": _texts(value("fallbackModel")),
        **{f"attribution_{name}": text for name, text in attribution.items() if text is not None},
        "claude_md_excludes": _texts(value("claudeMdExcludes")),
        "skill_overrides": value("skillOverrides"),
        "enabled_plugins": value("enabledPlugins"),
        "plugin_configs": value("pluginConfigs"),
        "known_marketplaces": marketplaces,
        "allowed_marketplaces": _entries(value("strictKnownMarketplaces")),
        "blocked_marketplaces": _entries(value("blockedMarketplaces")),
        "disable_skill_shell_execution": _any(merged, "disableSkillShellExecution", expected=True),
        "disable_bundled_skills": value("disableBundledSkills"),
        "api_key_helper": value("apiKeyHelper") if own_credentials(merged) else None,
        "respect_gitignore": value("respectGitignore"),
        "prompt_cache_ttl": value("promptCacheTtl"),
        "bash_output_max_chars": value("bashOutputMaxChars"),
        "ask_user_question_seconds": None if waiting is None else seconds_of(waiting),
        "plans_directory": None if plans is None else reading.project / Path(plans).expanduser(),
        "cleanup_period_days": value("cleanupPeriodDays"),
        "file_checkpointing": value("fileCheckpointingEnabled"),
        "tool_log": None if log is None else reading.project / Path(log).expanduser(),
        "redact_secrets": value("cellwright", "redactSecrets"),
        "numbers": value("cellwright", "numbers"),
        "python_timeout": value("cellwright", "pythonTimeout"),
        "command_timeout": value("cellwright", "commandTimeout"),
        "web_fetch_timeout": value("cellwright", "webFetchTimeout"),
        "max_file_size": value("cellwright", "maxFileSize"),
        "cache_ttl": value("cellwright", "cacheTtl"),
        "inline_completion_budget": value("cellwright", "inlineCompletionBudget"),
        "code_context": value("cellwright", "codeContext"),
        "run_budget": value("cellwright", "runBudget") or None,
        "session_budget": value("cellwright", "sessionBudget"),
        "notebook_budget": value("cellwright", "notebookBudget"),
        "daily_budget": value("cellwright", "dailyBudget"),
        "provider": value("cellwright", "provider"),
        "own_credentials": own_credentials(merged),
        "on_denied": value("cellwright", "onDenied"),
        "embedding": _embedding(merged),
        "auto_compact": value("autoCompactEnabled"),
        "auto_compact_window": value("autoCompactWindow"),
        "auto_compact_share": value("cellwright", "autoCompactShare"),
        "compaction": value("cellwright", "compaction"),
        "clear_tool_results": value("cellwright", "clearToolResults"),
        "session_titles": value("cellwright", "sessionTitles"),
        "theme": value("cellwright", "theme") or value("theme"),
        "layout": value("cellwright", "layout"),
    }
    return {name: each for name, each in found.items() if each is not None}


def _texts(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _entries(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _listed(merged: Merged, name: str) -> list[SettingsEntry]:
    return [entry for entry in merged.entries.get(("permissions", name), ()) if entry.element]


def _any(merged: Merged, key: str, expected: Any) -> bool:
    # what restricts holds, whichever file says it
    return any(entry.value == expected for entry in merged.entries.get(tuple(key.split(".")), ()))


def _lowest(merged: Merged, key: str, order: Sequence[str]) -> str | None:
    """The lowest in `order` of what any file says."""
    named = [str(entry.value) for entry in merged.entries.get(tuple(key.split(".")), ())]
    return min(named, key=order.index, default=None)


def _mcp(merged: Merged) -> McpSettings:
    value = merged.value
    allowed, denied = value("allowedMcpServers"), value("deniedMcpServers")
    if denied is None:
        denied = ()
    elif not isinstance(denied, list):
        denied = (denied,)
    return McpSettings(
        allowed=None if allowed is None else tuple(allowed) if isinstance(allowed, list) else (),
        denied=tuple(denied),
        enabled_project_servers=tuple(value("enabledMcpjsonServers") or ()),
        disabled_project_servers=tuple(value("disabledMcpjsonServers") or ()),
        enables_all_of_project=value("enableAllProjectMcpServers") is True,
    )


def _hooks(merged: Merged) -> tuple[HooksSource, ...]:
    by_layer: dict[str, tuple[SettingsEntry, dict[str, list[Any]]]] = {}
    for path, entries in merged.entries.items():
        if path[0] != "hooks" or len(path) != 2:
            continue
        for entry in entries:
            if entry.element:
                _, events = by_layer.setdefault(entry.layer.label, (entry, {}))
                events.setdefault(path[1], []).append(entry.value)
    return tuple(
        HooksSource(
            events,
            entry.layer.scope,
            entry.layer.label,
            entry.layer.file,
            strict=entry.layer.of_folder,
            # a folder's hooks get no secret of the user's, whatever they name
            secrets=frozenset() if entry.layer.foreign or entry.layer.scope == "project" else None,
        )
        for entry, events in by_layer.values()
    )


def _mode(
    entries: Sequence[SettingsEntry], withheld: frozenset[str], notices: list[str]
) -> tuple[Mode, SettingsEntry | None]:
    """The mode to begin with, and the entry that says so.

    A folder can always make it stricter; looser only what is believed, and never bypassPermissions.
    """
    mode: Mode | None = None
    entry_in_force: SettingsEntry | None = None
    for entry in merge(entries).entries.get(_MODE, ()):
        layer = entry.layer
        try:
            found, notice = parse_mode(_text(entry.value))
        except (CellwrightError, TypeError) as error:
            notices.append(f"{layer.label}: {_message(error)}")
            continue
        if notice:
            notices.append(f"{layer.label}: {notice}")
        before = mode or "default"
        # the administrator's is as far as one may go
        own = (layer.scope != "managed" or mode is None) and _is_believed(entry, found, withheld)
        if own or stricter(found, before) == found:
            mode, entry_in_force = found, entry
        elif layer.foreign or (layer.of_folder and found == "bypassPermissions"):
            notices.append(f"{layer.label}: mode `{found}` is looser than `{before}`; a folder cannot set it.")
    return mode or "default", entry_in_force


def _loosest(entries: Sequence[SettingsEntry]) -> Mode:
    """The administrator's mode, if there is one: no option goes further."""
    loosest: Mode = "bypassPermissions"
    for entry in entries:
        if entry.layer.scope == "managed":
            with contextlib.suppress(CellwrightError, TypeError):  # it is told of where the mode is read
                loosest = stricter(loosest, parse_mode(_text(entry.value))[0])
    return loosest


def _is_believed(entry: SettingsEntry, mode: Mode, withheld: frozenset[str]) -> bool:
    """Return whether an entry may set a looser mode."""
    layer = entry.layer
    if entry.id in withheld or layer.foreign:
        return False
    return not (layer.of_folder and mode == "bypassPermissions")


class _Rules(msgspec.Struct):
    """Rules and folders as they are read, for the folder `project`."""

    project: str
    deny: list[Rule] = msgspec.field(default_factory=list)
    ask: list[Rule] = msgspec.field(default_factory=list)
    allow: list[Rule] = msgspec.field(default_factory=list)
    folders: list[Path] = msgspec.field(default_factory=list)
    notices: list[str] = msgspec.field(default_factory=list)

    def restrict(self, entry: SettingsEntry, kept: Literal["deny", "ask"]) -> None:
        try:
            rule = parse_rule(_text(entry.value), str(entry.layer.root))
        except (CellwrightError, TypeError) as error:
            # something was to be restricted: the whole tool is, or everything asks
            name = _TOOL_NAME.match(entry.value) if isinstance(entry.value, str) else None
            rule, kept = parse_rule(name[0] if name else "*"), kept if name else "ask"
            what = "denied" if kept == "deny" else "asked for"
            self.notices.append(f"{entry.layer.label}: {_message(error)} Until it is mended, `{rule}` is {what}.")
        if problem := restriction_problem(rule) or brackets_problem(rule, self.project, allows=False):
            self.notices.append(f"{entry.layer.label}: {problem}")
        (self.deny if kept == "deny" else self.ask).append(rule)

    def grant(self, entry: SettingsEntry) -> None:
        try:
            rule = parse_rule(_text(entry.value), str(entry.layer.root))
        except (CellwrightError, TypeError) as error:
            self.notices.append(f"{entry.layer.label}: {_message(error)} It allows nothing.")
            return
        if problem := grant_problem(rule) or brackets_problem(rule, self.project, allows=True):
            self.notices.append(f"{entry.layer.label}: {problem}")
        self.allow.append(rule)

    def open_folder(self, entry: SettingsEntry) -> None:
        path = entry.value
        if expected := a_path(path):
            self.notices.append(f"{entry.layer.label}: the additional directory {path!r} is not {expected}.")
        else:
            self.folders.append(entry.layer.folder / Path(path).expanduser())


def save_allow_rules(project: Path, rules: Sequence[str], environ: Mapping[str, str] = os.environ) -> Path:
    """Add allow rules to the project's settings.local.json, as far as they are not there; gives the file.

    Raises CellwrightError, and leaves the file as it was: CONFIG_INVALID for a rule that allows nothing and a file that
    is not the user's own, CONFIG_PARSE_ERROR for one that is not valid, FILE_ACCESS_ERROR.
    """
    for rule in rules:
        if useless := grant_problem(parse_rule(rule)):
            raise CellwrightError(ErrorCode.CONFIG_INVALID, useless)
    shown = ", ".join(f"`{rule}`" for rule in rules)
    file = local_settings_file(project)
    project_of_file = file.parent.parent
    if carried := carried_by(project_of_file, file, environ):
        message = (
            f"{file} is {carried}, so {shown} is not saved there: it could become everybody's. "
            "To keep it, add it to ~/.claude/settings.json."
        )
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    try:
        add_allow_rules(file, rules, project_of_file)
    except SettingsProblem as problem:
        message = f"{problem}. {shown} is not saved; mend the file and allow it again."
        raise CellwrightError(ErrorCode.CONFIG_PARSE_ERROR, message) from problem
    except (OSError, ToolError, RecursionError) as error:
        message = f"{shown} could not be saved in {file}: {error}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error
    remember_rules(project, rules)
    return file


def _embedding(merged: Merged) -> EmbeddingSettings | None:
    """Read the model that code is embedded by; without a provider and a model there is none."""

    def said(name: str) -> Any:
        return merged.value("cellwright", "embedding", name)

    if not said("provider") or not said("model"):
        return None
    return EmbeddingSettings(
        provider=said("provider"),
        model=said("model"),
        url=said("url") or "",
        dimension=said("dimension") or 0,
        query_model=said("queryModel") or "",
        query_url=said("queryUrl") or "",
        qdrant_url=said("qdrantUrl") or "",
    )


def _text(entry: Any) -> str:
    if not isinstance(entry, str):
        raise TypeError(f"{entry!r} is not a text.")
    return entry


def _message(error: CellwrightError | TypeError) -> str:
    return error.message if isinstance(error, CellwrightError) else str(error)


def origin_of(settings: Settings, key: str) -> str:
    """The place that says `key`, in words."""
    origin = settings.origin(key)
    return origin.label if origin is not None else "the administrator"


def model_is_allowed(model: str, settings: Settings) -> bool:
    return settings.allowed_models is None or is_among(model, settings.allowed_models)


def mode_is_allowed(mode: str, settings: Settings) -> bool:
    return settings.allowed_modes is None or mode in settings.allowed_modes


def nearest_mode(mode: Mode, settings: Settings) -> Mode:
    """The loosest allowed mode that is not looser than `mode`; where there is none, the strictest allowed."""
    allowed = [each for each in MODES if mode_is_allowed(each, settings)] or [MODES[0]]
    stricter = [each for each in allowed if MODES.index(each) <= MODES.index(mode)]
    return stricter[-1] if stricter else allowed[0]


def tool_is_allowed(name: str, settings: Settings) -> bool:
    """Return whether Claude may have the tool `name`."""
    if any(fnmatchcase(name, own_tool_name(pattern)) for pattern in settings.denied_tools):
        return False
    allowed_servers = settings.allowed_mcp_servers
    if name.startswith(_MCP) and allowed_servers is not None:
        # every server that the tool may be of: `mcp__a__b__c` may be `c` of `a__b`, or `b__c` of `a`
        parts = name.removeprefix(_MCP).split("__")
        servers = {"__".join(parts[:count]) for count in range(1, max(len(parts), 2))}
        if not servers <= set(allowed_servers):
            return False
    return settings.allowed_tools is None or any(
        fnmatchcase(name, own_tool_name(each)) for each in settings.allowed_tools
    )
