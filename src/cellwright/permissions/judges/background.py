"""Changes that run beside later commands: in the background, where what they move decides what those commands' names mean.

Each call is judged by what its names lead to at that moment. Within one command `link_stability.py` sees what is moved
beside them; what runs on when the command has ended is seen by no later call, so such changes need the user's approval.
Within a sandbox's bounds they do not: those hold for every name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cellwright.permissions.judges.shell_call import ShellCall, taken_apart
from cellwright.permissions.judges.simple_command import CommandFacts, writes_files
from cellwright.permissions.shell.conservative_parse import PossibleCommand
from cellwright.text import lazy_pattern

_CHANGERS = frozenset(
    {"bsdtar", "chattr", "cp", "cpio", "dd", "git", "install", "ln", "mkdir", "mkfifo", "mknod", "mount", "mv", "patch"}
    | {"rename", "rm", "rmdir", "rsync", "scp", "sed", "shred", "tar", "tee", "touch", "truncate", "umount", "unlink"}
    | {"unzip", "zip", "7z", "7za", "ditto"}
)
"""Programs that make, move or remove files under the names they are given."""
_DETACHERS = frozenset(
    {"at", "batch", "coproc", "daemonize", "disown", "nohup", "screen", "setsid", "start-stop-daemon", "systemd-run"}
    | {"tmux"}
)
"""Programs that let another one run on when the command has ended."""
_AMPERSAND = lazy_pattern(r"(?<![<>&|])&(?![&>])")
_REDIRECTS_TO_FILE = lazy_pattern(r"(?<!<)>+[|&]?\s*(?!&?[\d-]|/dev/null\b)\S")


def changes_in_background(call: ShellCall) -> bool:
    """Return whether something that is known to change files may run on when the command has ended."""
    if not call.analysis.problem:
        return any(_is_detached(part) and _changes(part) for part in call.parts)
    rough = call.rough
    return (_AMPERSAND.search(rough.text) is not None or any(map(_detaches, rough.parts))) and changes_anything(call)


def changes_anything(call: ShellCall) -> bool:
    """Return whether a part of the command is known to change files: all of it is to run in the background."""
    if not call.analysis.problem:
        return any(map(_changes, call.parts))
    return any(map(_may_change, call.rough.parts)) or _REDIRECTS_TO_FILE.search(call.rough.text) is not None


def may_change_later(command: str) -> bool:
    """Return whether a command that has run for a while may still change which files names lead to.

    One that writes to where its output went from the start does not.
    """
    call = taken_apart(command, "/")
    if call.analysis.problem:
        return any(map(_may_change, call.rough.parts))
    return any(map(_names_changed, call.parts)) or any(map(writes_files, call.parts[1:]))


def _changes(part: CommandFacts) -> bool:
    return _names_changed(part) or writes_files(part)


def _names_changed(part: CommandFacts) -> bool:
    return part.changed is not None or any(name in _CHANGERS for name in _programs(part))


def _programs(part: CommandFacts) -> Iterator[str]:
    """Yield what the part may run: its program, and any word of a wrapper that has flags which are not known."""
    if not part.words or part.read is not None:
        return
    yield part.words[0].text.rpartition("/")[2]
    if _is_detached(part):
        yield from (word.text.rpartition("/")[2] for word in part.command.words)


def _is_detached(part: CommandFacts) -> bool:
    return part.command.background or any(word.text.rpartition("/")[2] in _DETACHERS for word in part.command.words[:8])


def _detaches(part: PossibleCommand) -> bool:
    return any(word.rpartition("/")[2] in _DETACHERS for word in part.words)


def _may_change(part: PossibleCommand) -> bool:
    words = part.words if part.runs_another else part.words[:1]
    return any(re.sub(r".*/", "", word).lower() in _CHANGERS for word in words)
