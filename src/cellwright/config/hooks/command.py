"""Command hooks: a program gets the event as JSON on its input; its exit code and what it writes are its answer.

    0      it went well: JSON is obeyed, other text is for Claude where an event takes context
    2      no: for the reason in its JSON, else in what it wrote to stderr
    other  it failed, unless it wrote a JSON object, which is then its whole answer

JSON is found between other text, too, and of a guard's hook what looks like an answer and cannot be read is a no.

Nothing of the event is ever put into a command line: it would be run there.

`CLAUDE_ENV_FILE` names a file into which some hooks write `export NAME=value` for the shell commands that follow.
Bash itself finds out what the file sets, with the rights that the hook had.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement, also_writing, without_hosts
from cellwright.agent.hooks.hook_answers import (
    GUARDED,
    REFUSABLE,
    Printed,
    blocked,
    capped,
    merged,
    only_no,
    read_answer,
    read_printed,
    unread,
)
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, HookResult
from cellwright.config.hooks.entries import CommandHook, HookEntry
from cellwright.config.plugins.plugin import put_in
from cellwright.config.settings.option_table import environment_of
from cellwright.this_process.files import new_file
from cellwright.tools.process.child_processes import MARK_NAME, ChildProcesses, Command, child_processes
from cellwright.tools.process.runner import OutputHead, RunningProgram, child_environment

MAX_BYTES = 2_000_000
"""Of each output of a hook."""

EXPORT_VARIABLE = "CLAUDE_ENV_FILE"
EXPORTING = frozenset({"SessionStart", "Setup", "CwdChanged", "FileChanged"})
"""The events whose hooks may set variables."""

_SHELLS_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD", MARK_NAME, EXPORT_VARIABLE})
_READ = 'set -a; . "$1" >/dev/null 2>&1; exec /usr/bin/env -0'


@contextlib.contextmanager
def export_file(event: str) -> Iterator[Path | None]:
    """An empty file for one hook of `event`; None where the event has none. Raises OSError."""
    if event not in EXPORTING:
        yield None
        return
    descriptor, file = new_file("exports")
    os.close(descriptor)
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


async def read_exports(
    file: Path,
    folder: Path,
    environ: Mapping[str, str],
    children: ChildProcesses,
    confinement: Confinement | None = None,
) -> dict[str, str]:
    """The variables that the script in `file` sets anew or otherwise. Raises OSError."""
    bash = shutil.which("bash", path=environ.get("PATH"))
    if bash is None or not file.exists() or file.stat().st_size == 0:
        return {}
    arguments = [bash, "--noprofile", "--norc", "-c", _READ, "bash", str(file)]
    command = Command(arguments=arguments, cwd=folder, environ=environ, confinement=without_hosts(confinement))
    ended = await _run(command, b"", children)
    pairs = [line.partition("=") for line in ended.output.split("\0") if line]
    return {name: value for name, _, value in pairs if name not in _SHELLS_OWN and environ.get(name) != value}


PLAIN_CONTEXT = frozenset({"SessionStart", "UserPromptSubmit", "UserPromptExpansion"})
"""The events for which text that is no JSON is for Claude to read."""

_JSON_WITHOUT_WORDS = frozenset({"null", "[]", "true", '""', "0"})
"""Texts of programs that had nothing to say."""

_PROJECT = "CLAUDE_PROJECT_DIR"


class HookEnvironment(Struct, frozen=True):
    """The place of commands: the project's folder, the inherited environment less its secrets, and their parent.

    `exported` is what hooks have set for the session's shell commands.
    """

    project: Path
    environ: Mapping[str, str]
    children: ChildProcesses = field(default_factory=child_processes)
    exported: dict[str, str] = field(default_factory=dict)


async def run_command(
    hook: CommandHook,
    event: str,
    fields: Mapping[str, Any],
    environment: HookEnvironment,
    confinement: Confinement | None = None,
) -> HookResult:
    """Run the hook, within `confinement` where that is given, and read its answer. Never raises but for a cancellation."""
    own = {name: value for name, value in hook.variables if name.isidentifier()}  # the others stand for texts in `args`
    environ = {**_environment(fields, environment), **own}
    folder = Path(str(fields.get("cwd") or environment.project))
    if not os.path.isdir(folder):  # noqa: PTH112  a folder may be gone by now
        folder = environment.project
    try:
        source = json.dumps(fields, ensure_ascii=False, default=str).encode("utf-8", "replace")
        with export_file(event) as file:
            more = {} if file is None else {EXPORT_VARIABLE: str(file)}
            bounds = confinement if file is None else also_writing(confinement, file)
            arguments = _arguments(hook, environ, environment)
            command = Command(
                arguments=arguments,
                cwd=folder,
                environ=_environment(fields, environment),
                own_variables={**own, **more},
                confinement=without_hosts(bounds),
            )
            ended = await _run(command, source, environment.children)
            if file is not None:
                environment.exported.update(await read_exports(file, folder, environ, environment.children, bounds))
    except (OSError, ValueError, RecursionError) as error:
        # no such program or folder, a NUL byte in an argument, an input nested too deeply
        return failed(hook, event, f"could not be started: {error}")
    return read_end(hook, event, ended)


class HookExit(Struct, frozen=True):
    """The outcome of a program. `cut`: it wrote more than is kept."""

    code: int
    output: str
    errors: str
    cut: bool


async def _run(command: Command, source: bytes, children: ChildProcesses) -> HookExit:
    output, errors = OutputHead(MAX_BYTES), OutputHead(MAX_BYTES)
    program = RunningProgram(command, output=output.take, errors=errors.take, source=source, children=children)
    await program.wait()
    return HookExit(program.exit_code, output.text(), errors.text(), output.cut or errors.cut)


def read_end(hook: CommandHook, event: str, ended: HookExit) -> HookResult:
    """Translate the end of a command hook into a result."""
    complaint = capped(ended.errors.strip())
    if (
        event == "WorktreeCreate"
        and ended.code == 0
        and ended.output.strip()
        and not ended.output.lstrip().startswith("{")
    ):
        return HookResult(worktree=ended.output.strip().splitlines()[-1].strip())
    printed = read_printed(ended.output)
    if ended.code == 2:
        return _refused(event, _answered(hook, event, printed), complaint or capped(printed.rest))
    # what a program wrote as it crashed begins like JSON now and then; an answer that was cut off has its keys
    if ended.code == 0 or printed.answers or printed.attempt == "answer":
        return _read(hook, event, printed, cut=ended.cut, plain=ended.output, errors=ended.errors)
    lines = complaint.splitlines() or ["it wrote nothing to stderr"]
    complaint_line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    try:
        end = f"was ended by {signal.Signals(-ended.code).name}"
    except ValueError:
        end = f"exited with {ended.code}"
    return failed(hook, event, f"{end}: {complaint_line}")


def read_output(hook: HookEntry, event: str, output: str) -> HookResult:
    """Read the output of a hook that went well."""
    return _read(hook, event, read_printed(output), plain=output)


def _read(
    hook: HookEntry, event: str, printed: Printed, *, plain: str, errors: str = "", cut: bool = False
) -> HookResult:
    """Read a hook's output: its answers, a no that cannot be understood, or plain text."""
    if printed.answers or _is_attempt(event, printed):
        return _answered(hook, event, printed, cut=cut)
    text = plain.strip()
    if event in PLAIN_CONTEXT and text:
        return HookResult(context=(capped(text),))
    if event not in GUARDED:
        return NO_HOOK_RESULT
    if not text and (elsewhere := read_printed(errors)).answers:
        return only_no(_answered(hook, event, elsewhere))
    if text and text not in _JSON_WITHOUT_WORDS:
        too_long = f" (more than the {MAX_BYTES:,} bytes that are read)" if cut else ""
        what = f"wrote text{too_long} that is no answer in JSON and decides nothing (exit code 2 says no)"
        return HookResult(problems=(f"{_sentence(hook, event, what)}. ({hook.source})",))
    return NO_HOOK_RESULT


def _is_attempt(event: str, printed: Printed) -> bool:
    """Return whether something that cannot be read was meant as an answer; between lines of context much begins so."""
    if printed.answers:  # the answer was found, and what else begins so is a log
        return printed.attempt == "answer"
    return printed.attempt in (("whole", "answer") if event in PLAIN_CONTEXT else ("line", "whole", "answer"))


def _answered(hook: HookEntry, event: str, printed: Printed, *, cut: bool = False) -> HookResult:
    results = [read_answer(event, answer, f"The hook `{short(hook.name)}`") for answer in printed.answers]
    if _is_attempt(event, printed):
        results.append(unread_output(hook, event, printed.rest, cut=cut))
    elif printed.rest and event in PLAIN_CONTEXT:
        results.append(HookResult(context=(capped(printed.rest),)))
    return merged(results)


def unread_output(hook: HookEntry, event: str, output: str, *, cut: bool = False) -> HookResult:
    """Build the result of what was meant as an answer and cannot be read: a no of a guard, a failure of any other hook."""
    too_long = f" (it wrote too much: {MAX_BYTES:,} bytes are read)" if cut else ""
    what = f"wrote what looks like an answer and cannot be read{too_long}: {short(output)}"
    if event not in GUARDED:
        return failed(hook, event, what)
    return unread(event, f"{_sentence(hook, event, what)}. ({hook.source})")


def failed(hook: HookEntry, event: str, what: str) -> HookResult:
    """Build the result of a hook that failed: nothing but a notice, or a no, when it says so itself."""
    sentence = _sentence(hook, event, what)
    if hook.blocks_on_failure:
        return blocked(event, f"{sentence}. Its `onFailure` is `block`.")
    return HookResult(problems=(f"{sentence}. The run continues without it ({hook.source}).",))


def _sentence(hook: HookEntry, event: str, what: str) -> str:
    return f"The hook `{short(hook.name)}` ({event}) {what}"


def short(name: str) -> str:
    """A command in one line."""
    line = " ".join(name.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


def _refused(event: str, result: HookResult, complaint: str) -> HookResult:
    """Exit code 2 means no whatever the JSON says; the reason is the JSON's if that says no too."""
    if result.behavior == "deny" or result.block:
        return result
    no = blocked(event, complaint)
    if event in REFUSABLE:
        return replace(result, behavior=no.behavior, block=no.block, reason=no.reason, updated_input=None)
    return replace(result, behavior="", messages=(*result.messages, *no.messages))


def _arguments(hook: CommandHook, environ: Mapping[str, str], environment: HookEnvironment) -> Sequence[str]:
    if hook.args is not None:
        variables = {_PROJECT: str(environment.project), **dict(hook.variables)}
        return [put_in(part, variables) for part in (hook.command, *hook.args)]
    name = "pwsh" if hook.powershell else "bash"
    shell = shutil.which(name, path=environ.get("PATH"))
    if shell is None:
        raise FileNotFoundError(f"there is no {name} here")
    if hook.powershell:
        return [shell, "-NoProfile", "-NonInteractive", "-Command", hook.command]
    return [shell, "--noprofile", "--norc", "-c", hook.command]


def _environment(fields: Mapping[str, Any], environment: HookEnvironment) -> dict[str, str]:
    environ = {name: value for name, value in environment.environ.items() if not name.startswith("OTEL_")}
    levels = {name: value.get("level") for name, value in fields.items() if isinstance(value, Mapping)}
    chosen = {name: value for name, value in environment_of(levels).items() if value}
    return {**child_environment(environ), _PROJECT: str(environment.project), **chosen}
