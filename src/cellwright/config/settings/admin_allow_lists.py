"""The models, modes and tools that the administrator's lists allow."""

from __future__ import annotations

from fnmatch import fnmatchcase

from cellwright.agent.tool import own_tool_name
from cellwright.config.settings.settings import Settings
from cellwright.model.models import is_among
from cellwright.permissions.modes import MODES, Mode

_MCP = "mcp__"


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
    if name.startswith(_MCP) and allowed_servers is not None and not set(_servers(name)) <= set(allowed_servers):
        return False
    return settings.allowed_tools is None or any(
        fnmatchcase(name, own_tool_name(each)) for each in settings.allowed_tools
    )


def _servers(name: str) -> list[str]:
    """Every server that the tool may be of: `mcp__a__b__c` may be `c` of `a__b`, or `b__c` of `a`."""
    parts = name.removeprefix(_MCP).split("__")
    return ["__".join(parts[:count]) for count in range(1, max(len(parts), 2))]
