"""Command hooks: real programs, their exit codes and outputs, and that nothing of them is left."""

import asyncio
import json
import os
import shlex
import sys

import pytest
from hook_scenes import (
    call_fields,
    command,
    fire,
    fire_command,
    group,
    hooks_of,
    python,
    saying,
    source,
    told,
)

from cellwright.agent.hooks.hook_answers import BLOCKABLE, GUARDED
from cellwright.agent.hooks.protocol import EVENTS, NO_HOOK_RESULT
from cellwright.config.hooks.entries import NEVER_BLOCKED_BY_FAILURE
from cellwright.config.hooks.hooks import hooks_from
from eventual import eventually
from processes.marked_processes import marked, wait_until_gone
from processes.this_process import open_files
from row_tables import for_each_row

MEANS = {
    **dict.fromkeys(("PreToolUse", "PreModelSwitch", "PermissionRequest"), "deny"),
    **dict.fromkeys(BLOCKABLE, "block"),
}


def meaning(said):
    """What an answer comes to, in one word."""
    if said.behavior:
        return said.behavior
    if said.block:
        return "block"
    return "told" if said.messages else "problem" if said.problems else "nothing"


@for_each_row("event", EVENTS)
def test_exit_code_2_means_no_where_there_is_something_to_say_no_to(tmp_path, event):
    said = fire_command(tmp_path, event, "echo 'not today' >&2; exit 2")
    assert meaning(said) == MEANS.get(event, "told")
    assert "not today" in (said.reason or said.messages[0])
    assert said.context == ()


@for_each_row("event", EVENTS)
@for_each_row("code", [1, 3, 127])
def test_another_exit_code_is_a_failure_that_blocks_nothing(tmp_path, event, code):
    said = fire_command(tmp_path, event, f"echo broken >&2; exit {code}")
    assert meaning(said) == "problem"
    assert f"exited with {code}: broken" in said.problems[0]
    assert "settings.json: hooks." in said.problems[0]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_hook_that_a_signal_ended_says_which(tmp_path):
    said = fire_command(tmp_path, "Stop", "kill -9 $$")
    assert "by SIGKILL:" in said.problems[0]


@for_each_row("event", EVENTS)
def test_plain_text_is_context_where_an_event_takes_it(tmp_path, event):
    said = fire_command(tmp_path, event, "echo ' It is Monday. '")
    expected = ("It is Monday.",) if event in ("SessionStart", "UserPromptSubmit", "UserPromptExpansion") else ()
    assert said.context == expected
    # a guard that says something and decides nothing may have meant to
    assert meaning(said) == ("problem" if event in GUARDED and not expected else "nothing")


@for_each_row("event", EVENTS)
@for_each_row("failure", ["exit 1", "kill -9 $$"])
def test_on_failure_block_takes_a_failure_for_exit_code_2(tmp_path, event, failure):
    said = fire_command(tmp_path, event, failure, onFailure="block")
    expected = "problem" if event in NEVER_BLOCKED_BY_FAILURE else MEANS.get(event, "told")
    assert meaning(said) == expected


def test_exit_code_2_prefers_the_reason_in_json_that_blocks(tmp_path):
    answer = {"decision": "block", "reason": "from JSON"}
    said = fire_command(tmp_path, "Stop", f"{saying(answer)}; echo 'from stderr' >&2; exit 2")
    assert (said.block, said.reason) == (True, "from JSON")


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest", "Stop"])
def test_exit_code_2_is_a_no_whatever_the_json_says(tmp_path, event):
    answers = {
        "PreToolUse": {"permissionDecision": "allow", "updatedInput": {"command": "x"}},
        "PermissionRequest": {"decision": {"behavior": "allow"}},
        "Stop": {},
    }
    answer = {"hookSpecificOutput": {"hookEventName": event, **answers[event]}}
    said = fire_command(tmp_path, event, f"{saying(answer)}; echo no >&2; exit 2")
    assert meaning(said) == MEANS.get(event, "told")
    assert said.behavior != "allow"


@pytest.mark.parametrize("code", [0, 1])
def test_a_json_object_alone_decides(tmp_path, code):
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}
    said = fire_command(tmp_path, "PreToolUse", f"echo; {saying(answer)}; echo oops >&2; exit {code}")
    assert meaning(said) == "deny"
    assert said.problems == ()


@for_each_row(
    "garbage",
    ["{not json", '{"continue": false', "{}{}", "\\x00\\xff\\xfe", "[]", "null", '"text"', "{{{{{{"],
)
def test_garbage_allows_nothing(tmp_path, garbage):
    said = fire_command(tmp_path, "PreToolUse", f"printf {shlex.quote(garbage)}")
    broken = garbage.startswith("{") and garbage != "{}{}"
    assert said.behavior == ("deny" if broken else "")
    assert bool(said.problems) is (garbage not in ("[]", "null"))


@for_each_row(
    "answer",
    [
        {"continue": "no"},
        {"systemMessage": 7},
        {"hookSpecificOutput": []},
        {"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "allow"}},
        {"hookSpecificOutput": {"updatedInput": "x"}},
        {"decision": 7},
    ],
    ids=str,
)
def test_json_of_another_shape_allows_nothing(tmp_path, answer):
    said = fire_command(tmp_path, "PreToolUse", saying(answer))
    assert said.behavior != "allow"
    assert said.updated_input is None
    assert said.problems


def test_deeply_nested_json_is_only_a_no(tmp_path):
    said = fire_command(tmp_path, "Stop", python("print('{\"a\":' * 100_000)"))
    assert meaning(said) == "block"


def test_a_huge_output_does_not_hang_and_is_not_kept(tmp_path):
    said = fire_command(
        tmp_path, "UserPromptSubmit", "head -c 50000000 /dev/zero | tr '\\0' x; head -c 9000000 /dev/zero >&2"
    )
    (context,) = said.context
    assert len(context) < 11_000
    assert "left out" in context


def test_json_that_is_too_long_is_a_failure(tmp_path):
    said = fire_command(tmp_path, "Stop", python("print('{\"reason\": \"' + 'x' * 3_000_000 + '\"}')"))
    assert "wrote too much" in said.problems[0]


def test_the_input_arrives_whole_and_as_documented(tmp_path):
    text = "ä€😀\n" * 200_000
    hooks = hooks_of(tmp_path, {"PreToolUse": [group(command("cat > input.json"))]})
    fire(hooks, tmp_path, "PreToolUse", **call_fields("Write", file_path="a.txt", content=text))
    written = json.loads((tmp_path / "input.json").read_text("utf-8"))
    assert written == told(
        tmp_path, "PreToolUse", **call_fields("Write", file_path=str(tmp_path / "a.txt"), content=text)
    )


def test_a_program_need_not_read_its_input(tmp_path):
    hooks = hooks_of(tmp_path, {"PreToolUse": [group(command("exec <&-; true"))]})
    assert fire(hooks, tmp_path, "PreToolUse", **call_fields(command="x" * 1_000_000)) == NO_HOOK_RESULT


def test_arguments_go_to_a_program_without_a_shell(tmp_path):
    code = "import json, sys; print(json.dumps({'systemMessage': ' '.join(sys.argv[1:])}))"
    project = tmp_path / "a $(touch x) b"
    project.mkdir()
    args = ["-c", code, "${CLAUDE_PROJECT_DIR}/x", "$HOME; rm *"]
    said = fire_command(project, "Stop", sys.executable, args=args)
    assert said.messages == (f"{project}/x $HOME; rm *",)
    assert list(project.iterdir()) == []


def test_the_project_is_a_variable_for_the_shell(tmp_path):
    project = tmp_path / "a 'b' $(touch x)"
    project.mkdir()
    said = fire_command(project, "UserPromptSubmit", 'printf %s "${CLAUDE_PROJECT_DIR}"')
    assert said.context == (str(project),)


def test_a_hook_runs_where_the_session_is(tmp_path):
    folder = tmp_path / "sub"
    folder.mkdir()
    hooks = hooks_of(tmp_path, {"UserPromptSubmit": [group(command("pwd -P"))]})
    assert fire(hooks, folder, "UserPromptSubmit").context == (str(folder.resolve()),)
    folder.rmdir()
    assert fire(hooks, folder, "UserPromptSubmit").context == (str(tmp_path.resolve()),)


def test_the_environment_has_no_secrets_and_nothing_that_runs_code(tmp_path):
    environ = {
        **os.environ,
        "ANTHROPIC_API_KEY": "sk-ant-secret",
        "MY_TOKEN": "t",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x",
        "BASH_ENV": str(tmp_path / "evil"),
        "PLAIN": "kept",
    }
    names = '"ANTHROPIC_API_KEY", "MY_TOKEN", "OTEL_EXPORTER_OTLP_ENDPOINT", "BASH_ENV", "PLAIN", "CLAUDE_EFFORT"'
    text = python(f"print(json.dumps({{'systemMessage': str([os.environ.get(name) for name in ({names})])}}))")
    hooks = hooks_of(tmp_path, {"Stop": [group(command(text))]}, environ=environ)
    said = fire(hooks, tmp_path, "Stop", effort={"level": "high"})
    assert said.messages == ("[None, None, None, None, 'kept', 'high']",)


def test_rc_files_are_not_read(tmp_path, own_place):
    for name in (".bashrc", ".bash_profile", ".profile"):
        (own_place / name).write_text("echo from the rc file\n", "utf-8")
    assert fire_command(tmp_path, "UserPromptSubmit", "true") == NO_HOOK_RESULT


@pytest.mark.parametrize(
    "hook",
    [
        command("/no/such/program", args=[]),
        command("no-such-program-anywhere", args=["x"]),
        command("true", args=["a\0b"]),
    ],
    ids=str,
)
def test_a_program_that_cannot_start_is_a_failure(tmp_path, hook):
    hooks = hooks_of(tmp_path, {"Stop": [group(hook)]})
    assert "not be started" in fire(hooks, tmp_path, "Stop").problems[0]


# what is left


def marked_environ(name):
    marker = f"HOOK_TEST_MARK=mark-{os.getpid()}-{name}"
    return marker, {**os.environ, **dict([marker.split("=", 1)])}


FAMILY = "sleep 1000 & (setsid sleep 1000 &) ; trap '' TERM INT; sleep 1000 & echo ready > ready; wait; sleep 1000"


def test_a_hook_that_takes_too_long_is_ended_with_all_it_started(tmp_path):
    marker, environ = marked_environ("timeout")
    hooks = hooks_of(tmp_path, {"PreToolUse": [group(command(FAMILY, timeout=0.5))]}, environ=environ)
    said = fire(hooks, tmp_path, "PreToolUse", **call_fields())
    assert meaning(said) == "problem"
    assert "within 0.5 s" in said.problems[0]
    wait_until_gone(marker)


def test_a_timeout_is_a_no_where_a_failure_is(tmp_path):
    hooks = hooks_of(tmp_path, {"PreToolUse": [group(command("sleep 1000", timeout=0.1, onFailure="block"))]})
    assert fire(hooks, tmp_path, "PreToolUse", **call_fields()).behavior == "deny"


def test_a_time_that_no_clock_counts_is_no_limit(tmp_path):
    assert meaning(fire_command(tmp_path, "PreToolUse", "exit 2", timeout=10**400)) == "deny"


def test_a_hook_that_is_interrupted_is_ended_with_all_it_started(tmp_path):
    marker, environ = marked_environ("interrupt")
    hooks = hooks_of(tmp_path, {"Stop": [group(command(FAMILY), command(f"{FAMILY} # another"))]}, environ=environ)

    async def interrupted():
        firing = asyncio.create_task(hooks.fire("Stop", told(tmp_path, "Stop"), None))
        while not (tmp_path / "ready").exists():
            await asyncio.sleep(0)
        firing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await firing
        await asyncio.to_thread(wait_until_gone, marker)

    asyncio.run(interrupted())


def test_no_descriptor_is_left_open(tmp_path):
    hooks = hooks_of(tmp_path, {"Stop": [group(command("true"), command("exit 3"), command("no-such", args=[]))]})
    fire(hooks, tmp_path, "Stop")  # starts the watchdog, which keeps its pipe
    before = open_files()
    for _ in range(3):
        fire(hooks, tmp_path, "Stop")
    eventually(lambda: open_files() - before, lambda more: not more)


def test_what_a_hook_leaves_in_the_background_is_not_waited_for(tmp_path):
    marker, environ = marked_environ("left")
    hooks = hooks_of(tmp_path, {"Stop": [group(command("sleep 1000 & true"))]}, environ=environ)
    assert fire(hooks, tmp_path, "Stop") == NO_HOOK_RESULT
    for pid in marked(marker):
        os.kill(pid, 9)


# together


def test_hooks_run_at_the_same_time(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    hooks = hooks_of(
        tmp_path, {"Stop": [group(command("cat pipe >&2", timeout=60), command("echo x > pipe", timeout=60))]}
    )
    assert fire(hooks, tmp_path, "Stop") == NO_HOOK_RESULT


def test_the_same_hook_in_several_files_runs_once(tmp_path):
    events = {"Stop": [group(command("echo x >> count")), group(command("echo x >> count"))]}
    other = {"Stop": [group(command("echo x >> count", timeout=7))]}
    sources = [source(events, "a"), source(events, "b"), source(other, "c")]
    fire(hooks_from(sources, environ=os.environ, project=tmp_path), tmp_path, "Stop")
    assert (tmp_path / "count").read_text("utf-8").count("x") == 2


def test_a_failure_is_told_once(tmp_path):
    hooks = hooks_of(tmp_path, {"Stop": [group(command("exit 1"))]})
    assert len(fire(hooks, tmp_path, "Stop").problems) == 1
    assert fire(hooks, tmp_path, "Stop").problems == ()


# in the background


def in_background(tmp_path, text, event="PostToolUse", **fields):
    """Fires, waits until the hook has ended, and gives what arrived."""
    hooks = hooks_of(tmp_path, {event: [group(command(f"{text}; echo > done", **fields))]})

    async def told_and_waited():
        said = await hooks.fire(event, told(tmp_path, event, **call_fields()), None)
        while not hooks.waiting:
            await asyncio.sleep(0.001)
        return said, hooks.waking(), hooks.arrived(), hooks.arrived()

    return asyncio.run(told_and_waited())


def test_a_hook_in_the_background_is_not_waited_for_and_decides_nothing(tmp_path):
    answer = {
        "decision": "block",
        "reason": "too late",
        "continue": False,
        "systemMessage": "checked",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "all green"},
    }
    said, waking, arrived, again = in_background(tmp_path, saying(answer), **{"async": True})
    assert said == NO_HOOK_RESULT
    assert not waking
    assert (arrived.context, arrived.messages) == (("all green",), ("checked",))
    assert (arrived.block, arrived.stop) == (False, None)
    assert again == NO_HOOK_RESULT


def test_a_hook_in_the_background_may_wake_claude(tmp_path):
    hooks_said = in_background(tmp_path, "echo 'the build broke' >&2; echo > done; exit 2", asyncRewake=True)
    _, waking, arrived, _ = hooks_said
    assert waking
    assert arrived.context == ("the build broke",)


def test_a_hook_in_the_background_ends_with_its_loop(tmp_path):
    marker, environ = marked_environ("background")
    hooks = hooks_of(tmp_path, {"Stop": [group(command(FAMILY, **{"async": True}))]}, environ=environ)

    async def started():
        await hooks.fire("Stop", told(tmp_path, "Stop"), None)
        while not (tmp_path / "ready").exists():
            await asyncio.sleep(0)

    asyncio.run(started())
    wait_until_gone(marker)
