"""Hooks of settings files, in Claude Code's format: `hooks_from` makes of them what the loop tells its events.

`docs/hooks.md` lists the events, the kinds of hooks and what they may answer. The `if` of a hook is one permission
rule; the permission policy's own means say which calls it is about. A hook gets a call's input as it was promised:
with absolute paths, so that a check of a path cannot be led astray.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.hooks.callbacks import matches
from cellwright.agent.hooks.hook_answers import gather_results, merged
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, NO_HOOKS, HookResult, HookRun, Hooks
from cellwright.agent.subagent import small_model
from cellwright.agent.tool import Tool
from cellwright.config.hooks.asked_hooks import CallMcpTool, HttpBounds, ask_model, call_tool, send
from cellwright.config.hooks.command import HookEnvironment, failed, run_command
from cellwright.config.hooks.entries import (
    CommandHook,
    Entries,
    HookEntry,
    HooksOrigin,
    HttpHook,
    McpToolHook,
    ModelHook,
)
from cellwright.config.settings.settings import HooksSource, Settings
from cellwright.config.trust.exact_text import exact
from cellwright.config.trust.project_files import named_files
from cellwright.errors import CellwrightError
from cellwright.events import Notice, ToolProgress
from cellwright.permissions.policy import PermissionPolicy
from cellwright.tools.process.child_processes import ChildProcesses, child_processes


def concerns(rule: str, tool: Tool | None, tool_input: Mapping[str, Any], cwd: str) -> bool:
    """Return whether `rule` is about this call. A command that cannot be taken apart may be, so it is.

    A tool that is not known (None) may be what it is about as well.
    """
    if tool is None:
        return True
    try:
        decision = _asking(rule, cwd).decide(tool, tool_input)
    except CellwrightError:  # the rule cannot be read: told when the hooks were read
        return True
    return decision.behavior == "deny" or (tool.access.kind == "shell" and decision.behavior == "ask")


def condition_problem(rule: str) -> str | None:
    """Explain why `rule` cannot be read, in which case the hook runs for every call."""
    try:
        _asking(rule, "/")
    except CellwrightError as error:
        return error.message
    return None


@functools.lru_cache(maxsize=128)
def _asking(rule: str, cwd: str) -> PermissionPolicy:
    # a rule that restricts is read widely: any part of a command, any spelling of a path
    return PermissionPolicy(mode="bypassPermissions", deny=(rule,), roots=(cwd,), cwd=cwd)


def as_documented(fields: Mapping[str, Any], tool: Tool | None) -> Mapping[str, Any]:
    """The event's input, in which the path of a file tool's call is absolute."""
    tool_input = fields.get("tool_input")
    if (
        not isinstance(tool_input, Mapping)
        or tool is None
        or not (tool.access.reads_files or tool.access.kind == "edit")
    ):
        return fields
    path = tool_input.get(tool.access.field)
    if not isinstance(path, str) or not path or "\0" in path:
        return fields
    folder = str(fields.get("cwd") or "")
    absolute = os.path.join(folder, os.path.expanduser(path))  # noqa: PTH111, PTH118  what is no path stays a text
    return {**fields, "tool_input": {**tool_input, tool.access.field: absolute}}


SaveRules = Callable[[Sequence[str]], object]
"""Keeps allow rules for the project. Raises CellwrightError."""

logger = logging.getLogger(__name__)


def settings_hooks(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    trusted: bool,
    more: Sequence[HooksSource] = (),
    call_mcp_tool: CallMcpTool | None = None,
    children: ChildProcesses | None = None,
    exported: dict[str, str] | None = None,
    save_rules: SaveRules | None = None,
    scripts: Mapping[str, str] | None = None,
) -> Hooks:
    """The hooks that `settings` say, and `more` of the user's. In a folder that is not trusted only the administrator's run.

    `exported` gets what hooks export for the session's shell commands; `save_rules` keeps allow rules for the project.
    `scripts` are the files that the project's own hooks may run, by their digests; None: whatever they name.
    """
    switched_off = settings.origin("disableAllHooks") if settings.disable_all_hooks else None
    if switched_off is not None and switched_off.scope == "managed":
        return NO_HOOKS
    only_managed = settings.allow_managed_hooks_only or settings.disable_all_hooks or not trusted
    sources = [source for source in (*settings.hooks, *more) if source.scope == "managed" or not only_managed]
    return hooks_from(
        sources,
        environ=environ,
        project=settings.project,
        allowed_urls=settings.allowed_http_hook_urls,
        allowed_env_vars=settings.http_hook_allowed_env_vars,
        call_mcp_tool=call_mcp_tool,
        children=children,
        exported=exported,
        save_rules=save_rules,
        scripts=scripts,
    )


def hooks_from(
    sources: Sequence[HooksSource],
    *,
    environ: Mapping[str, str],
    project: Path,
    allowed_urls: Sequence[str] | None = None,
    allowed_env_vars: Sequence[str] | None = None,
    call_mcp_tool: CallMcpTool | None = None,
    children: ChildProcesses | None = None,
    exported: dict[str, str] | None = None,
    save_rules: SaveRules | None = None,
    scripts: Mapping[str, str] | None = None,
) -> Hooks:
    """The hooks of `sources` together. Never raises: what is broken is told with the first run that has an event for it."""
    entries = _entries_of(sources)
    if not entries.by_event and not entries.problems:
        return NO_HOOKS
    return SettingsHooks(
        by_event={event: tuple(found) for event, found in entries.by_event.items()},
        environment=HookEnvironment(
            project, environ, children or child_processes(), {} if exported is None else exported
        ),
        bounds=HttpBounds(environ, allowed_urls, allowed_env_vars),
        model=small_model(environ),
        call_mcp_tool=call_mcp_tool,
        save_rules=save_rules,
        scripts=scripts,
        reported_problems=set(),
        waiting=[HookResult(problems=tuple(entries.problems))] if entries.problems else [],
        left_out=tuple(entries.left_out),
    )


def hook_problems(sources: Sequence[HooksSource]) -> Sequence[str]:
    """Tell what is wrong with the hooks of `sources`, a sentence or two each."""
    return _entries_of(sources).problems


def origin_of(source: HooksSource) -> HooksOrigin:
    """Whose hooks those of `source` are."""
    brought = source.scope == "project"
    return HooksOrigin(
        from_project=source.scope in ("project", "local"),
        strict=source.strict or brought,
        secrets=frozenset() if brought else source.secrets,
        variables=tuple(source.variables.items()),
        of_component=source.of_component,
    )


def _entries_of(sources: Sequence[HooksSource]) -> Entries:
    entries = Entries()
    for source in sources:
        entries.add(source.label, source.events, origin_of(source))
    for entry in (entry for found in entries.by_event.values() for entry in found if entry.condition):
        if problem := condition_problem(entry.condition):
            entries.problems.append(f"{entry.source}: `if`: {problem} The hook runs for every call.")
    return entries


def watched_names(hooks: Hooks) -> frozenset[str]:
    """The names of the files that FileChanged hooks want to know of: those that their matchers list."""
    entries = hooks.by_event.get("FileChanged", ()) if isinstance(hooks, SettingsHooks) else ()
    names = (name.strip() for entry in entries for name in entry.matcher.split("|"))
    return frozenset(name for name in names if name and not set(name) & set("*?[]()^$/\\"))


class SettingsHooks(Struct):
    """The hooks of settings files.

    `reported_problems` holds the failures that the user knows of, `waiting` what nobody waited for. `left_out` says of each
    entry that is no hook why. A project's hook runs only while the files that it names are those of `scripts`.
    """

    by_event: Mapping[str, Sequence[HookEntry]]
    environment: HookEnvironment
    bounds: HttpBounds
    model: str
    call_mcp_tool: CallMcpTool | None
    save_rules: SaveRules | None
    scripts: Mapping[str, str] | None
    reported_problems: set[str]
    waiting: list[HookResult]
    left_out: tuple[str, ...] = ()
    _background: set[asyncio.Task[None]] = field(default_factory=set)
    _done_once: set[str] = field(default_factory=set)

    def listens_to(self, event: str) -> bool:
        return event in self.by_event

    async def fire(self, event: str, fields: Mapping[str, Any], run: HookRun | None) -> HookResult:
        tools = () if run is None else run.agent.tools
        tool = next((tool for tool in tools if tool.name == fields.get("tool_name")), None)
        fields = as_documented(fields, tool)
        if event == "SessionStart":
            self.environment.exported.clear()
        calls = []
        # without those that say the same as an earlier one
        concerned = reversed(list(self._concerned(event, fields, tool)))
        for entry in list({entry.identity: entry for entry in concerned}.values())[::-1]:
            if isinstance(entry, CommandHook) and entry.in_background:
                task = asyncio.get_running_loop().create_task(self._in_background(entry, event, fields))
                self._background.add(task)
                task.add_done_callback(self._background.discard)
            else:
                calls.append(self._bounded(entry, event, fields, run))
        return self._without_reported(await gather_results(calls)) if calls else NO_HOOK_RESULT

    def arrived(self) -> HookResult:
        result, self.waiting = merged(self.waiting), []
        return self._without_reported(result)

    def waking(self) -> bool:
        return any(result.block for result in self.waiting)

    async def persist_rules(self, rules: Sequence[str]) -> str:
        if self.save_rules is None:
            return ""
        try:
            await asyncio.to_thread(self.save_rules, rules)
        except CellwrightError as error:
            return f"A hook's rules hold for this session only: {error.message}"
        return ""

    def _concerned(self, event: str, fields: Mapping[str, Any], tool: Tool | None) -> Iterator[HookEntry]:
        """The hooks whose matcher and `if` mean this."""
        for entry in self.by_event.get(event, ()):
            if not matches(entry.matcher, event, fields) or entry.identity in self._done_once:
                continue
            if entry.condition:
                folder = str(fields.get("cwd") or self.environment.project)
                if not concerns(entry.condition, tool, fields.get("tool_input") or {}, folder):
                    continue
            if entry.once:
                self._done_once.add(entry.identity)
            yield entry

    async def _bounded(
        self, entry: HookEntry, event: str, fields: Mapping[str, Any], run: HookRun | None
    ) -> HookResult:
        """Run one hook within its time, and return what it says."""
        if entry.status and run is not None:
            call = fields.get("tool_use_id")
            run.emit(Notice(entry.status) if call is None else ToolProgress(str(call), message=entry.status))
        try:
            async with asyncio.timeout(entry.seconds):
                result = await self._run_entry(entry, event, fields, run)
        except TimeoutError:
            return failed(entry, event, f"did not answer within {entry.seconds:g} s, its timeout, and was ended")
        # an answer that cannot be understood keeps a run from ending once, and not again and again
        if result.unread and fields.get("stop_hook_active") is True:
            return replace(result, block=False, reason="")
        return result

    async def _run_entry(
        self, entry: HookEntry, event: str, fields: Mapping[str, Any], run: HookRun | None
    ) -> HookResult:
        match entry:
            case CommandHook():
                if others := await asyncio.to_thread(self._changed_files, entry, fields):
                    return _withheld(entry, event, others)
                bounds = run.agent.policy.confinement_for_project_code() if run and entry.from_project else None
                return await run_command(entry, event, fields, self.environment, bounds)
            case HttpHook():
                return await send(entry, event, fields, self.bounds)
            case McpToolHook():
                return await call_tool(entry, event, fields, self.call_mcp_tool)
            case ModelHook():
                return await ask_model(entry, event, fields, run, self.model)
            case _:
                raise AssertionError(f"unknown kind of hook: {entry!r}")

    def _changed_files(self, entry: CommandHook, fields: Mapping[str, Any]) -> list[str]:
        """The files that a project's hook names and that are not those that the user trusted."""
        if self.scripts is None or not entry.from_project:
            return []
        project = self.environment.project
        named = named_files((entry.command, *(entry.args or ())), project, Path(str(fields.get("cwd") or project)))
        # in an agent's work tree the same files lie elsewhere
        trusted = frozenset(self.scripts.values())
        return sorted(path for path, digest in named.digests.items() if digest not in trusted)

    async def _in_background(self, entry: CommandHook, event: str, fields: Mapping[str, Any]) -> None:
        result = await self._bounded(entry, event, fields, None)
        wakes = entry.wakes and (result.block or result.behavior == "deny")
        context = (*result.context, result.reason) if wakes else result.context
        self.waiting.append(
            HookResult(block=wakes, context=context, messages=result.messages, problems=result.problems)
        )

    def _without_reported(self, result: HookResult) -> HookResult:
        """`result` without the failures that the user knows of."""
        for problem in result.problems:
            logger.info("%s", problem)
        fresh = tuple(problem for problem in result.problems if problem not in self.reported_problems)
        self.reported_problems.update(fresh)
        return replace(result, problems=fresh) if fresh != result.problems else result


def _withheld(entry: HookEntry, event: str, files: Sequence[str]) -> HookResult:
    """Build the result of a hook that did not run, since its files are not those that were trusted.

    Before a call the user is asked: whoever changed the file may have wanted to be rid of the hook.
    """
    listed = ", ".join(map(exact, files))
    what = f"did not run: {listed} changed since you trusted it. You are asked about it before the next prompt"
    result = failed(entry, event, what)
    if event == "PreToolUse" and not result.behavior:
        return replace(result, behavior="ask", reason=f"A hook could not check this call: {listed} changed.")
    return result
