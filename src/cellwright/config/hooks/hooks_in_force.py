"""The hooks of a conversation as its settings stand: read when there are any, told of what happens between runs."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cellwright.agent.hooks.hook_answers import merged
from cellwright.agent.hooks.protocol import NO_HOOKS, HookResult, Hooks
from cellwright.agent.hooks.run_hooks import session_fields
from cellwright.agent.thread import AgentThread
from cellwright.config.plugins.plugin import Plugin
from cellwright.config.settings.layers import Scope
from cellwright.config.settings.settings import HooksSource, Settings
from cellwright.config.settings.settings_files import users_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Policy
    from cellwright.config.hooks.asked_hooks import CallMcpTool


def plugin_hooks(plugins: Iterable[Plugin], project: Path, brought: Container[str] = ()) -> tuple[HooksSource, ...]:
    """The hooks that plugins bring: the user accepted each, so they count as the user's own.

    Their headers hold the secrets that the user consented to, and none if the project brings the plugin: it lies there, or
    only the project's settings switch it on (`brought`).
    """
    return tuple(
        HooksSource(
            plugin.hooks,
            "user",
            f"the plugin {plugin.id}",
            None,
            plugin.hook_variables,
            strict=True,
            secrets=frozenset()
            if plugin.id in brought or (plugin.folder is not None and plugin.folder.is_relative_to(project))
            else plugin.secrets,
        )
        for plugin in plugins
        if plugin.hooks
    )


class HooksInForce:
    """The hooks of settings files, for one session after another of a conversation.

    `exported` is what they set for the session's shell commands. `call_mcp_tool` calls a tool of an MCP server.
    """

    def __init__(self, in_force: SettingsInForce, call_mcp_tool: CallMcpTool | None = None) -> None:
        self._call_mcp_tool = call_mcp_tool
        self.exported: dict[str, str] = {}
        self._in_force = in_force
        self._hooks: Hooks = NO_HOOKS
        self._read_from: object = ()
        self._changes: tuple[Path, ...] = ()
        self._hooks_before_changes: Hooks = NO_HOOKS
        self._watched: dict[Path, tuple[int, int] | None] = {}

    def of(self, environ: Mapping[str, str]) -> Hooks:
        """The hooks that the settings say; the same ones as long as the settings say the same."""
        settings = self._in_force.settings
        if changed := self._in_force.take_changed():
            if not self._changes:
                self._hooks_before_changes = self._hooks  # a change may take away the hook that would refuse it
            self._changes = tuple(dict.fromkeys((*self._changes, *changed)))
        trusted = self._trusted
        plugins = self._in_force.plugins.plugins.values()
        brought = plugin_hooks(plugins, settings.project, self._in_force.plugins_of_folder)
        key = (
            trusted,
            settings.hooks,
            brought,
            settings.env,
            settings.disable_all_hooks,
            settings.allow_managed_hooks_only,
            settings.allowed_http_hook_urls,
            settings.http_hook_allowed_env_vars,
            self._in_force.scripts,
        )
        if key != self._read_from:
            self._read_from = key
            self._hooks = NO_HOOKS
            if settings.hooks or brought:
                self._hooks = self._made(
                    settings, environ, trusted=trusted, more=brought, call_mcp_tool=self._call_mcp_tool
                )
        return self._hooks

    @property
    def left_out(self) -> tuple[str, ...]:
        """The entries for hooks in settings and plugins that are none, each with the reason."""
        found: tuple[str, ...] = getattr(self._hooks, "left_out", ())
        return found

    def of_component(
        self, label: str, events: Mapping[str, Any], *, scope: Scope, variables: Mapping[str, str] | None = None
    ) -> Hooks:
        """The hooks of a skill or an agent at work, which `label` names; what holds for other hooks holds for them."""
        found = {event: groups for event, groups in events.items() if isinstance(groups, list)}
        if not found:
            return NO_HOOKS
        # a plugin's skills name variables of their own; consent to the plugin named those of its hooks alone
        secrets = frozenset[str]() if variables else None
        source = HooksSource(
            found, scope, label, None, variables or {}, of_component=True, strict=bool(variables), secrets=secrets
        )
        return self._made(
            replace(self._in_force.settings, hooks=()),
            self._in_force.program_environment,
            trusted=self._trusted,
            more=(source,),
        )

    def _made(self, settings: Settings, environ: Mapping[str, str], **options: Any) -> Hooks:
        from cellwright.config.hooks.hooks import settings_hooks  # nobody without hooks waits for it

        return settings_hooks(
            settings,
            environ,
            exported=self.exported,
            save_rules=self._in_force.save_rules,
            scripts=self._in_force.scripts,
            **options,
        )

    @property
    def _trusted(self) -> bool:
        trust = self._in_force.trust
        # a hook of the user's own may run what the folder brings along: `npm run lint`
        return trust.trusted or not any(item.gate == "trust" for item in trust.waiting)

    async def fire_file_changes(self, session: Session, policy: Policy) -> None:
        """Tell FileChanged hooks which of the files that their matchers name changed in the folder since the last look.

        There is a look with each prompt and after each of Claude's steps, so that nothing has to watch all the time.
        """
        hooks = self._hooks
        if not hooks.listens_to("FileChanged"):
            return
        from cellwright.config.hooks.hooks import watched_names

        found = {self._in_force.cwd / name: _facts(self._in_force.cwd / name) for name in sorted(watched_names(hooks))}
        before, self._watched = self._watched, found
        for file, facts in found.items():
            if file not in before or before[file] == facts:
                continue
            event = "add" if before[file] is None else "unlink" if facts is None else "change"
            common = session_fields("FileChanged", session, policy.mode)
            result = await hooks.fire("FileChanged", {**common, "file_path": str(file), "event": event}, None)
            session.notices += [*result.messages, *result.problems]

    async def fire_config_changes(self, session: Session, policy: Policy) -> None:
        """Tell ConfigChange hooks, before a run in the mode of `policy`, which settings files have changed.

        Raises `CellwrightError` where one refuses it; then the change is told again before the next run.
        """
        for file in self._changes:
            await self._fire_config_change(file, session, policy.mode)
        self._changes = ()

    async def _fire_config_change(self, file: Path, session: Session, mode: str) -> None:
        hooks = self._hooks_before_changes
        if not hooks.listens_to("ConfigChange"):
            return
        source = self._source_of(file)
        if source is None:
            return
        common = session_fields("ConfigChange", session, mode)
        result = await hooks.fire("ConfigChange", {**common, "source": source, "file_path": str(file)}, None)
        session.notices += [*result.messages, *result.problems]
        if source != "policy_settings" and (result.block or result.stop is not None):
            why = result.reason or result.stop or "no reason was given"
            message = (
                f"A ConfigChange hook refuses the changes in {file}: {why} Take the change back. Nothing was sent."
            )
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message, recoverable=True)

    async def fire_folder_added(self, session: Session, folder: Path) -> HookResult:
        """Tell DirectoryAdded hooks of a folder that the user has added with a command; gives what they say."""
        fields = {"directory": str(folder), "source": "slash_command"}
        common = session_fields("DirectoryAdded", session, self._in_force.settings.default_mode)
        return await self.of(self._in_force.program_environment).fire("DirectoryAdded", {**common, **fields}, None)

    def _source_of(self, file: Path) -> str | None:
        """Return Claude Code's name for a settings file; None for other files."""
        if file == users_folder(self._in_force.environ) / "settings.json":
            return "user_settings"
        if file.name.startswith("managed-settings") or file.parent.name == "managed-settings.d":
            return "policy_settings"
        return {"settings.json": "project_settings", "settings.local.json": "local_settings"}.get(file.name)

    async def set_up(self, session: Session, trigger: str) -> HookResult:
        """Tell Setup hooks of `trigger` and SessionStart hooks of a start, outside of a run.

        Raises `CellwrightError` where the folder brings hooks along and is not trusted.
        """
        if not self._trusted:
            message = (
                f"The hooks of {self._in_force.cwd} run when you trust the folder: `cellwright trust` shows what it brings "
                "along, --trust trusts it for this command. No hook has run."
            )
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
        hooks = self.of(self._in_force.program_environment)
        settings = self._in_force.settings
        told = []
        for event, fields in (
            ("Setup", {"trigger": trigger}),
            ("SessionStart", {"source": session.started_by, "model": settings.model or ""}),
        ):
            common = session_fields(event, session, settings.default_mode)
            told.append(await hooks.fire(event, {**common, **fields}, None))
        return merged(told)

    def end_session(self, session: Session, reason: str, thread: AgentThread, *, wait: bool) -> None:
        """Tell SessionEnd hooks that a session which had begun is left."""
        if session.started_by or not self._hooks.listens_to("SessionEnd"):
            return
        mode = self._in_force.settings.default_mode
        fields = {**session_fields("SessionEnd", session, mode), "reason": reason}
        task = thread.submit(self._hooks.fire("SessionEnd", fields, None))
        if wait:
            with contextlib.suppress(TimeoutError, concurrent.futures.CancelledError):
                # the time for which the end of a session is waited for; each of its hooks has a time of its own
                task.future.result(61.0)


def _facts(file: Path) -> tuple[int, int] | None:
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
