"""The policy of a Jupyter server's administrator for its users, and for its proxy: traits, and the values they come to.

`c.CellwrightApp.bash_policy = "force-off"` and the like. The server hands the `AdminPolicy` to the kernels that it starts
and to the page; the proxy enforces what concerns requests (`server/proxy/`). docs/decisions/policy.md says what each
can hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct, field
from traitlets import Bool, Enum, Float, HasTraits, Integer, List, TraitError, Unicode, validate

from cellwright.config.settings.layers import VARIABLE
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.credentials import KEY_VARIABLES, key_in, source_of_credential
from cellwright.permissions.modes import MODES
from cellwright.server.proxy.proxy import Upstream
from cellwright.server.proxy.request_rules import MAX_REQUEST_BYTES, ProxyLimits
from cellwright.sessions.state_dir import state_folder

Choice = Literal["user-choice", "force-on", "force-off"]
CHOICES: tuple[Choice, ...] = get_args(Choice)

_WITH_TOOLS = ("bash", "python", "web_tools", "mcp")
"""The features that are tools, which are not there if the feature is forced off."""


def _tools_of(feature: str) -> tuple[str, ...]:
    from cellwright.agent.calls.tool_names import written_tools  # few servers force a feature off

    if feature == "mcp":
        return ("mcp__*",)
    tools = written_tools().items()
    if feature == "python":
        kinds = ("python", "branch", "cells", "fresh_kernel")
        return tuple(name for kind in kinds for name, tool in tools if tool.access.kind == kind)
    category = "shell" if feature == "bash" else "web"
    return tuple(name for name, tool in tools if tool.category == category)


_SETTINGS_OF: Mapping[tuple[str, Choice], tuple[tuple[str, ...], Any]] = {
    ("bypass_permissions", "force-off"): (("permissions", "disableBypassPermissionsMode"), "disable"),
    ("inline_completion", "force-off"): (("cellwright", "inlineCompletion"), False),
    ("redact_secrets", "force-on"): (("cellwright", "redactSecrets"), True),
    ("checkpoints", "force-on"): (("fileCheckpointingEnabled",), True),
    ("checkpoints", "force-off"): (("fileCheckpointingEnabled",), False),
    ("own_credentials", "force-off"): (("cellwright", "ownCredentials"), False),
    ("hooks", "force-off"): (("allowManagedHooksOnly",), True),
}
"""The settings of a kernel that each choice stands for; its administrator's layer is made of them."""

FEATURES = tuple(dict.fromkeys([*_WITH_TOOLS, *(feature for feature, _ in _SETTINGS_OF)]))


class AdminPolicy(Struct, frozen=True, kw_only=True):
    """None is no limit. `choices` holds what is not the user's choice. Budgets are US dollars, enforced by the proxy."""

    choices: Mapping[str, Choice] = field(default_factory=dict)
    allowed_models: tuple[str, ...] | None = None
    allowed_modes: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] | None = None
    allowed_mcp_servers: tuple[str, ...] | None = None
    budget_usd_per_day: float | None = None
    budget_usd_per_kernel: float | None = None

    def is_off(self, feature: str) -> bool:
        return self.choices.get(feature) == "force-off"

    def kernel_settings(self) -> dict[str, Any]:
        """The policy as settings, in the format of `managed-settings.json`."""
        settings: dict[str, Any] = {}
        for feature, choice in self.choices.items():
            if (said := _SETTINGS_OF.get((feature, choice))) is not None:
                _put(settings, *said)
        denied = [tool for feature in _WITH_TOOLS if self.is_off(feature) for tool in _tools_of(feature)]
        lists = {
            "allowedModels": self.allowed_models,
            "allowedModes": self.allowed_modes,
            "allowedTools": self.allowed_tools,
            "allowedMcpServers": self.allowed_mcp_servers,
            "deniedTools": denied or None,
        }
        for name, values in lists.items():
            if values is not None:
                _put(settings, ("cellwright", name), list(values))
        return settings

    def environment(self) -> dict[str, str]:
        """Return the variables that a process gets so that it knows the policy."""
        settings = self.kernel_settings()
        return {VARIABLE: json.dumps(settings, separators=(",", ":"))} if settings else {}

    def to_json(self) -> dict[str, Any]:
        """Return what the page is told."""
        return {
            "choices": {feature: self.choices.get(feature, "user-choice") for feature in FEATURES},
            "allowed_models": _listed(self.allowed_models),
            "allowed_modes": _listed(self.allowed_modes),
            "allowed_tools": _listed(self.allowed_tools),
            "allowed_mcp_servers": _listed(self.allowed_mcp_servers),
            "budget_usd_per_day": self.budget_usd_per_day,
            "budget_usd_per_kernel": self.budget_usd_per_kernel,
        }


def _put(settings: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        settings = settings.setdefault(name, {})
    settings[path[-1]] = value


def _listed(values: tuple[str, ...] | None) -> list[str] | None:
    return None if values is None else list(values)


def _choice(about: str) -> Any:
    return Enum(CHOICES, "user-choice", help=f"{about}: the user's choice, or on or off for everybody.").tag(
        config=True
    )


class NameList(List[str]):
    """A list of names. On a command line they stand between commas: traitlets would take a plain word for None there, and a
    list of what is allowed would allow everything."""

    def from_string(self, s: str) -> list[str]:
        return [name.strip() for name in s.strip("[]").split(",") if name.strip()]


def _names(about: str) -> Any:
    return NameList(Unicode(), None, allow_none=True, help=f"{about}; None: all.").tag(config=True)


class PolicyTraits(HasTraits):
    """The traits of `c.CellwrightApp` that say what users may do."""

    bash_policy = _choice("Shell commands by Claude")
    python_policy = _choice("Code that Claude runs in the kernel")
    web_tools_policy = _choice("Pages and searches of the web")
    mcp_policy = _choice("MCP servers")
    bypass_permissions_policy = _choice("The mode bypassPermissions, which asks for nothing")
    inline_completion_policy = _choice("Code that is suggested while it is typed")
    redact_secrets_policy = _choice("Secrets taken out of what Claude reads")
    checkpoints_policy = _choice("Changes that can be taken back")
    hooks_policy = _choice("Hooks of users and folders")
    own_credentials_policy = _choice("Keys and gateways that users' settings name")
    allowed_models = _names("The models that may be used: names, patterns with `*`, or a line such as `haiku`")
    allowed_modes = _names("The permission modes that may be used")
    allowed_tools = _names("The tools that Claude may have: names, or patterns with `*`")
    allowed_mcp_servers = _names("The MCP servers that may be used, by name")
    budget_usd_per_day = Float(
        None,
        allow_none=True,
        min=0.0,
        help="What a user may spend on a day (UTC), in US dollars. The proxy enforces it.",
    ).tag(config=True)
    budget_usd_per_kernel = Float(
        None, allow_none=True, min=0.0, help="What one kernel may spend, in US dollars. The proxy enforces it."
    ).tag(config=True)

    @validate(*(f"{feature}_policy" for feature in FEATURES))
    def _has_that_switch(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        feature = name.removesuffix("_policy")
        is_off_switch = value == "force-off" and feature in _WITH_TOOLS
        if value != "user-choice" and not is_off_switch and (feature, value) not in _SETTINGS_OF:
            why = (
                "users are never made to let Claude do more than they want"
                if value == "force-on"
                else "it protects them"
            )
            raise TraitError(f"{name} cannot be {value!r}: {why}.")
        return value

    @validate("allowed_modes")
    def _are_modes(self, proposal: Any) -> Any:
        unknown = set(proposal["value"] or ()) - set(MODES)
        if unknown or proposal["value"] == []:
            raise TraitError(f"allowed_modes: {', '.join(sorted(unknown)) or 'nothing'}; there are {', '.join(MODES)}.")
        return proposal["value"]

    def policy(self) -> AdminPolicy:
        """Build the policy that the traits describe."""
        choices = {feature: getattr(self, f"{feature}_policy") for feature in FEATURES}
        lists = {
            name: None if (values := getattr(self, name)) is None else tuple(values)
            for name in ("allowed_models", "allowed_modes", "allowed_tools", "allowed_mcp_servers")
        }
        return AdminPolicy(
            choices={feature: choice for feature, choice in choices.items() if choice != "user-choice"},
            budget_usd_per_day=self.budget_usd_per_day,
            budget_usd_per_kernel=self.budget_usd_per_kernel,
            **lists,
        )


class ProxyTraits(HasTraits):
    """The traits of the proxy that an administrator sets."""

    anthropic_proxy = Bool(
        False, help="Keep the key on the server: kernels get a token each, and ask the API through this server."
    ).tag(config=True)
    anthropic_key_file = Unicode(
        "",
        help="The file with the key; default: ANTHROPIC_API_KEY, CLAUDE_API_KEY or ANTHROPIC_AUTH_TOKEN in the server's "
        "environment.",
    ).tag(config=True)
    anthropic_upstream = Unicode(
        "", help="Where the proxy sends requests; default: ANTHROPIC_BASE_URL of the server's environment, or the API."
    ).tag(config=True)
    anthropic_proxy_url = Unicode(
        "", help="How kernels reach the proxy, where that is not this server on this machine."
    ).tag(config=True)
    proxy_folder = Unicode(
        "", help="Where the spending and the egress log are kept; default: `proxy` in Cellwright's own folder."
    ).tag(config=True)
    proxy_max_tokens = Integer(
        None, allow_none=True, min=1, help="The most tokens of one answer; a request for more gets so many."
    ).tag(config=True)
    proxy_max_request_bytes = Integer(
        MAX_REQUEST_BYTES, min=1_000, help="The largest request to the API, in bytes."
    ).tag(config=True)
    proxy_requests_per_minute = Integer(
        None, allow_none=True, min=1, help="How many requests to the API a user may send in a minute."
    ).tag(config=True)
    proxy_concurrent_requests = Integer(
        None, allow_none=True, min=1, help="How many requests to the API a user may have open at once."
    ).tag(config=True)

    def proxy_limits(self, policy: AdminPolicy) -> ProxyLimits:
        return ProxyLimits(
            allowed_models=policy.allowed_models,
            max_tokens=self.proxy_max_tokens,
            max_request_bytes=self.proxy_max_request_bytes,
            requests_per_minute=self.proxy_requests_per_minute,
            concurrent_requests=self.proxy_concurrent_requests,
            budget_usd_per_day=policy.budget_usd_per_day,
            budget_usd_per_kernel=policy.budget_usd_per_kernel,
            web_tools=not policy.is_off("web_tools"),
            mcp=not policy.is_off("mcp"),
        )

    def proxy_place(self) -> Path:
        return Path(self.proxy_folder).expanduser().absolute() if self.proxy_folder else state_folder() / "proxy"

    def upstream(self, environ: Mapping[str, str]) -> Upstream:
        """The way to the API. Raises CellwrightError where there is no key, or the environment leads elsewhere."""
        if not self.anthropic_key_file:
            _refuse_other_ways(environ)
        return Upstream(self._key(environ), self.anthropic_upstream or environ.get("ANTHROPIC_BASE_URL", ""))

    def _key(self, environ: Mapping[str, str]) -> str:
        if self.anthropic_key_file:
            try:
                return Path(self.anthropic_key_file).expanduser().read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                message = f"anthropic_key_file: {self.anthropic_key_file} cannot be read ({error})."
                raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error
        return key_in(environ)


def _refuse_other_ways(environ: Mapping[str, str]) -> None:
    """A platform that is switched on would not be asked: rather no requests than some on another account."""
    source = source_of_credential(environ)
    if source is None or source in KEY_VARIABLES:
        return
    message = (
        f"The server's environment leads to Claude by {source}; the proxy asks the Messages API with a key, and nothing "
        "else. Take that out of the server's environment, or name a key's file (anthropic_key_file) and its address "
        "(anthropic_upstream). Bedrock, Vertex and Foundry can stand behind a gateway that speaks the Messages API."
    )
    raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
