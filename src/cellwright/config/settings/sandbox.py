"""Claude Code's `sandbox.*` settings: what they say, and what of them is not used here.

What restricts holds, whichever file says it. What a folder switches on for all commands confines them at once; that they
then need no question, it can only say once it is trusted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.config.settings.known_settings import KEYS, a_path, host
from cellwright.config.settings.layers import Merged, SettingsEntry
from cellwright.permissions.sandboxing import NO_SANDBOX, ContainerSetting, SandboxRules

SANDBOX = "sandbox"
CONTAINER = (SANDBOX, "container")
_ENABLED = (SANDBOX, "enabled")
_FILESYSTEM = (SANDBOX, "filesystem")
_NETWORK = (SANDBOX, "network")
_GLOB = frozenset("*?[")

_INSTEAD = {
    "allowUnixSockets": "sockets outside stay closed to confined commands",
    "allowAllUnixSockets": "sockets outside stay closed to confined commands",
    "allowLocalBinding": "confined commands open no ports",
    "allowMachLookup": "it is for Claude Code's sandbox on macOS",
    "httpProxyPort": "allowed hosts are reached through a proxy of Cellwright's own",
    "socksProxyPort": "allowed hosts are reached through a proxy of Cellwright's own",
    "tlsTerminate": "encrypted connections are not opened",
    "credentials": "files go into `sandbox.filesystem.denyRead`, and what looks like a secret is kept from every command",
    "ignoreViolations": "each refusal is reported",
    "enableWeakerNestedSandbox": "inside a container Landlock is used where bubblewrap does not work",
    "enableWeakerNetworkIsolation": "the network is bounded as it is everywhere",
    "ripgrep": "the tools bring their own",
    "bwrapPath": "`bwrap` is found on PATH",
    "socatPath": "it is not needed",
}
"""The settings of Claude Code's that cannot be used here, each with what holds instead."""


class SandboxSettings(Struct, frozen=True, kw_only=True):
    """The `sandbox.*` settings: `rules` is what they say of commands, without what the machine can do.

    `required`: where nothing can confine a command, nothing is sent. `managed_hosts_only`: of the rules for `WebFetch`, only
    the administrator's let commands reach a host. `container` is what Bash, RunTests and fresh kernels run in.
    """

    rules: SandboxRules = NO_SANDBOX
    required: bool = False
    managed_hosts_only: bool = False
    container: ContainerSetting = ContainerSetting()


def sandbox_settings(
    merged: Merged, enabling: Iterable[SettingsEntry], withheld: frozenset[str], notices: list[str], project: Path
) -> SandboxSettings:
    """The settings of `project` as `merged` says them; what is wrong or not used is added to `notices`.

    `enabling` are all entries of `sandbox.enabled`, also those that are `withheld`.
    """
    enabled = merged.value(*_ENABLED) is True
    tightened = any(entry.value is True for entry in enabling if entry.id in withheld)
    files_free = enabled and merged.value(*_FILESYSTEM, "disabled") is True
    denied_hosts, unknown_hosts = _denied_hosts(_elements(merged, (*_NETWORK, "deniedDomains")), notices)
    allowed_hosts = _elements(merged, (*_NETWORK, "allowedDomains"))
    managed_hosts_only = merged.value(*_NETWORK, "allowManagedDomainsOnly") is True
    allowed_reads = _elements(merged, (*_FILESYSTEM, "allowRead"))
    if merged.value(*_FILESYSTEM, "allowManagedReadPathsOnly") is True:
        allowed_reads = _managed(allowed_reads)
    if managed_hosts_only:
        allowed_hosts = _managed(allowed_hosts)
    if unknown_hosts:
        allowed_hosts = []
    auto_allow = not _says(merged, "autoAllowBashIfSandboxed", False)
    if enabled or tightened:
        # neither a folder that is not trusted nor what does not bound its files speaks for running a command unasked
        auto_allow = auto_allow and enabled and not files_free
    deny_write, deny_read = (_denied_paths(merged, name, notices) for name in ("denyWrite", "denyRead"))
    notices += _unused(merged)
    return SandboxSettings(
        rules=SandboxRules(
            enabled=enabled or tightened,
            auto_allow=auto_allow,
            excluded=tuple(str(entry.value) for entry in _elements(merged, (SANDBOX, "excludedCommands"))),
            allow_unsandboxed=not _says(merged, "allowUnsandboxedCommands", False),
            allow_write=("/",) if files_free else _paths(_elements(merged, (*_FILESYSTEM, "allowWrite"))),
            deny_write=_paths(deny_write),
            deny_read=_paths(deny_read),
            allow_read=("/",) if files_free else _paths(allowed_reads),
            allowed_hosts=tuple(dict.fromkeys(str(entry.value) for entry in allowed_hosts)),
            denied_hosts=denied_hosts,
            ask_hosts=not (managed_hosts_only or merged.value(*_NETWORK, "strictAllowlist") is True),
        ),
        required=_says(merged, "failIfUnavailable", True),
        managed_hosts_only=managed_hosts_only,
        container=_container(merged, notices, project),
    )


def _container(merged: Merged, notices: list[str], project: Path) -> ContainerSetting:
    entries = merged.entries.get(CONTAINER)
    if not entries:
        return ContainerSetting()
    from cellwright.config.settings.container import container_setting  # few run commands in one

    entry = entries[-1]
    found = container_setting(entry.value, project, base_of(entry))
    notices += [f"{entry.layer.label}: {notice}" for notice in found.notices]
    return found


def base_of(entry: SettingsEntry) -> Path:
    """The folder that an entry's relative paths start from: the project, in the user's own file that file's."""
    return entry.layer.root if entry.layer.scope == "user" else entry.layer.folder


def _elements(merged: Merged, path: tuple[str, ...]) -> list[SettingsEntry]:
    return [entry for entry in merged.entries.get(path, ()) if entry.element]


def _managed(entries: Sequence[SettingsEntry]) -> list[SettingsEntry]:
    return [entry for entry in entries if entry.layer.scope == "managed"]


def _says(merged: Merged, name: str, value: bool) -> bool:
    return any(entry.value is value for entry in merged.entries.get((SANDBOX, name), ()))


def _paths(entries: Sequence[SettingsEntry]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path_of(entry) for entry in entries))


def path_of(entry: SettingsEntry) -> str:
    """The absolute path that an entry names: what is relative starts at the project, in the user's own file at its folder.

    `/x` is absolute here, unlike in a rule.
    """
    path = os.path.normpath(base_of(entry) / Path(entry.value).expanduser())
    return "/" + path.lstrip("/") if path.startswith("//") else path


def _denied_paths(merged: Merged, name: str, notices: list[str]) -> list[SettingsEntry]:
    kept = []
    for entry in _elements(merged, (*_FILESYSTEM, name)):
        if expected := a_path(entry.value):
            notices.append(
                f"{entry.layer.label}: `{entry.key}`: {entry.value!r} is not {expected}. It protects nothing."
            )
            continue
        if _GLOB & set(entry.value):
            tool = "Read" if name == "denyRead" else "Edit"
            notices.append(
                f"{entry.layer.label}: `{entry.key}`: {entry.value} is taken as a file's name: there are no patterns here. "
                f"A deny rule `{tool}({entry.value})` binds commands as well."
            )
        kept.append(entry)
    return kept


def _denied_hosts(entries: Sequence[SettingsEntry], notices: list[str]) -> tuple[tuple[str, ...], bool]:
    """The hosts that nothing may reach, and whether one of them could not be read: then no host is allowed unasked."""
    hosts = []
    for entry in entries:
        if expected := host(entry.value):
            found = f"{entry.layer.label}: `{entry.key}`: {entry.value!r} is not {expected}."
            notices.append(f"{found} Until it is mended, every host is asked about.")
        else:
            hosts.append(str(entry.value))
    return tuple(dict.fromkeys(hosts)), len(hosts) < len(entries)


def _unused(merged: Merged) -> list[str]:
    """Name each setting of the sandbox that is set and cannot be used here."""
    found: dict[str, str] = {}
    for path, entries in merged.entries.items():
        if path[0] != SANDBOX or path in KEYS:
            continue
        known = next((name for name in path[1:] if name in _INSTEAD), None)
        name = ".".join(path[: path.index(known) + 1] if known else path)
        instead = f": {_INSTEAD[known]}" if known else ""
        found[name] = f"{entries[-1].layer.label}: `{name}` is not used here{instead}."
    return list(found.values())
