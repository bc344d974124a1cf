"""The facts of a conversation, as Claude Code's first message (`system/init`) tells them: folder, tools, servers, …"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellwright.commands.registry import COMMANDS
from cellwright.config.credentials.stored_key import kept_source
from cellwright.conversation.resolve_options import policy_of
from cellwright.model.credentials import source_of_credential
from cellwright.version import VERSION

if TYPE_CHECKING:
    from cellwright.config.settings.settings_in_force import SettingsInForce
    from cellwright.conversation.runs.run_options import RunOptions
    from cellwright.features.conversation import Conversation

SERVER_STATUS = {"connecting": "pending", "connected": "connected", "needs sign-in": "needs-auth"}
"""Claude Code's words for the state of a server; any other is a failure."""


def session_facts(conversation: Conversation, options: RunOptions) -> dict[str, Any]:
    """The facts of a run with `options`, besides its model and mode."""
    in_force, features = conversation.in_force, conversation.features
    policy = policy_of(options, in_force.settings, conversation.cwd, in_force.environ)
    skills = features.skills.all().values()
    return {
        "cwd": str(conversation.cwd),
        "tools": [tool.name for tool in conversation.tools.of(options) if not policy.hides(tool)],
        "mcp_servers": [
            {"name": name, "status": SERVER_STATUS.get(each.state, "failed")}
            for name, each in features.mcp.connections.items()
        ],
        "slash_commands": [*COMMANDS, *(skill.name for skill in skills if skill.by_user)],
        "apiKeySource": _key_source(in_force),
        "claude_code_version": VERSION,
        "output_style": features.styles.chosen()[0].name,
        "agents": sorted(features.agents.found().agents),
        "skills": [skill.name for skill in skills if skill.by_claude],
        "plugins": [{"name": each.name, "path": str(each.root)} for each in in_force.plugins.plugins.values()],
    }


def _key_source(in_force: SettingsInForce) -> str:
    """The name of what gives the credential, as Claude Code's messages have it."""
    place = kept_source(in_force.environment, own_credentials=in_force.settings.own_credentials)
    return f"cellwright auth login ({place})" if place else source_of_credential(in_force.environment) or "none"
