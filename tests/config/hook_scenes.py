"""What tests of settings hooks share: hooks from a `hooks` object, told of events as a run would tell them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.hooks.protocol import HookResult, HookRun, Hooks
from cellwright.agent.tool import Tool
from cellwright.config.hooks.hooks import hooks_from
from cellwright.config.settings.settings import HooksSource
from cellwright.permissions.policy import PermissionPolicy
from declared_tools import tool_named


def source(events: dict[str, Any], label: str = "settings.json", scope: Any = "user") -> HooksSource:
    return HooksSource(events, scope, label, None)


def hooks_of(project: Path, events: dict[str, Any], **options: Any) -> Hooks:
    options.setdefault("environ", os.environ)
    return hooks_from([source(events)], project=project, **options)


def command(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "command", "command": text, **fields}


def group(*hooks: dict[str, Any], matcher: str | None = None) -> dict[str, Any]:
    return {"hooks": list(hooks)} if matcher is None else {"matcher": matcher, "hooks": list(hooks)}


def python(code: str) -> str:
    """A command that runs `code`, where `event` is the hook's input."""
    head = "import json, os, sys, time\nevent = json.load(sys.stdin)\n"
    return shlex.join([sys.executable, "-c", head + textwrap.dedent(code)])


def told(project: Path, event: str, **fields: Any) -> dict[str, Any]:
    """The input of `event`."""
    common = {"session_id": "s1", "transcript_path": "", "cwd": str(project), "permission_mode": "default"}
    return {**common, "hook_event_name": event, **fields}


def call_fields(name: str = "Bash", **tool_input: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": tool_input, "tool_use_id": "toolu_1"}


def fire(hooks: Hooks, project: Path, event: str, **fields: Any) -> HookResult:
    """What `hooks` say of `event`; of a call as the run tells them that has its tool."""
    run = run_with(tool_named(fields["tool_name"]), project) if "tool_name" in fields else None
    return asyncio.run(hooks.fire(event, told(project, event, **fields), run))


def run_with(tool: Tool, project: Path) -> HookRun:
    """A run of an agent that has `tool` and asks no model."""
    no_model: Any = None
    agent = AgentSetup(provider=no_model, model="none", system=(), tools=[tool], policy=PermissionPolicy(cwd=project))
    return HookRun(agent, lambda _event: None)


def fire_command(project: Path, event: str, text: str, **fields: Any) -> HookResult:
    """What one command hook says of `event`; fields of a call where it is about one."""
    call = call_fields(command="make") if event.startswith(("PreTool", "PostToolUse", "Permission")) else {}
    return fire(hooks_of(project, {event: [group(command(text, **fields))]}), project, event, **call)


def saying(answer: Any) -> str:
    """A command that answers `answer` as JSON."""
    return f"printf %s {shlex.quote(json.dumps(answer))}"
