"""Paths that Windows reads otherwise than they are written, or that cannot be looked at without telling another machine."""

from __future__ import annotations

import ntpath

from cellwright.text import lazy_pattern

_DEVICE = lazy_pattern(r"(?i)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?")
_SHORT_NAME = lazy_pattern(r"~\d")


def why_refused(path: str, cwd: str) -> str:
    """Return what is wrong with `path`, as the end of a sentence that begins with it; "" if it names one plain place.

    What is in `cwd` is as that is: a folder of a network drive may be the project. Nothing is looked up.
    """
    path, cwd = (text.replace("/", "\\") for text in (path, cwd))
    if path.startswith(("\\\\?\\", "\\\\.\\", "\\??\\")):
        return "is a device's, or goes past the way in which Windows reads paths: write it with its drive"
    drive, rest = ntpath.splitdrive(path)
    if drive.startswith("\\\\") or path.startswith("\\\\"):
        if not drive or drive.casefold() != ntpath.splitdrive(cwd)[0].casefold():
            return "is on another machine, which would learn your name by being asked for it"
    elif drive and not rest.startswith("\\"):
        return "has a drive without the folder on it: write it in full"
    inside = path.casefold().startswith(cwd.casefold().rstrip("\\") + "\\")
    for name in (path[len(cwd.rstrip("\\")) :] if inside else rest).split("\\"):
        if name not in ("", ".", "..") and (why := _why_no_name(name)):
            return why
    return ""


def _why_no_name(name: str) -> str:
    if ":" in name:
        return "names a stream inside a file"
    if name[-1] in ". ":
        return "has a name that ends with a dot or a space, which Windows leaves out: write it without"
    if _DEVICE.fullmatch(name):
        return f"has the name of a device ({name})"
    if _SHORT_NAME.search(name):
        return f"has a short name ({name}): write it in full"
    return ""


def without_prefix(target: str) -> str:
    r"""The target of a link as people write it: Windows says `\\?\C:\folder` and `\\?\UNC\server\share`."""
    if target.startswith("\\\\?\\UNC\\"):
        return "\\\\" + target[8:]
    return target[4:] if target.startswith("\\\\?\\") and target[5:6] == ":" else target
