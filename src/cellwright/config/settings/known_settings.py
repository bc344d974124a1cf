"""The settings we know: the form of each value, and what a folder that is not the user's own may say with it.

Names and meanings are Claude Code's; ours stand under `"cellwright"`. `settings.schema.json` says the same as JSON Schema.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from cellwright.codebase.embedding_settings import PROVIDER_KINDS
from cellwright.config.settings.option_table import OPTIONS, Option
from cellwright.model.models import EFFORTS
from cellwright.permissions.modes import MODES
from cellwright.permissions.rules.domain_pattern import AddressProblem, read_host
from cellwright.text import lazy_pattern

Path = tuple[str, ...]
Shape = Literal["value", "list", "members", "lists"]
Folder = Literal["tightens", "trust", "confirm", "own", "managed"]
"""The terms on which folder settings count: at once, as they only restrict; on trust; on a confirmation of their own;
only from files that are the user's own; only from the administrator's."""

Check = Callable[[Any], str]
"""A description of what a value should have been, or "" when it is that."""

_DURATION = lazy_pattern(r"(?P<number>[1-9]\d{0,5})(?P<unit>[smh])")
_LONGEST_WAIT = 86_400.0
_MAX_DOLLARS = 10_000


class Key(Struct, frozen=True):
    """One setting. `check` is for the value, each element, each member, or each element of each member.

    `name_check` is for the names of members. `kept_wrong`: a value of the wrong form is not left out, since doing without
    the setting would allow more; whoever reads it says what is wrong.
    """

    path: Path
    check: Check
    shape: Shape = "value"
    folder: Folder = "trust"
    name_check: Check = lambda _name: ""
    kept_wrong: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.path)


def text(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else "a non-empty text"


def any_text(value: Any) -> str:
    return "" if isinstance(value, str) else "a text"


def a_path(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        return "a path"
    try:
        pathlib.Path(value).expanduser()
    except RuntimeError:  # `~name`, and nobody has that name
        return f"a path: there is no home `{value.partition('/')[0]}`"
    return ""


def variable_value(value: Any) -> str:
    """Check a variable's value: one that no program could be started with would end all of the session's."""
    return "" if isinstance(value, str) and _is_for_programs(value) else "a text that a program can be given"


def variable_name(name: Any) -> str:
    return "" if name and "=" not in name and _is_for_programs(name) else "the name of a variable"


def _is_for_programs(value: str) -> bool:
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "true or false"


def anything(_value: Any) -> str:
    """For what is judged where it is used, because a broken restriction must restrict."""
    return ""


def whole_number(least: int, most: int) -> Check:
    def check(value: Any) -> str:
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return "" if fits else f"a whole number from {least} to {most}"

    return check


def one_of(*names: str) -> Check:
    def check(value: Any) -> str:
        return "" if isinstance(value, str) and value in names else f"one of {', '.join(names)}"

    return check


def amount_of_seconds(value: Any) -> str:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST_WAIT
    return "" if fits else f"a number of seconds above 0, at most {_LONGEST_WAIT:,.0f}"


def share_of_window(value: Any) -> str:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0.1 <= value <= 0.95
    return "" if fits else "a number from 0.1 to 0.95"


def amount_of_money(value: Any) -> str:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_DOLLARS
    return "" if fits else f"an amount in US dollars from 0 to {_MAX_DOLLARS:,}"


def waiting_time(value: Any) -> str:
    """`"never"`, seconds, or a number with a unit; `seconds_of` reads it."""
    try:
        seconds_of(value)
    except (ValueError, TypeError):
        return 'seconds, a text such as "90s" or "5m", or "never"'
    return ""


def seconds_of(value: Any) -> float | None:
    """A waiting time in seconds; None for "never". Raises ValueError, TypeError."""
    if value == "never":
        return None
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        return int(found["number"]) * {"s": 1, "m": 60, "h": 3600}[found["unit"]]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _LONGEST_WAIT:
        raise ValueError(value)
    return float(value)


def web_address(value: Any) -> str:
    return "" if isinstance(value, str) and value.startswith(("http://", "https://")) else "an http or https address"


def host(value: Any) -> str:
    """Check a host as `sandbox.network.allowedDomains` names it."""
    try:
        read_host(value)
    except (AddressProblem, TypeError, AttributeError):
        return "a host such as `example.com`, `*.example.com` or `example.com:443`"
    return ""


def container(value: Any) -> str:
    from cellwright.config.settings.container import container as check  # few run commands in one

    return check(value)


def known_marketplace(value: Any) -> str:
    """Check a marketplace of `extraKnownMarketplaces`; where it is from is read when something of it is wanted."""
    fits = isinstance(value, dict) and isinstance(value.get("source"), dict)
    return "" if fits else '{"source": {"source": "github", "repo": "owner/name"}}'


def hook_group(value: Any) -> str:
    """One group of an event, as far as settings go; what a handler says is read in `hooks.py`."""
    fits = isinstance(value, dict) and isinstance(value.get("hooks"), list)
    return "" if fits else '{"matcher": text, "hooks": [handlers]}'


def _key(name: str, check: Check, shape: Shape = "value", folder: Folder = "trust", **more: Any) -> Key:
    return Key(tuple(name.split(".")), check, shape, folder, **more)


def _key_of(option: Option) -> Key:
    """Return the setting of an option of the table."""
    kind = option.kind
    match kind.trait:
        case "names":
            check = one_of(*kind.names)
        case "whole":
            check = whole_number(1, option.most)
        case "number":
            check = amount_of_seconds
        case _:
            check = text
    return _key(option.setting, check, folder=option.folder_says)


_DISABLE = one_of("disable")

THEMES = ("auto", "dark", "light", "dark-daltonized", "light-daltonized", "high-contrast", "ansi", "none")
"""The terminal's themes."""

LAYOUTS = ("comfortable", "compact")

KEYS: dict[Path, Key] = {
    key.path: key
    for key in (
        *(_key_of(option) for option in OPTIONS if option.setting and option.plain_setting),
        _key("permissions.allow", anything, "list"),
        _key("permissions.ask", anything, "list", "tightens"),
        _key("permissions.deny", anything, "list", "tightens"),
        _key("permissions.additionalDirectories", anything, "list"),
        _key("permissions.defaultMode", anything),
        _key("permissions.disableBypassPermissionsMode", _DISABLE, folder="tightens"),
        _key("permissions.blockReadsOutsideWorkingDirectories", flag, folder="tightens"),
        _key("permissions.blockWritesOutsideWorkingDirectories", flag, folder="tightens"),
        _key("env", variable_value, "members", name_check=variable_name),
        _key("maxEffortLevel", one_of(*EFFORTS), folder="tightens"),
        _key("alwaysThinkingEnabled", flag),
        _key("showThinkingSummaries", flag),
        _key("fallbackModel", text, "list"),
        _key("enforceAvailableModels", flag, folder="tightens"),
        _key("allowManagedPermissionRulesOnly", flag, folder="managed"),
        _key("availableModels", text, "list"),
        _key("deniedModels", text, "list", "tightens"),
        _key("language", text),
        _key("outputStyle", text),
        _key("autoMemoryEnabled", flag),
        _key("autoMemoryDirectory", a_path, folder="own"),
        _key("attribution.commit", any_text),
        _key("attribution.pr", any_text),
        _key("includeCoAuthoredBy", flag),
        _key("claudeMdExcludes", text, "list"),
        _key("skillOverrides", one_of("on", "name-only", "user-invocable-only", "off"), "members"),
        _key("disableSkillShellExecution", flag, folder="tightens"),
        _key("disableBundledSkills", flag),
        _key("enabledPlugins", flag, "members"),
        _key("pluginConfigs", anything, "members", "own"),
        _key("extraKnownMarketplaces", known_marketplace, "members"),
        _key("strictKnownMarketplaces", anything, "list", "managed"),
        _key("blockedMarketplaces", anything, "list", "managed"),
        _key("apiKeyHelper", text, folder="confirm"),
        _key("hooks", hook_group, "lists"),
        _key("disableAllHooks", flag, folder="own"),
        _key("allowManagedHooksOnly", flag, folder="managed"),
        _key("allowedHttpHookUrls", text, "list", "own"),
        _key("httpHookAllowedEnvVars", text, "list", "own"),
        _key("respectGitignore", flag),
        _key("autoCompactEnabled", flag),
        _key("autoCompactWindow", whole_number(100_000, 1_000_000)),
        _key("promptCacheTtl", one_of("5m", "1h")),
        _key("bashOutputMaxChars", whole_number(1_000, 150_000)),
        _key("askUserQuestionTimeout", waiting_time, folder="own"),
        _key("plansDirectory", a_path),
        _key("cleanupPeriodDays", whole_number(0, 36_500), folder="own"),
        _key("fileCheckpointingEnabled", flag, folder="own"),
        _key("sandbox.enabled", flag),
        _key("sandbox.container", container, kept_wrong=True),
        _key("sandbox.failIfUnavailable", flag, folder="tightens"),
        _key("sandbox.autoAllowBashIfSandboxed", flag, folder="tightens"),
        _key("sandbox.allowUnsandboxedCommands", flag, folder="tightens"),
        _key("sandbox.excludedCommands", text, "list"),
        _key("sandbox.filesystem.allowWrite", a_path, "list"),
        _key("sandbox.filesystem.denyWrite", anything, "list", "tightens"),
        _key("sandbox.filesystem.denyRead", anything, "list", "tightens"),
        _key("sandbox.filesystem.allowRead", a_path, "list"),
        _key("sandbox.filesystem.disabled", flag, folder="own"),
        _key("sandbox.filesystem.allowManagedReadPathsOnly", flag, folder="managed"),
        _key("sandbox.network.allowedDomains", host, "list"),
        _key("sandbox.network.deniedDomains", anything, "list", "tightens"),
        _key("sandbox.network.strictAllowlist", flag, folder="own"),
        _key("sandbox.network.allowManagedDomainsOnly", flag, folder="managed"),
        _key("allowedMcpServers", anything, "list", "managed"),
        _key("deniedMcpServers", anything, "list", "tightens"),
        _key("enabledMcpjsonServers", text, "list", "own"),
        _key("disabledMcpjsonServers", text, "list", "tightens"),
        _key("enableAllProjectMcpServers", flag, folder="own"),
        _key("cellwright.allowedModels", text, "list", "managed"),
        _key("cellwright.allowedModes", one_of(*MODES), "list", "managed"),
        _key("cellwright.allowedTools", text, "list", "managed"),
        _key("cellwright.allowedMcpServers", text, "list", "managed"),
        _key("cellwright.deniedTools", text, "list", "managed"),
        _key("cellwright.folderTrust", one_of("ask", "never"), folder="managed"),
        _key("cellwright.trustedFolders", a_path, "list", "managed"),
        _key("cellwright.ownCredentials", flag, folder="managed"),
        _key("cellwright.toolLog", a_path, folder="own"),
        _key("cellwright.redactSecrets", flag, folder="own"),
        _key("cellwright.numbers", flag),
        _key("cellwright.pythonTimeout", amount_of_seconds),
        _key("cellwright.commandTimeout", amount_of_seconds),
        _key("cellwright.webFetchTimeout", amount_of_seconds),
        _key("cellwright.cacheTtl", amount_of_seconds),
        _key("cellwright.inlineCompletion", flag, folder="tightens"),
        _key("cellwright.inlineCompletionBudget", amount_of_money, folder="own"),
        _key("cellwright.runBudget", amount_of_money, folder="own"),
        _key("cellwright.sessionBudget", amount_of_money, folder="own"),
        _key("cellwright.notebookBudget", amount_of_money, folder="own"),
        _key("cellwright.dailyBudget", amount_of_money, folder="own"),
        _key("cellwright.codeContext", one_of("off", "first-prompt", "every-prompt")),
        _key("theme", any_text, folder="own"),
        _key("cellwright.theme", one_of(*THEMES), folder="own"),
        _key("cellwright.layout", one_of(*LAYOUTS), folder="own"),
        _key("cellwright.sessionTitles", one_of("first-words", "model"), folder="own"),
        _key("cellwright.autoCompactShare", share_of_window),
        _key("cellwright.compaction", one_of("api", "prompt")),
        _key("cellwright.clearToolResults", flag),
        # what texts are sent to is the user's own choice, never a project's
        _key("cellwright.embedding.provider", one_of(*PROVIDER_KINDS), folder="own"),
        _key("cellwright.embedding.model", text, folder="own"),
        _key("cellwright.embedding.url", web_address, folder="own"),
        _key("cellwright.embedding.dimension", whole_number(1, 16_384), folder="own"),
        _key("cellwright.embedding.queryModel", text, folder="own"),
        _key("cellwright.embedding.queryUrl", web_address, folder="own"),
        _key("cellwright.embedding.qdrantUrl", text, folder="own"),
        _key("cellwright.maxFileSize", whole_number(1_000, 1_000_000_000)),
    )
}

MODE_NAMES = (*MODES, "manual", "auto")
"""The values that `permissions.defaultMode` may have."""

OBJECTS = {path[:length] for path in KEYS for length in range(1, len(path))}
"""Keys that hold others."""


def is_known(path: tuple[str, ...]) -> bool:
    """Say whether a setting of this path has an effect here: it is a key, or a member of one."""
    return path in KEYS or path[:-1] in KEYS


def near_key(name: str) -> str:
    """The key that somebody who wrote `name` most likely meant; "" if none is near.

    >>> near_key("permissions.alow"), near_key("hook.Stop"), near_key("spinnerVerbs")
    ('permissions.allow', 'hooks.Stop', '')
    """
    import difflib  # only for the sake of a typing error

    if near := difflib.get_close_matches(name, [each.name for each in KEYS.values()], n=1, cutoff=0.8):
        return near[0]
    whole, _, member = name.rpartition(".")
    held = [each.name for each in KEYS.values() if each.shape in ("members", "lists")]
    return next((f"{near}.{member}" for near in difflib.get_close_matches(whole, held, n=1, cutoff=0.8)), "")


def restricts(name: str) -> bool:
    """Return whether doing without the setting of this name, a key or a member of one, could allow more."""
    path = tuple(name.split("."))
    key = KEYS.get(path) or KEYS.get(path[:-1])
    return key is not None and (key.folder in ("tightens", "managed") or key.path[0] in ("hooks", "sandbox"))
