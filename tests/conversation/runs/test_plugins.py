"""What a plugin brings, in a conversation: its skills, commands, agents and hooks, once the user has taken it in."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event, RunEnd, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say, use

HOOK = (
    "import json, os, sys; json.load(sys.stdin); print(os.environ['CLAUDE_PLUGIN_ROOT'], file=sys.stderr); sys.exit(2)"
)


class Talk:
    """A conversation with a user who answers questions about plugins."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        self.server, self.home = server, root / "home"
        self.project, self.plugin = self.home / "project", root / "demo"
        (self.project / ".git").mkdir(parents=True)
        self.events: list[Event] = []
        self.asked: list[ToolUse] = []
        self.answer: Allow | Deny = Allow(by="widget")
        environ = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
        }
        self.conversation = Conversation(Host(cwd=self.project, interface="a test", environ=environ))

    def write(self, name: str, content: Any) -> None:
        file = self.plugin / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")

    async def ask_user(self, question: ToolUse) -> Allow | Deny:
        self.asked.append(question)
        return self.answer

    def command(self, text: str) -> str:
        command, words = command_of(text)
        call = CommandCall(self.conversation, RunOptions(), words, self.events.append, self.ask_user)
        return self.conversation.thread.submit(answer_of(command, call)).future.result().plain()

    def say(self, prompt: str, *turns: Any) -> RunEnd:
        self.server.add(*turns or (say("Good."),))
        self.events.clear()
        run = self.conversation.start(
            RunRequest(prompt=prompt, options=RunOptions(allow=("Skill", "Bash"))), RunSurface(self.events.append)
        )
        self.conversation.jobs.work_until_done(run)
        return run.result()

    @property
    def told(self) -> str:
        return json.dumps(self.server.requests[-1].body["messages"])

    @property
    def results(self) -> list[ToolEnd]:
        return [event for event in self.events if isinstance(event, ToolEnd)]


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    made.write(".claude-plugin/plugin.json", {"name": "demo"})
    yield made
    made.conversation.close()
    assert made.server.rejected == []


def test_its_skill_and_command_are_called_by_their_full_names(talk: Talk) -> None:
    talk.write("skills/hello/SKILL.md", "---\ndescription: Greet warmly.\n---\nGreet from ${CLAUDE_PLUGIN_ROOT}.")
    talk.write("commands/bye.md", "Wave to $0.")
    assert "demo@local is" in talk.command(f"/plugin install {talk.plugin}")
    assert "skills: hello" in talk.asked[0].preview.detail
    talk.say("/demo:hello")
    root = talk.conversation.in_force.plugins.plugins["demo@local"].root
    assert f"Greet from {root}." in talk.told
    talk.say("/demo:bye Ada")
    assert "Wave to Ada." in talk.told
    talk.say("What can you do?", use("Skill", skill="demo:hello"), say("Hello."))
    assert "Greet warmly." in talk.told
    assert "Greet from" in str(talk.results[0].content)


def test_its_agent_has_its_name_and_may_not_loosen(talk: Talk) -> None:
    talk.write(
        "agents/helper.md",
        "---\nname: helper\ndescription: Helps.\npermissionMode: acceptEdits\n---\nYou are in ${CLAUDE_PLUGIN_ROOT}.",
    )
    talk.command(f"/plugin install {talk.plugin}")
    call = use("Agent", description="d", prompt="Help.", subagent_type="demo:helper")
    talk.say("Have it help.", call, say("I helped."), say("It helped."))
    system = talk.server.requests[-2].body["system"][0]["text"]
    assert f"You are in {talk.conversation.in_force.plugins.plugins['demo@local'].root}." in system
    assert "`permissionMode` counts" in talk.command("/agents")


def test_its_hook_runs_once_the_user_said_yes(talk: Talk) -> None:
    run = f"{shlex.quote(sys.executable)} -c {shlex.quote(HOOK)}"
    hooks = {"PreToolUse": [{"matcher": "Glob", "hooks": [{"type": "command", "command": run}]}]}
    talk.write("hooks/hooks.json", {"hooks": hooks})
    talk.answer = Deny("no", by="widget")
    assert "Nothing was changed" in talk.command(f"/plugin install {talk.plugin}")
    assert "(Glob): runs" in talk.asked[0].preview.detail
    talk.say("Look.", use("Glob", pattern="*"), say("Seen."))
    assert talk.results[0].status == "success"
    talk.answer = Allow(by="widget")
    talk.command(f"/plugin install {talk.plugin}")
    talk.say("Look.", use("Glob", pattern="*"), say("Not seen."))
    root = talk.conversation.in_force.plugins.plugins["demo@local"].root
    assert (talk.results[0].status, str(root) in str(talk.results[0].content)) == ("denied", True)
    talk.command("/plugin disable demo")
    talk.say("Look.", use("Glob", pattern="*"), say("Seen."))
    assert talk.results[0].status == "success"


def test_an_update_asks_again_and_until_then_the_old_files_count(talk: Talk) -> None:
    talk.write("commands/bye.md", "Wave once.")
    talk.command(f"/plugin install {talk.plugin}")
    assert "up to date" in talk.command("/plugin update demo")
    talk.write("commands/bye.md", "Wave twice.")
    talk.answer = Deny("no", by="widget")
    talk.command("/plugin update demo")
    talk.say("/demo:bye")
    assert "Wave once." in talk.told
    talk.answer = Allow(by="widget")
    assert "brought up" in talk.command("/plugin update")
    talk.say("/demo:bye")
    assert "Wave twice." in talk.told


def test_a_marketplace_from_the_list_to_a_removed_plugin(talk: Talk) -> None:
    talk.write("plugins/small/commands/hi.md", "Say hi.")
    listed = [{"name": "small", "source": "./plugins/small", "description": "Small."}]
    talk.write(".claude-plugin/marketplace.json", {"name": "shop", "plugins": listed})
    assert "small@shop" in talk.command(f"/plugin marketplace add {talk.plugin}")
    assert "small@shop is" in talk.command("/plugin install small")
    assert "Say hi." in (talk.say("/small:hi") and talk.told)
    shown = talk.command("/plugin")
    assert all(each in shown for each in ("small@shop", "on", "shop"))
    assert "commands: hi" in talk.command("/plugin show small")
    talk.command("/plugin remove small")
    assert "small" not in talk.command("/skills")
    talk.command("/plugin marketplace remove shop")
    assert "None is added" in talk.command("/plugin marketplace list")


def test_nobody_to_ask_installs_nothing(talk: Talk) -> None:
    talk.write("commands/bye.md", "Wave.")
    talk.answer = Allow(by="policy")
    assert "was not taken" in talk.command(f"/plugin install {talk.plugin}")
    assert talk.conversation.in_force.plugins.plugins == {}


def test_how_to_upgrade_is_said_and_nothing_is_run(talk: Talk) -> None:
    shown = talk.command("/upgrade")
    assert "installed by" in shown
    assert "each kernel" in shown


def test_a_report_of_a_bug_has_nothing_of_what_was_said_unless_asked(talk: Talk) -> None:
    talk.say("My secret plan is a lighthouse.")
    shown = talk.command("/bug The panel is empty")
    file = Path(shown.split("The report is in ")[1].splitlines()[0])
    report = file.read_text("utf-8")
    assert report.startswith("# The panel is")
    assert "The doctor" in report
    assert "lighthouse" not in report
    assert str(talk.home) not in report
    assert talk.server.api_key not in report
    assert file.stat().st_mode & 0o777 == 0o600
    asked = talk.command("/bug with-messages It said too much")
    assert "lighthouse" in Path(asked.split("The report is in ")[1].splitlines()[0]).read_text("utf-8")


def test_its_output_style_is_chosen_by_its_full_name(talk: Talk) -> None:
    talk.write(
        "output-styles/tide.md", "---\nname: Tide\ndescription: Slow.\n---\nSpeak as the tide. ${CLAUDE_PLUGIN_ROOT}"
    )
    talk.command(f"/plugin install {talk.plugin}")
    assert "demo:Tide" in talk.command("/output-style")
    talk.command("/output-style demo:tide")
    talk.say("Hello.")
    root = talk.conversation.in_force.plugins.plugins["demo@local"].root
    assert f"as the tide. {root}" in json.dumps(talk.server.requests[-1].body["system"])
    talk.command("/plugin disable demo")
    talk.command("/clear")
    talk.say("Hello.")
    assert "as the tide." not in json.dumps(talk.server.requests[-1].body["system"])
    assert any("'demo:Tide' was not" in str(event) for event in talk.events)


def test_a_project_switches_on_its_server_only_where_it_was_installed_and_the_folder_is_trusted(talk: Talk) -> None:
    talk.write(".mcp.json", {"mcpServers": {"data": {"command": sys.executable, "args": ["-c", "input()"]}}})
    settings = talk.project / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"enabledPlugins": {"demo@local": True}}), "utf-8")
    name = "plugin:demo:data"

    def found() -> dict[str, Any]:
        talk.conversation.in_force.refresh()
        talk.conversation.features.mcp.refresh()
        return dict(talk.conversation.features.mcp.found.entries)

    assert found() == {}, "nothing is installed"
    talk.command(f"/plugin install {talk.plugin}")
    assert f"MCP server {name}" in talk.asked[0].preview.detail
    assert list(found()) == [name], "the user's own word"
    (talk.home / ".claude" / "settings.json").unlink()
    assert found() == {}, "the project's alone, and nobody trusts it"
    question = talk.conversation.in_force.question()
    assert question is not None
    assert "demo@local" in question.detail
    talk.conversation.in_force.answer(question, yes=True)
    assert list(found()) == [name]
    next(talk.conversation.in_force.plugins.plugins["demo@local"].root.glob(".mcp.json")).write_text("{}", "utf-8")
    talk.conversation.features.mcp.refresh()
    assert talk.conversation.features.mcp.found.entries == {}, "files that were changed are not those of the yes"


def test_its_programs_are_on_the_path_of_commands_and_hooks_behind_all_others(talk: Talk) -> None:
    talk.write("bin/tide-table", "#!/bin/sh\necho high at noon\n")
    talk.write("bin/ls", "#!/bin/sh\necho not the ls that was meant\n")
    for name in ("tide-table", "ls"):
        (talk.plugin / "bin" / name).chmod(0o755)
    hooks = {"PreToolUse": [{"matcher": "Glob", "hooks": [{"type": "command", "command": "tide-table >&2; exit 2"}]}]}
    talk.write("hooks/hooks.json", {"hooks": hooks})
    talk.command(f"/plugin install {talk.plugin}")
    assert "ls, tide-table" in talk.asked[0].preview.detail
    talk.say("When?", use("Bash", command="tide-table; ls"), use("Glob", pattern="*"), say("At noon."))
    shell, glob = talk.results
    assert "high at noon" in str(shell.content)
    assert "not the ls" not in str(shell.content)
    assert "high at noon" in str(glob.content)
    talk.command("/plugin disable demo")
    talk.say("When?", use("Bash", command="tide-table"), say("Not known."))
    assert "not found" in str(talk.results[0].content)


def test_its_output_style_is_used(talk: Talk) -> None:
    talk.write(
        "output-styles/pirate.md",
        "---\nname: Pirate\ndescription: Arr\n---\nSpeak as a pirate of ${CLAUDE_PLUGIN_ROOT}.",
    )
    talk.command(f"/plugin install {talk.plugin}")
    talk.write(
        "../home/.claude/settings.json",
        json.loads((talk.home / ".claude/settings.json").read_text()) | {"outputStyle": "demo:Pirate"},
    )
    talk.say("Hello.")
    root = talk.conversation.in_force.plugins.plugins["demo@local"].root
    assert f"a pirate of {root}." in json.dumps(talk.server.requests[-1].body)


def test_one_that_needs_another_counts_with_it_only(talk: Talk) -> None:
    talk.write(
        ".claude-plugin/plugin.json", {"name": "demo", "dependencies": ["tides", {"name": "maps", "version": "^1"}]}
    )
    talk.write("skills/hello/SKILL.md", "---\ndescription: Greet.\n---\nGreet.")
    answer = talk.command(f"/plugin install {talk.plugin}")
    assert "tides@local, which" in answer
    assert "/plugin install" in answer
    assert talk.conversation.in_force.plugins.plugins == {}
    for name in ("tides", "maps"):
        other = talk.plugin.parent / name
        (other / ".claude-plugin").mkdir(parents=True)
        (other / ".claude-plugin/plugin.json").write_text(json.dumps({"name": name}), "utf-8")
        talk.command(f"/plugin install {other}")
    talk.say("Hello.")
    assert list(talk.conversation.in_force.plugins.plugins) == ["demo@local", "maps@local", "tides@local"]
    talk.command("/plugin disable maps")
    talk.say("Hello.")
    assert list(talk.conversation.in_force.plugins.plugins) == ["tides@local"]
    assert "maps@local" in talk.command("/plugin")
