"""The scenes: each asks on one surface and uses what its name says. Its name begins with the surface."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from typing import Any

from benchmarks.oracle.stage import Stage
from cellwright.testing import Gate, fault, hold, say, searched, think, turn, use

Scene = Callable[[Stage], None]

READ = use("Read", file_path="tides.py")
GREP = use("Grep", pattern="level", output_mode="content")
EDIT = use("Edit", file_path="tides.py", old_string="hour * 2", new_string="hour * 3")
WRITE = use("Write", file_path="notes.txt", content="High water at six.\n")
TODO = use("TodoWrite", todos=[{"content": "Look", "status": "in_progress", "activeForm": "Looking"}])
LINES = ("--output-format", "stream-json", "--verbose")
OWN_LINES = ("--output-format", "json-lines")
TRUSTED = ("--trust", "-p")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SUMMARY_ASKED = "Everything above will be replaced by a summary"
SUMMARY = turn(say("<summary>The user asked of tides.</summary>"), when=SUMMARY_ASKED)


# ---- the terminal ----


def command_plain(stage: Stage) -> None:
    stage.answers(say("The sea rises."))
    stage.command("-p", "What does the sea do?")


def command_reads_and_edits_as_lines(stage: Stage) -> None:
    stage.answers(
        turn(think("Look first."), say("I look."), READ), turn(GREP, use("Glob", pattern="*")), EDIT, say("**Done.**")
    )
    stage.command(*LINES, "--permission-mode", "acceptEdits", "-p", "Make it three times the hour")


def command_partial_lines(stage: Stage) -> None:
    stage.answers(turn(think("Hm."), say("First."), READ), say("Then."))
    stage.command(*LINES, "--include-partial-messages", "-p", "Read it")


def command_own_lines(stage: Stage) -> None:
    stage.answers(turn(say("I look."), READ), TODO, EDIT, say("Not allowed, then."))
    stage.command(*OWN_LINES, "-p", "Change it")


def command_json_results(stage: Stage) -> None:
    stage.answers(say("One."), say("Two."), fault("status", status=400, message="no such thing"))
    stage.command("--output-format", "json", "-p", "One")
    stage.command("--output-format", "claude-json", "--continue", "-p", "Two")
    stage.command("--output-format", "json", "-p", "Three")


def command_text_with_tools(stage: Stage) -> None:
    stage.answers(READ, use("Bash", command="ls"), WRITE, say("A list:\n\n- one\n- two\n"))
    stage.command("-p", "Look around")


def command_models_and_efforts(stage: Stage) -> None:
    stage.answers(*[say(f"{number}.") for number in range(5)])
    stage.command("--model", "claude-haiku-4-5", "-p", "Small")
    stage.command("--model", "opus", "--effort", "max", "-p", "Large")
    stage.command("--model", "claude-sonnet-4-5", "--effort", "low", "--max-tokens", "2000", "-p", "Middle")
    stage.command("--model", "sonnet", "--continue", "-p", "In a session begun with another")
    stage.settings(model="haiku", effortLevel="high", alwaysThinkingEnabled=False, cellwright={"cacheTtl": 3600})
    stage.command("-p", "By the settings")


def command_fallback_model(stage: Stage) -> None:
    overloaded = fault("status", status=529, retry_after_ms=1)
    stage.answers(overloaded, overloaded, say("From the other."))
    stage.command("--model", "opus", "--fallback-model", "sonnet", "-p", "Is anybody there?")


def command_resumed_and_forked(stage: Stage) -> None:
    session = "11111111-2222-4333-8444-555555555555"
    stage.answers(READ, say("Read."), say("Again."), say("In a copy."), say("Elsewhere."))
    stage.command("--session-id", session, "-p", "Read it")
    stage.write("project/tides.py", "print('changed by the user')\n")
    stage.command("--resume", session, "-p", "And now?")
    stage.command("--resume", session, "--fork-session", "-p", "What if?")
    stage.command("--no-session", "-p", "Keep nothing")


def command_memory(stage: Stage) -> None:
    stage.write(".claude/CLAUDE.md", "Write tide, not flood. @more.md\n")
    stage.write(".claude/more.md", "And gauge, not meter.\n")
    stage.write("project/CLAUDE.md", "The project's rules.\n")
    stage.write("project/CLAUDE.local.md", "Mine alone.\n")
    stage.write("project/.claude/rules/python.md", "---\npaths: '**/*.py'\n---\nType all.\n")
    stage.write("project/.claude/rules/always.md", "Be brief.\n")
    stage.write("project/data/CLAUDE.md", "Levels are metres.\n")
    stage.write("project/data/deep/CLAUDE.md", "Deep ones too.\n")
    stage.write("project/data/deep/a.txt", "a\n")
    stage.answers(
        READ,
        use("Read", file_path="data/deep/a.txt"),
        use("Read", file_path="data/levels.csv"),
        say("Read."),
        say("Still."),
    )
    stage.command(*TRUSTED, "Read them")
    stage.write("project/CLAUDE.md", "Other rules.\n")
    stage.command(*TRUSTED, "--continue", "And again")


def command_untrusted_folder(stage: Stage) -> None:
    stage.write("project/CLAUDE.md", "The project's rules.\n")
    hook = {"hooks": [{"type": "command", "command": "echo of the hook"}]}
    stage.write(
        "project/.claude/settings.json", {"hooks": {"UserPromptSubmit": [hook]}, "env": {"ANTHROPIC_MODEL": "haiku"}}
    )
    stage.write("project/.mcp.json", {"mcpServers": {"plain": stage.mcp()}})
    stage.answers(say("Untrusted."))
    stage.command("-p", "Go")


def command_skills_and_commands(stage: Stage) -> None:
    stage.write(
        ".claude/skills/tide/SKILL.md",
        "---\nname: tide\ndescription: Reckon tides.\nallowed-tools: Read\n---\nReckon with $ARGUMENTS.\n",
    )
    stage.write(
        ".claude/skills/hidden/SKILL.md",
        "---\nname: hidden\ndescription: Hide.\ndisable-model-invocation: true\n---\nHidden.\n",
    )
    stage.write(
        "project/.claude/commands/report.md",
        "---\ndescription: Report.\nargument-hint: PLACE\n---\nReport on $1. @README.md\n",
    )
    stage.answers(use("Skill", skill="tide", args="moon"), say("By the skill."), say("The report."), say("By name."))
    stage.command("--allowed-tools", "Skill", *TRUSTED, "Reckon")
    stage.command(*TRUSTED, "--continue", "/report Brest")
    stage.command(*TRUSTED, "--continue", "/tide sun")


def command_hooks(stage: Stage) -> None:
    def hook(text: str, **more: Any) -> dict[str, Any]:
        return {"hooks": [{"type": "command", "command": text}], **more}

    said = json.dumps(
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "not this",
            }
        }
    )
    stage.settings(
        hooks={
            "SessionStart": [hook("echo it begins")],
            "UserPromptSubmit": [hook("echo the moon is full")],
            "PreToolUse": [hook(f"echo '{said}'", matcher="Write")],
            "PostToolUse": [hook("echo read it well >&2; exit 2", matcher="Read")],
            "Stop": [hook("test -e stopped || { touch stopped; echo not yet >&2; exit 2; }")],
        }
    )
    stage.answers(READ, WRITE, say("Done?"), say("Done."))
    stage.command(*LINES, *TRUSTED, "--permission-mode", "acceptEdits", "Go")


def command_agents(stage: Stage) -> None:
    stage.write(
        ".claude/agents/reader.md",
        "---\nname: reader\ndescription: Reads.\ntools: Read, Grep\nmodel: haiku\n---\nYou only read.\n",
    )
    task = {"description": "a task", "subagent_type": "reader"}
    stage.answers(
        turn(use("Agent", prompt="Read the file.", **task), when="Have it read"),
        turn(READ, when="Read the file."),
        turn(say("It prints 6."), when="def level"),
        turn(say("Six."), when="It prints 6."),
    )
    stage.command(*LINES, "-p", "Have it read")
    stage.answers(say("As the reader."))
    stage.command("--agent", "reader", "-p", "You are the reader")


def command_agents_of_the_command(stage: Stage) -> None:
    agents = {"helper": {"description": "Helps.", "prompt": "You help.", "tools": ["Read"]}}
    task = {"description": "help", "subagent_type": "general-purpose"}
    stage.answers(
        turn(
            use("Agent", prompt="Left side.", **task),
            use("Agent", prompt="Right side.", description="help", subagent_type="helper"),
            when="Both sides",
        ),
        turn(say("Left is clear."), when="Left side."),
        turn(say("Right is clear."), when="Right side."),
        turn(say("Both are clear."), when="is clear."),
    )
    stage.command("--agents", json.dumps(agents), "-p", "Both sides")


def command_mcp(stage: Stage) -> None:
    stage.write("servers.json", {"mcpServers": {"plain": stage.mcp()}})
    stage.answers(use("mcp__plain__add", a=2, b=3), use("mcp__plain__fail"), use("mcp__plain__picture"), say("Five."))
    stage.command(
        "--mcp-config", "../servers.json", "--strict-mcp-config", "--allowed-tools", "mcp__plain", *LINES, "-p", "Add"
    )


def command_mcp_with_tool_search(stage: Stage) -> None:
    stage.write(".claude.json", {"mcpServers": {"plain": stage.mcp(), "gone": {"command": "/no/such/program"}}})
    stage.answers(
        use("ToolSearch", query="select:mcp__plain__add"),
        use("mcp__plain__add", a=2, b=3),
        say("Five."),
        say("Still five."),
    )
    stage.command(*TRUSTED, "--allowed-tools", "mcp__plain", "Add", ENABLE_TOOL_SEARCH="true")
    stage.command(*TRUSTED, "--continue", "Again", ENABLE_TOOL_SEARCH="true")


def command_plugins(stage: Stage) -> None:
    stage.write("plugins/demo/.claude-plugin/plugin.json", {"name": "demo"})
    stage.write(
        "plugins/demo/skills/hello/SKILL.md",
        "---\ndescription: Greet warmly.\n---\nGreet from ${CLAUDE_PLUGIN_ROOT}.\n",
    )
    stage.write("plugins/demo/commands/bye.md", "Wave to $0.\n")
    stage.write("plugins/demo/agents/helper.md", "---\nname: helper\ndescription: Helps.\n---\nYou help.\n")
    stage.answers(say("Waved."), use("Skill", skill="demo:hello"), say("Greeted."))
    stage.command("plugin", "install", str(stage.home / "plugins" / "demo"), "--yes")
    stage.command("-p", "/plugin")
    stage.command(*TRUSTED, "/demo:bye Ada")
    stage.command(*TRUSTED, "Greet")


def command_output_styles(stage: Stage) -> None:
    stage.write(
        ".claude/output-styles/rhymes.md", "---\nname: rhymes\ndescription: In rhymes.\n---\nAnswer in rhymes.\n"
    )
    stage.answers(say("A rhyme."), say("Explained."))
    stage.settings(outputStyle="rhymes")
    stage.command("-p", "Speak")
    stage.settings(outputStyle="Explanatory")
    stage.command("-p", "Speak")


def command_mentions_and_pictures(stage: Stage) -> None:
    (stage.project / "dot.png").write_bytes(base64.b64decode(PIXEL))
    stage.write("project/long.txt", "".join(f"line {number}\n" for number in range(3000)))
    stage.answers(say("Seen."), say("Piped."))
    stage.command("-p", "What is in @tides.py and @data/ and @dot.png and @long.txt and @nothing.txt?")
    stage.command("-p", "What is this?", piped="one\ntwo\n")


def command_file_blocks(stage: Stage) -> None:
    stage.answers(say("Here:\n\n```python:new.py\nprint(1)\n```\n"), say("More."), say("With tools."))
    stage.command("--no-tools", "--permission-mode", "acceptEdits", "-p", "Write it")
    stage.command("--no-tools", "--continue", "-p", "And more")
    stage.command("--continue", "-p", "And with tools")


def command_modes(stage: Stage) -> None:
    plan = use("ExitPlanMode", plan="1. Read.\n2. Write.\n")
    stage.answers(
        READ,
        plan,
        say("A plan."),
        WRITE,
        say("Denied."),
        WRITE,
        say("Written."),
        use("EnterPlanMode"),
        say("Planning."),
    )
    stage.command("--permission-mode", "plan", "-p", "Plan it")
    stage.command("--continue", "--permission-mode", "dontAsk", "-p", "Do it")
    stage.command("--continue", "--permission-mode", "bypassPermissions", "-p", "Do it now")
    stage.command("--continue", "-p", "Plan again")


def command_rules_and_folders(stage: Stage) -> None:
    stage.write("lib/CLAUDE.md", "The library's rules.\n")
    stage.write("lib/a.txt", "a\n")
    stage.settings(permissions={"allow": ["Bash(touch *)"], "deny": ["Read(./data/**)", "WebFetch"], "ask": ["Grep"]})
    calls = [
        use("Bash", command="touch made"),
        use("Bash", command="rm -r data"),
        use("Read", file_path="data/levels.csv"),
        GREP,
    ]
    stage.answers(*calls, use("Read", file_path=str(stage.home / "lib" / "a.txt")), say("So far."), WRITE)
    stage.command("--add-dir", str(stage.home / "lib"), *LINES, "-p", "Try all")
    stage.command("--on-denied", "error", "--disallowed-tools", "NotebookEdit", "-p", "Try and end")


def command_sandboxed_bash(stage: Stage) -> None:
    commands = (
        "echo hello; cat tides.py | wc -l",
        "python3 -c \"open('made', 'w')\"",
        "cat /etc/hostname > /dev/null && git status --short",
        "cd data && pwd",
        "pwd",
    )
    stage.answers(*[use("Bash", command=command) for command in commands], say("Ran."))
    stage.command(*OWN_LINES, "-p", "Run them")


def command_tools_chosen(stage: Stage) -> None:
    stage.answers(say("Two tools."), say("None."), say("By settings."))
    stage.command("--tools", "Read,Bash", "-p", "With two")
    stage.command("--tools", "", "-p", "With none")
    stage.command("--system-prompt", "You are a gauge.", "--append-system-prompt", "Be exact.", "-p", "Who are you?")


def command_limits(stage: Stage) -> None:
    stage.answers(READ, GREP, turn(READ, usage={"output_tokens": 400_000}))
    stage.command("--max-turns", "2", "-p", "Go on")
    stage.command("--budget", "0.50", "-p", "Spend")


def command_structured_output(stage: Stage) -> None:
    schema = {"type": "object", "properties": {"level": {"type": "number"}}, "required": ["level"]}
    stage.write("schema.json", schema)
    stage.answers(READ, say('{"level": "high"}'), say('{"level": 6}'))
    stage.command("--schema", "../schema.json", "--output-format", "json", "-p", "How high?")


def command_dry_run(stage: Stage) -> None:
    stage.write(".claude/CLAUDE.md", "Write tide, not flood.\n")
    stage.command("--dry-run", "-p", "What would you see of @tides.py?")
    stage.command("--dry-run", "--output-format", "json", "-p", "And so?")


def command_recorded_and_replayed(stage: Stage) -> None:
    stage.answers(READ, EDIT, say("Changed."))
    mode = ("--permission-mode", "acceptEdits")
    stage.command(*mode, "--record", "run.jsonl", "-p", "Change it")
    stage.run("git", "checkout", "-q", "tides.py")
    stage.command(*mode, "--replay", "run.jsonl", *LINES, "-p", "Change it")
    stage.command(*mode, "--replay", "run.jsonl", "-p", "Something else")


def command_messages_as_lines(stage: Stage) -> None:
    def line(text: str) -> str:
        return json.dumps({"type": "user", "message": {"role": "user", "content": text}})

    stage.answers(READ, say("First."), say("Second."))
    stage.command(
        "-p", *LINES, "--input-format", "stream-json", "--replay-user-messages", piped=f"{line('One')}\n{line('Two')}\n"
    )


def command_slash_commands(stage: Stage) -> None:
    stage.answers(say("Hello."))
    stage.command("-p", "Hello")
    for page in (
        "/context",
        "/cost",
        "/memory",
        "/agents",
        "/permissions",
        "/model",
        "/mcp",
        "/hooks",
        "/diff",
        "/help",
    ):
        stage.command("--continue", "-p", page)


def command_code_context(stage: Stage) -> None:
    stage.answers(use("FindDefinitions", name="level"), use("CodeOutline", path="tides.py"), say("Found."))
    stage.command("--context", "code", "-p", "Where is the level reckoned?")


def command_web_search(stage: Stage) -> None:
    stage.settings(cellwright={"searchEngine": "anthropic"})
    found = searched("tides", {"url": "https://example.org/", "title": "Tides"}, text="They rise.", quote="rise")
    stage.answers(turn(found, say("So it says.")), say("Again."))
    stage.command("--allowed-tools", "WebSearch", "-p", "Search")
    stage.command("--continue", "-p", "And?")


def command_broken_streams(stage: Stage) -> None:
    stage.answers(
        turn(say("It beg"), fault("cut")),
        say("It began."),
        turn(say("Half"), READ, fault("truncated")),
        say("Whole."),
        turn(say("cut"), stop_reason="max_tokens"),
        say("…and on."),
    )
    stage.command("-p", "Once")
    stage.command("--continue", *LINES, "-p", "Twice")
    stage.command("--continue", "-p", "Thrice")


def command_notebooks(stage: Stage) -> None:
    cell = {"cell_type": "code", "id": "c1", "metadata": {}, "source": "x = 1", "outputs": [], "execution_count": None}
    stage.write("project/a.ipynb", {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    edit = use("NotebookEdit", notebook_path="a.ipynb", cell_id="c1", new_source="x = 2")
    more = use(
        "NotebookEdit",
        notebook_path="a.ipynb",
        cell_id="c1",
        new_source="# Two",
        cell_type="markdown",
        edit_mode="insert",
    )
    stage.answers(
        use("Read", file_path="a.ipynb"), edit, more, use("NotebookRead", notebook_path="a.ipynb"), say("Changed.")
    )
    stage.command("--permission-mode", "acceptEdits", *LINES, "-p", "Change the cell")


def command_files_changed_meanwhile(stage: Stage) -> None:
    stage.answers(READ, say("Read."), EDIT, READ, EDIT, say("Edited."))
    stage.command("-p", "Read it")
    stage.write("project/tides.py", "def level(hour):\n    return hour * 2  # by the user\n")
    stage.command("--continue", "--permission-mode", "acceptEdits", "-p", "Now edit")


def command_many_tools(stage: Stage) -> None:
    calls = (
        use("LS", path="."),
        use("FileTree"),
        use("Glob", pattern="**/*.py"),
        use("Git", action="log"),
        use("TodoRead"),
        TODO,
        use("MultiEdit", file_path="tides.py", edits=[{"old_string": "hour * 2", "new_string": "hour * 4"}]),
        use("ApplyPatch", patch="*** Begin Patch\n*** Add File: b.txt\n+b\n*** End Patch"),
        use("NoSuchTool"),
        use("Read", path="wrong"),
    )
    stage.answers(*calls, say("All tried."))
    stage.command("--permission-mode", "acceptEdits", *OWN_LINES, "-p", "Try them")


# ---- programs ----


def program_ask(stage: Stage) -> None:
    stage.answers(say("One."), READ, say("Two."), say("six"), say('{"level": 6}'), use("square", n=3), say("Nine."))
    stage.python("""
        import cellwright
        from pydantic import BaseModel

        class Level(BaseModel):
            level: float

        @cellwright.tool(read_only=True)
        def square(n: int) -> str:
            "The square of a number."
            return str(n * n)

        print(cellwright.ask("First").text)
        print(cellwright.ask("Second", model="haiku", tools=["Read"], builtin_tools=False).text)
        try:
            print(cellwright.ask("How high?", output_schema=Level).value)
        except Exception as error:
            print(type(error), error)
        print(cellwright.ask("Square it", tools=[square], session=None).text)
    """)


def program_agent(stage: Stage) -> None:
    stage.answers(WRITE, say("Written."), say("Undone, then."), say("Other."), SUMMARY, say("Goes on."))
    stage.python("""
        import cellwright
        with cellwright.Agent(mode="acceptEdits", system_prompt="You keep a gauge.", settings={"model": "sonnet"}) as agent:
            print(agent.ask("Write").text)
            print(agent.command("/undo yes"))
            print(agent.ask("And now?").text)
            agent.set_mode("plan")
            print(agent.command("/model haiku"))
            print(agent.ask("Plan").text)
            print(agent.command("/compact what matters"))
            print(agent.ask("Go on").text)
            print(agent.session.usage, agent.session.cost_usd)
    """)


def program_goal_and_titles(stage: Stage) -> None:
    stage.settings(cellwright={"sessionTitles": "model"})
    stage.answers(
        turn(say("Levels of Brest"), when="three to seven words"),
        turn(say('{"ok": false, "reason": "no test ran"}'), when="Is the goal met"),
        turn(say('{"ok": true}'), when="Is the goal met"),
        say("Done."), say("Now done."), say("And more."),
    )  # fmt: skip
    stage.python("""
        import cellwright
        with cellwright.Agent() as agent:
            print(agent.command("/goal all tests pass"))
            print(agent.ask("Work").text)
            print(agent.command("/goal"))
            print(agent.ask("More").text)
            print(agent.command("/rename"))
    """)


def program_hooks_and_callbacks(stage: Stage) -> None:
    stage.answers(WRITE, use("Bash", command="python3 -c \"open('made', 'w')\""), say("Tried."))
    stage.python("""
        import cellwright

        async def before(input, tool_use_id, context):
            return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "seen by the program"}}

        async def may(name, input, context):
            return cellwright.Allow() if name == "Write" else cellwright.Deny("not that")

        hooks = {"PreToolUse": [cellwright.HookMatcher(matcher="Write", hooks=[before])]}
        print(cellwright.ask("Try", hooks=hooks, can_use_tool=may).text)
    """)


def program_events(stage: Stage) -> None:
    stage.answers(
        turn(think("Hm."), say("I look."), READ),
        use("Agent", description="d", prompt="Look too.", subagent_type="Explore"),
        say("Looked."),
        say("Both did."),
    )
    stage.python("""
        import asyncio, cellwright

        async def main():
            last = None
            async for event in cellwright.stream("Look", allow=["Agent"]):
                name = type(event).__name__
                if name != last:
                    print(name)
                last = name

        asyncio.run(main())
    """)


def program_agent_in_the_background(stage: Stage) -> None:
    ends = Gate()
    task = {"description": "a task", "prompt": "Slowly.", "subagent_type": "general-purpose", "run_in_background": True}
    stage.answers(
        turn(use("Agent", **task), when="In the background"),
        turn(hold(ends), say("I end."), when="Slowly."),
        turn(say("It works."), when="background"),
    )
    ended = stage.home / "ended"

    def let_it_end() -> None:
        stage.server.wait_for_finished(2)
        ends.wait_until_reached()
        ends.open()
        stage.server.wait_for_finished(3)
        ended.touch()

    threading.Thread(target=let_it_end, daemon=True).start()
    stage.python(f"""
        import pathlib, time
        import cellwright
        with cellwright.Agent() as agent:
            print(agent.ask("In the background").text)
            while not pathlib.Path({str(ended)!r}).exists():
                time.sleep(0.05)
    """)


def program_map(stage: Stage) -> None:
    for name in ("Brest", "Dover", "Emden"):
        stage.answers(turn(say(f"The gauge of {name}."), when=name))
    stage.answers(turn(say('{"level": 1}'), when="Malmö"))
    stage.python("""
        import cellwright
        rows = cellwright.map(["Brest", "Dover", "Emden"], system="Say the gauge.", concurrency=1, progress=False)
        print([row.text for row in rows])
        schema = {"type": "object", "properties": {"level": {"type": "number"}}}
        print([row.value for row in cellwright.map(["Malmö"], schema=schema, progress=False)])
    """)


def program_compacts_by_itself(stage: Stage) -> None:
    stage.write("project/sand.txt", "".join(f"{n}: mud and sand and a shell or two\n" for n in range(4000)))
    stage.write(".claude/CLAUDE.md", "Write tide, not flood.\n")
    stage.write(".claude/skills/tide/SKILL.md", "---\nname: tide\ndescription: Reckon tides.\n---\nReckon.\n")
    stage.settings(autoCompactWindow=100_000, cellwright={"autoCompactShare": 0.3})
    reads = [use("Read", file_path="sand.txt", offset=1 + 500 * n, limit=500) for n in range(4)]
    stage.answers(SUMMARY, use("Skill", skill="tide"), TODO, *reads, say("Read."), say("On."), say("Again."))
    stage.python("""
        import cellwright
        with cellwright.Agent(allow=["Skill"], model="haiku") as agent:
            for prompt in ("Read all", "Go on", "And on"):
                print(agent.ask(prompt).text)
    """)


# ---- cells ----


def cell_conversation(stage: Stage) -> None:
    stage.answers(say("Four."), READ, say("Read."), say("Elsewhere."), say("With x."), say("New."))
    stage.cells(
        "%%claude\nWhat is 2 + 2?",
        "x = 41\nimport math",
        "%%claude --context auto\nRead tides.py",
        "%%claude --model haiku --effort low --max-tokens 900\nAnother model",
        "%%claude --context full\nWhat is x?",
        "%%claude --new --quiet\nBegin anew",
        "%claude /cost",
    )


def cell_python(stage: Stage) -> None:
    stage.answers(
        use("Python", code="y = x + 1\nprint(y)"),
        use("Python", code="1/0"),
        use("Variables"),
        say("42."),
        say("Explained."),
    )
    stage.cells("x = 41", "%%claude --mode bypassPermissions\nAdd one", "y", "%%claude\nExplain y")


def cell_errors_and_fix(stage: Stage) -> None:
    stage.answers(say("A name is missing."), say("```python\nlevel = 1\n```"))
    stage.cells("print(level)", "%%claude\nWhat went wrong?", "%claude fix", "%%claude --no-such-option\nHello")


def cell_schema(stage: Stage) -> None:
    stage.answers(say('{"name": "Brest", "level": 6}'), say("None."))
    stage.cells(
        "from dataclasses import dataclass\n@dataclass\nclass Gauge:\n    name: str\n    level: float",
        "%%claude --schema Gauge\nMake one",
        "_.value",
        "%%claude --no-tools\nWithout tools",
    )


def cell_commands(stage: Stage) -> None:
    stage.answers(WRITE, say("Written."), SUMMARY, say("After."), say("Aside."))
    stage.cells(
        "%%claude --mode acceptEdits\nWrite",
        "%claude /undo yes",
        "%claude /compact",
        "%%claude\nAnd then?",
        "%claude /btw What is a tide?",
        "%%claude --dry-run\nWhat is sent?",
        "!echo by the user > by_user.txt",
    )


def cell_user_commands(stage: Stage) -> None:
    stage.answers(say("Seen."), say("Again."), say("And so."))
    stage.cells("%%claude\n!ls", "%%claude\nWhat did it print?", "%%claude\n# remember this", "%%claude\nAnd?")


# ---- a kernel with its panel ----


def kernel_cell_and_panel(stage: Stage) -> None:
    stage.settings(cellwright={"sessionTitles": "model"})
    stage.answers(turn(say("Levels of Brest"), when="three to seven words"))
    stage.answers(
        use("Python", code="z = 1"), say("Done."), say("In the panel."), say("With a cell."), EDIT, say("Edited.")
    )
    with stage.kernel() as kernel:
        from chat_panel import ChatPanel

        panel = ChatPanel(kernel).connect()
        kernel.run("%%claude --mode bypassPermissions\nSet z", cell_id="c1")
        run = panel.prompt("Hello")
        panel.wait_for_end(run)
        for words, more in (
            ("What does it print?", {"context": "auto"}),
            ("Edit it", {"options": {"mode": "acceptEdits"}}),
        ):
            run = panel.prompt(words, **more)
            panel.wait_for_end(run)
        stage.keep("panel", "\n".join(json.dumps(op) for op in panel.ops[run]))
        panel.close()


def kernel_panel_asks_and_steers(stage: Stage) -> None:
    stage.answers(WRITE, say("Written."), WRITE, say("Denied."))
    with stage.kernel() as kernel:
        from chat_panel import ChatPanel

        panel = ChatPanel(kernel).connect()
        for behavior in ("allow", "deny"):
            run = panel.prompt("Write")
            panel.answer(panel.wait_for_op(run, "ask")["question"], behavior, reason="as said")
            panel.wait_for_end(run)
        panel.close()


# ---- Jupyter Server ----


def server_run(stage: Stage) -> None:
    stage.answers(READ, say("Read."), say("Again."))
    with stage.jupyter_server() as server:
        stream = server.stream("POST", "run", {"prompt": "Read tides.py", "options": {"model": "haiku"}})
        stage.keep("events", "\n".join(json.dumps(event) for event in stream.rest()))
        kernel = server.kernel()
        stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "In a kernel"})
        stage.keep("events", "\n".join(json.dumps(event) for event in stream.rest()))


ALL: dict[str, Scene] = {
    name: value
    for name, value in list(globals().items())
    if name.partition("_")[0] in ("command", "program", "cell", "kernel", "server") and callable(value)
}
