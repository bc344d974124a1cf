"""Judging Python, and cells that are run: such code can do anything the user can, so it asks whatever the code.
In a branch, a copy of the kernel that the system confines, it can do next to nothing, so it does not.

When it is allowed, the uses that the code names plainly are still judged: shell commands (`!cmd`, `%%bash`,
`os.system("…")` …) like Bash's, and files that it reads, edits or deletes. A rule that denies or asks binds `!rm x`
and `os.system("rm x")` as it binds Bash. This is a convenience for rules, never a boundary: it keeps honest code to
them and stops nobody, since code has endless other ways.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct, structs

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.confined.bounds import reading
from cellwright.permissions.judges.bash import judge_command
from cellwright.permissions.judges.files import judge_path
from cellwright.permissions.rules.rule import (
    BASH,
    EDIT,
    PYTHON,
    READ,
    JudgedCall,
    RuleBook,
    allowed_by,
    asked_by,
    denied_by,
    first_of_every_use,
    judge_by_rules,
    text_field,
)
from cellwright.permissions.sandboxing import NO_SANDBOX
from cellwright.permissions.shell.critical_deletes import (
    critical_delete,
    critical_delete_by_code,
    folders_of_code,
)
from cellwright.text import lazy_pattern, visible_line

_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish", "!", "sx", "system"})
_RUN_CODE = frozenset(
    {"capture", "time", "timeit", "prun", "debug", "memit", "mprun", "pypy", "python", "python2", "python3"}
)
_COMMANDS = frozenset(
    {"ls", "ll", "lf", "lk", "ldir", "lx", "cat", "cp", "mv", "rm", "rmdir", "mkdir", "less", "more", "man"}
    | {"pip", "conda", "mamba", "uv"}
)
"""Magics that run the program of their name."""
_CONTINUED = lazy_pattern(r"\\\n")
_TARGETS = r"(?:[\w\s,.*\[\]'\"()]++=\s*+)?"
_BANG = lazy_pattern(rf"^\s*+{_TARGETS}!{{1,2}}(?P<command>.*)$")
_MAGIC = lazy_pattern(rf"^\s*+{_TARGETS}(?P<sign>%{{1,2}}|,|;|/)?(?P<name>[A-Za-z!]\w*)(?P<rest>(?:\s.*)?)$")
_OPTIONS = lazy_pattern(r"^(?:\s*-\w+(?:[= ]\d+)?)*\s*")
_READS = frozenset({"load", "loadpy", "pycat", "pfile"})
_WRITES = frozenset({"writefile", "file", "save", "notebook", "logstart"})
_AUTOMATIC = frozenset({"run", "sx", "system", "sc", "alias"}) | _READS | _COMMANDS
"""Magics that a cell of one line may call without `%`."""
_EXPANDED = lazy_pattern(r"\{[^{}]*\}")


class CodeEffect(Struct, frozen=True):
    """Something the code does: run `text` as a command, or read, edit or delete the file `text`."""

    kind: Literal["command", "read", "edit", "delete"]
    text: str
    expanded: bool = False
    """IPython fills in variables before the shell gets it."""


def uses_in(code: str, depth: int = 0) -> Iterator[CodeEffect]:
    """Yield what `code`, one cell, does by plain words. Never fails."""
    if depth > 5:
        return
    code = _CONTINUED.sub(" ", code.replace("\r\n", "\n"))
    lines = code.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[first].lstrip().startswith("%%"):
        yield from _cell_magic(lines[first].strip()[2:], "\n".join(lines[first + 1 :]), depth)
        return
    python = []
    alone = len(code.strip().split("\n")) == 1
    for line in lines:
        found = list(_line(line, depth, alone=alone))
        yield from found
        is_magic = bool(found) or line.lstrip().startswith(("!", "%"))
        python.append(re.sub(r"\S.*", "pass", line, count=1) if is_magic else line)
    yield from _calls("\n".join(python), code, depth)


def _cell_magic(header: str, body: str, depth: int) -> Iterator[CodeEffect]:
    name, _, arguments = header.partition(" ")
    if name.startswith("!"):
        name, arguments = "!", header[1:]
    if name == "script":
        shell = arguments.split()[:1]
        yield CodeEffect("command", arguments, expanded=True)
        name = shell[0].rpartition("/")[2] if shell else ""
    if name in _SHELLS:
        yield CodeEffect("command", f"{arguments}\n{body}" if name == "!" else body)
    elif name in _WRITES:
        yield from _file("edit", arguments)
    elif name in _RUN_CODE:
        yield from uses_in(body, depth + 1)


def _line(line: str, depth: int, *, alone: bool = False) -> Iterator[CodeEffect]:
    if bang := _BANG.match(line):
        yield _command(bang["command"])
        return
    magic = _MAGIC.match(line)
    if magic is None:
        return
    name, rest = magic["name"], magic["rest"].strip()
    if magic["sign"] is None and (not alone or name not in _AUTOMATIC or rest[:1] in ("", "=", ",")):
        return
    yield from _magic(name, rest, depth)


def _magic(name: str, rest: str, depth: int) -> Iterator[CodeEffect]:
    match name:
        case "sx" | "system":
            yield _command(rest)
        case "sc":
            yield _command(_OPTIONS.sub("", rest))
        case "run":
            yield CodeEffect("command", f"python {_OPTIONS.sub('', rest)}", expanded=True)
        case "alias":
            yield _command(rest.partition(" ")[2])
        case _ if name in _COMMANDS:
            yield _command(f"{name} {rest}")
        case _ if name in _READS:
            yield from _file("read", rest)
        case _ if name in _WRITES:
            yield from _file("edit", rest)
        case _ if name in _RUN_CODE:
            yield from uses_in(_OPTIONS.sub("", rest), depth + 1)


def _command(text: str) -> CodeEffect:
    text = text.strip()
    if "{" in text or "$" in text:
        return CodeEffect("command", _EXPANDED.sub("$_", text), expanded=True)
    return CodeEffect("command", text)


def _file(kind: Literal["read", "edit"], arguments: str) -> Iterator[CodeEffect]:
    for word in arguments.split():
        if not word.startswith("-"):
            yield CodeEffect(kind, word.strip("'\""))
            return


_SHELL_CALLS = frozenset(
    {"system", "system_raw", "system_piped", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}
)
_PROCESS_CALLS = frozenset({"Popen", "check_output", "check_call", "create_subprocess_exec", "run", "call"})
_AMBIGUOUS = frozenset({"run", "call"})
_DELETES = frozenset({"rmtree", "remove", "unlink", "rmdir", "removedirs"})
_LITERAL_CALL = lazy_pattern(
    r"(?:system|popen|Popen|getoutput|getstatusoutput|check_output|check_call|subprocess\.(?:run|call))\(\s*[rRbBfFuU]*"
    r"(?P<quote>'''|\"\"\"|'|\")(?P<text>.*?)(?P=quote)",
    re.DOTALL,
)


def _calls(python: str, code: str, depth: int) -> Iterator[CodeEffect]:
    try:
        tree = ast.parse(python)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        for found in _LITERAL_CALL.finditer(code):
            yield CodeEffect("command", found["text"], expanded=True)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _call(node, depth)


def _call(call: ast.Call, depth: int) -> Iterator[CodeEffect]:
    name, owner = _name_of(call.func)
    texts = [_text(argument) for argument in call.args]
    if name in _DELETES:
        target = texts[0] if texts else _path_of(call.func)
        if target and "$_" not in target:
            yield CodeEffect("delete", target)
    elif name in _SHELL_CALLS and texts and texts[0] is not None:
        yield CodeEffect("command", texts[0], expanded="$_" in texts[0])
    elif name in _PROCESS_CALLS and (name not in _AMBIGUOUS or owner in ("subprocess", "sp")):
        yield from _process(name, call, texts)
    elif name in ("run_line_magic", "run_cell_magic", "magic", "run_cell", "ex"):
        yield from _magic_call(name, texts, depth)


def _process(name: str, call: ast.Call, texts: list[str | None]) -> Iterator[CodeEffect]:
    words = texts
    if name != "create_subprocess_exec":
        command = (
            call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "args"), None)
        )
        if command is None:
            return
        if not isinstance(command, ast.List | ast.Tuple):
            text = _text(command)
            if text is not None:
                yield CodeEffect("command", text, expanded="$_" in text)
            return
        words = [_text(each) for each in command.elts]
    if words and words[0] is not None:
        known = [word if word is None or "$_" in word else shlex.quote(word) for word in words]
        yield CodeEffect("command", " ".join("$_" if word is None else word for word in known), expanded=None in words)


def _magic_call(name: str, texts: list[str | None], depth: int) -> Iterator[CodeEffect]:
    if not texts or any(text is None for text in texts):
        return
    known = [text or "" for text in texts]
    match name:
        case "run_cell" | "ex":
            yield from uses_in(known[0], depth + 1)
        case "run_cell_magic" if len(known) > 2:
            yield from _cell_magic(f"{known[0]} {known[1]}", known[2], depth)
        case "run_line_magic" | "magic":
            yield from _line("%" + " ".join(known).lstrip("%"), depth + 1)


def _name_of(function: ast.expr) -> tuple[str, str]:
    """The last name of what is called, and the name in front of it."""
    if isinstance(function, ast.Attribute):
        return function.attr, function.value.id if isinstance(function.value, ast.Name) else ""
    return (function.id, "subprocess") if isinstance(function, ast.Name) else ("", "")


def _path_of(function: ast.expr) -> str | None:
    """`x` of `Path("x").unlink`."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call) and function.value.args:
        return _text(function.value.args[0])
    return None


def _text(node: ast.expr) -> str | None:
    """The text of a literal, with `$_` for what is filled in when it runs; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join((_text(value) or "$_") for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = _text(left), _text(right)
            return None if one is None and other is None else f"{one if one is not None else '$_'}{other or '$_'}"
        case _:
            return None


# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118


MAX_USES = 30
"""Commands in one cell that are looked at; with more it is asked."""


def judge_python(book: RuleBook, call: JudgedCall) -> Decision:
    """Judge code that would run in the kernel. Its fact "cwd" is the folder of the kernel, where that is known."""
    asks = Decision("ask", "Runs in your kernel, where code can do anything you can; no sandbox confines it.")
    return _judge_code(book, judge_by_rules(book, call.subject, asks), [call.touched], call.input)


def judge_branch(book: RuleBook, call: JudgedCall) -> Decision:
    """Judge code that would run in a copy of the kernel: unasked if the system confines the copy and no rule is against it.

    Its facts: "setting" (of `cellwright.branches`) and "unconfined", why this machine cannot confine the copy ("": it can).
    Without them it asks. What restricts Python restricts it; what allows Python allows it.
    """
    setting, unconfined = text_field(call.input, "setting"), call.input.get("unconfined")
    if setting == "off":
        return Decision("deny", "Branches of the kernel are switched off (`cellwright.branches`).")
    bounds = reading(book) if unconfined == "" else None
    if bounds is None:
        why = f" ({unconfined})" if isinstance(unconfined, str) and unconfined else ""
        reason = f"The copy of your kernel cannot be confined here{why}: the code can do anything you can."
        # a rule for branches means confined ones
        asks = Decision("ask", reason, firm=book.mode != "bypassPermissions")
    elif setting != "on":
        asks = Decision("ask", "Runs in a confined copy of your kernel, and your settings ask before that.")
    elif rule := next((rule for rule in (*book.about("deny", READ), *book.about("ask", READ)) if rule.path), None):
        reason = f"The rule `{rule.rule}` keeps files from Claude, and your variables may hold what is in them."
        asks = Decision("ask", reason)
    else:
        asks = Decision("allow", "Runs in a confined copy of your kernel: no writes, no network, no change for you.")
    judged = judge_by_rules(book, call.subject, asks, in_plan=bounds is not None)
    if judged.behavior == "deny":
        return judged
    if rule := first_of_every_use(book.deny, PYTHON):
        return denied_by(rule, "Running Python, in a branch too,")
    if rule := first_of_every_use(book.ask, PYTHON):
        judged = asked_by(rule, "Running Python, in a branch too,") if judged.behavior == "allow" else judged
    elif not first_of_every_use(book.ask, call.subject) and (rule := first_of_every_use(book.allow, PYTHON)):
        judged = allowed_by(rule)
    return structs.replace(_judge_named_uses(book, judged, call), confinement=bounds)


_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def _judge_named_uses(book: RuleBook, judged: Decision, call: JudgedCall) -> Decision:
    """`judged`, unless a rule says more about a command or file that the code names: the bounds hold it to the rest."""
    for use in dict.fromkeys(_uses(call.touched)[:MAX_USES]) if judged.behavior != "deny" else ():
        decision = _judge_use(book, use, call.input)
        if decision.rule and _STRICTNESS[decision.behavior] > _STRICTNESS[judged.behavior]:
            judged = structs.replace(decision, reason=f"The code has `{visible_line(use.text)}`. {decision.reason}")
    return judged


def judge_cells(book: RuleBook, call: JudgedCall) -> Decision:
    """Judge whether these cells may run. What restricts Python restricts them; what allows it does not allow them.

    The input's fact "codes" are their sources, one text for each; without it nothing is known of them.
    """
    codes = call.input.get("codes")
    known = isinstance(codes, list | tuple) and all(isinstance(code, str) for code in codes)
    if known:
        kernel = "Runs in a kernel, where code can do anything you can; no sandbox confines it."
        asks = Decision("ask", "Runs the cells' code, which needs your approval." if book.sandbox.container else kernel)
    else:
        asks = Decision("ask", "Which code would run is not known.", firm=True)
    judged = judge_by_rules(book, call.subject, asks)
    if judged.behavior != "deny" and (rule := first_of_every_use(book.deny, PYTHON)):
        return denied_by(rule, "Running Python, as cells too,")
    if judged.behavior == "allow" and (rule := first_of_every_use(book.ask, PYTHON)):
        judged = asked_by(rule, "Running Python, as cells too,")
    return _judge_code(book, judged, codes if known and codes else (), call.input)


def _judge_code(book: RuleBook, judged: Decision, codes: Sequence[Any], tool_input: Mapping[str, Any]) -> Decision:
    """`judged`, unless what the code does by plain words is judged stricter."""
    if judged.behavior == "deny":
        return judged
    asked = _critical(book, codes, text_field(tool_input, "cwd") or book.cwd)
    uses = (use for code in codes for use in _uses(code))
    for count, use in enumerate(dict.fromkeys(uses)):
        if count >= MAX_USES:
            asked = asked or Decision("ask", f"The code runs more than {MAX_USES} commands.")
            break
        decision = _judge_use(book, use, tool_input)
        if decision.behavior == "deny":
            return decision.because(f"The code has `{visible_line(use.text)}`. {decision.reason}")
        if decision.behavior == "ask" and (asked is None or (decision.firm and not asked.firm)):
            asked = decision.because(f"The code has `{visible_line(use.text)}`. {decision.reason}")
    return asked if asked and judged.behavior == "allow" else judged


def _critical(book: RuleBook, codes: Sequence[Any], folder: str) -> Decision | None:
    """Find a deletion that no mode and no rule allows unasked: by a call, or by a command in a folder that code names."""
    for code in codes:
        starts = folders_of_code(code, folder)
        target = critical_delete_by_code(code, book.folders, starts)
        for start in starts[1:] if target is None else ():
            commands = [use.text for use in _uses(code) if use.kind == "command"][:MAX_USES]
            targets = (critical_delete(command, (), book.folders, start) for command in commands)
            target = target or next(filter(None, targets), None)
        if target is not None:
            reason = f"The code deletes {visible_line(target)}; no mode and no rule allows that unasked."
            return Decision("ask", reason, firm=True)
    return None


@lru_cache(maxsize=16)  # a question judges the same code several times, with the rules it might offer
def _uses(code: str) -> tuple[CodeEffect, ...]:
    return tuple(uses_in(code))


def _judge_use(book: RuleBook, use: CodeEffect, tool_input: Mapping[str, Any]) -> Decision:
    folder = text_field(tool_input, "cwd") or book.cwd
    match use.kind:
        case "command":
            # the kernel starts it, and nothing confines that
            decision = judge_command(replace(book, sandbox=NO_SANDBOX), {"command": use.text, "cwd": folder})
            if use.expanded and decision.behavior == "allow" and not _allows_all(book):
                return Decision("ask", "Its command is known only when it runs.")
            return decision
        case "delete":
            if target := critical_delete(f"rm -rf {shlex.quote(use.text)}", (), book.folders, folder):
                return Decision("ask", f"It deletes {target}; no mode and no rule allows that unasked.", firm=True)
            return Decision("allow", "It deletes nothing critical.")
        case "read" | "edit":
            path = use.text if use.text.startswith("~") else os.path.join(folder, use.text)
            return judge_path(book, READ if use.kind == "read" else EDIT, path)


def _allows_all(book: RuleBook) -> bool:
    return book.mode == "bypassPermissions" or any(rule.every_use and rule.names(BASH) for rule in book.allow)
