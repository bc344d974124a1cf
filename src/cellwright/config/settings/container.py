"""`sandbox.container`: the container that commands run in, by an image's name, a Dockerfile or a devcontainer.json.

What the setting cannot say for certain says nothing: then no command runs, rather than one without a container.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.calls.approval import Container
from cellwright.permissions.sandboxing import ContainerSetting
from cellwright.text import lazy_pattern

PROGRAMS = ("podman", "docker", "bubblewrap")
_MADE_OF = ("image", "dockerfile", "devcontainer", "files")
_MOST_BYTES = 256 * 1024

_IMAGE = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,254}")
_MEMORY = lazy_pattern(r"[1-9][0-9]{0,15}[bkmgBKMG]?")
_VARIABLE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_USER = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")
_COMMENTS = lazy_pattern(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMAS = lazy_pattern(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[}\]])')
_PLACEHOLDER = lazy_pattern(r"\$\{(\w+)(?::[^}]*)?\}")

_DEVCONTAINERS = frozenset(
    {"name", "image", "build", "dockerFile", "context", "workspaceFolder", "containerEnv", "remoteEnv", "containerUser"}
    | {"remoteUser", "postCreateCommand", "customizations", "$schema", "updateRemoteUserUID"}
)
"""The keys of a devcontainer.json that are used or do not matter to commands. None that runs on this machine is used."""


class _Wrong(Exception):
    pass


def container(value: Any) -> str:
    """Check the form of the setting; what its files say is read when it is used. False: no container."""
    if value is False or (isinstance(value, str) and _IMAGE.fullmatch(value)):
        return ""
    if not isinstance(value, dict):
        return 'the name of an image, false, or an object with "image", "dockerfile", "devcontainer" or "files"'
    checks: Mapping[str, Any] = {
        **dict.fromkeys(("dockerfile", "context", "devcontainer", "files"), lambda each: _is_text(each)),
        "image": lambda each: _is_text(each) and _IMAGE.fullmatch(each),
        "program": lambda each: each in PROGRAMS,
        "network": lambda each: isinstance(each, bool),
        "keep": lambda each: isinstance(each, bool),
        "memory": lambda each: _is_text(each) and _MEMORY.fullmatch(each),
        "cpus": lambda each: _is_number(each) and 0 < each <= 1024,
        "processes": lambda each: _is_number(each) and each == int(each) and 1 <= each <= 1_000_000,
        "env": lambda each: isinstance(each, dict) and all(_is_variable(*pair) for pair in each.items()),
        "user": lambda each: _is_text(each) and _USER.fullmatch(each),
        "workspaceFolder": lambda each: _is_text(each) and each.startswith("/"),
        "postCreateCommand": lambda each: _is_text(each) or _is_texts(each),
        "agents": lambda each: each in ("shared", "own"),
        "buildArgs": lambda each: isinstance(each, dict) and all(_is_variable(*pair) for pair in each.items()),
    }
    for name, each in value.items():
        if name not in checks:
            return f"an object without {name!r}; it knows {', '.join(checks)}"
        if not checks[name](each):
            return f"an object with another {name!r} than {json.dumps(each)[:80]}"
    named = [name for name in _MADE_OF if name in value]
    if len(named) != 1:
        return f"an object with one of {', '.join(_MADE_OF)}"
    return ""


def container_setting(value: Any, project: Path, base: Path) -> ContainerSetting:
    """Read the setting for `project`; relative paths start at `base`. Never raises: what is wrong is its `problem`."""
    if value is False:
        return ContainerSetting()
    if expected := container(value):
        return ContainerSetting(problem=f"it has to be {expected}")
    said = {"image": value} if isinstance(value, str) else dict(value)
    notices: list[str] = []
    try:
        made = _made_of(said, project, base, notices)
    except _Wrong as error:
        return ContainerSetting(problem=str(error), notices=tuple(notices))
    return ContainerSetting(made, notices=tuple(notices))


def named_in(value: Any, project: Path, base: Path) -> Iterator[str]:
    """The files that the setting is read from, and the commands in them, as a shell's words: trust is bound to them."""
    if not isinstance(value, dict):
        return
    for name in ("dockerfile", "devcontainer"):
        if _is_text(value.get(name)):
            yield shlex.quote(str(_path(value[name], base)))
    made = container_setting(value, project, base).container
    if made is not None:
        if made.dockerfile:
            yield shlex.quote(made.dockerfile)
        yield from (" ".join(command) for command in made.after_making)


def brings_files_of(value: Any, project: Path, base: Path) -> bool:
    """Return whether a file of the project says what the container is."""
    if not isinstance(value, dict):
        return False
    paths = (_path(value[name], base) for name in _MADE_OF[1:] if _is_text(value.get(name)))
    real = os.path.realpath(project)
    return any(os.path.realpath(path).startswith(real.rstrip("/") + "/") for path in paths)


def _made_of(said: Mapping[str, Any], project: Path, base: Path, notices: list[str]) -> Container:
    top = os.path.realpath(project)
    values: dict[str, Any] = {}
    if "devcontainer" in said:
        values = _devcontainer(_path(said["devcontainer"], base), Path(top), notices)
    if "files" in said:
        values["files"] = str(_path(said["files"], base))
    if "dockerfile" in said:
        dockerfile = _path(said["dockerfile"], base)
        values["dockerfile"] = str(dockerfile)
        values["context"] = str(_path(said["context"], base) if "context" in said else dockerfile.parent)
    read: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
        "buildArgs": ("build_arguments", lambda each: tuple(sorted(each.items()))),
        "env": ("variables", lambda each: tuple(sorted({**dict(values.get("variables", ())), **each}.items()))),
        "postCreateCommand": ("after_making", _commands),
        "workspaceFolder": ("workspace", str),
        "cpus": ("cpus", lambda each: f"{each:g}"),
        "processes": ("processes", int),
        "agents": ("own_for_agents", lambda each: each == "own"),
        **{name: (name, lambda each: each) for name in ("image", "program", "user", "network", "keep", "memory")},
    }
    for name, (field, reading) in read.items():
        if name in said:
            values[field] = reading(said[name])
    if values.get("program") == "bubblewrap" and "files" not in values:
        raise _Wrong('bubblewrap shows the files of an unpacked image: say where they are ("files")')
    return Container(project=top, **values)


def _devcontainer(file: Path, project: Path, notices: list[str]) -> dict[str, Any]:
    if file.is_dir():
        file /= "devcontainer.json"
    said = _read(file)
    if unused := sorted(set(said) - _DEVCONTAINERS):
        notices.append(f"{file}: {', '.join(unused)} not used here.")
    filled = _filling(project, _text_of(said, "workspaceFolder", file))
    values = _image_of(said, file, filled)
    if workspace := _text_of(said, "workspaceFolder", file):
        values["workspace"] = filled(workspace)
    variables: dict[str, str] = {}
    for name in ("containerEnv", "remoteEnv"):
        given = said.get(name, {})
        if not isinstance(given, dict):
            raise _Wrong(f"{file}: `{name}` is not an object")
        variables |= {key: filled(each) for key, each in given.items() if _is_variable(key, each)}
    values["variables"] = tuple(sorted(variables.items()))
    if user := _text_of(said, "remoteUser", file) or _text_of(said, "containerUser", file):
        if not _USER.fullmatch(user):
            raise _Wrong(f"{file}: {user!r} is not a user")
        values["user"] = user
    if "postCreateCommand" in said:
        commands = _commands(said["postCreateCommand"])
        values["after_making"] = tuple(tuple(map(filled, command)) for command in commands)
    return values


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES + 1).decode("utf-8")
        if len(text) > _MOST_BYTES:
            raise _Wrong(f"{file} is larger than {_MOST_BYTES // 1024} KiB")
        said = json.loads(_COMMAS.sub(r"\1", _COMMENTS.sub(r"\1", text)))
    except (OSError, ValueError, RecursionError) as error:
        raise _Wrong(f"{file} cannot be read: {error}") from None
    if not isinstance(said, dict):
        raise _Wrong(f"{file} is not an object")
    if "dockerComposeFile" in said:
        raise _Wrong(f"{file} is for several containers (`dockerComposeFile`), and commands run in one")
    return said


def _filling(project: Path, workspace: str) -> Callable[[str], str]:
    """Return what puts in the place of `${localWorkspaceFolder}` and its like what they stand for."""
    known = {"localWorkspaceFolder": str(project), "localWorkspaceFolderBasename": project.name}

    def filled(text: str) -> str:
        # a variable of this machine may be a secret
        return _PLACEHOLDER.sub(lambda found: known.get(found[1], ""), text)

    inside = filled(workspace) or str(project)
    known |= {"containerWorkspaceFolder": inside, "containerWorkspaceFolderBasename": Path(inside).name}
    return filled


def _image_of(said: Mapping[str, Any], file: Path, filled: Callable[[str], str]) -> dict[str, Any]:
    build = said.get("build", {})
    if not isinstance(build, dict):
        raise _Wrong(f"{file}: `build` is not an object")
    dockerfile = build.get("dockerfile", build.get("dockerFile", said.get("dockerFile")))
    if isinstance(dockerfile, str):
        context = build.get("context", said.get("context", "."))
        arguments = build.get("args", {})
        if not isinstance(arguments, dict) or not all(_is_variable(*pair) for pair in arguments.items()):
            raise _Wrong(f"{file}: `build.args` is not an object of texts")
        return {
            "dockerfile": str(_path(filled(dockerfile), file.parent)),
            "context": str(_path(filled(str(context)), file.parent)),
            "build_arguments": tuple(sorted((name, filled(each)) for name, each in arguments.items())),
        }
    image = _text_of(said, "image", file)
    if not image:
        raise _Wrong(f"{file} names no `image` and no `build.dockerfile`")
    if not _IMAGE.fullmatch(image):
        raise _Wrong(f"{file}: {image!r} is not the name of an image")
    return {"image": image}


def _commands(said: Any) -> tuple[tuple[str, ...], ...]:
    """The commands of a `postCreateCommand`: a line for a shell, the words of a program, or several of these by name."""
    if _is_text(said):
        return (("/bin/sh", "-c", said),)
    if _is_texts(said):
        return (tuple(said),)
    if isinstance(said, dict):
        return tuple(command for each in said.values() for command in _commands(each))
    raise _Wrong("`postCreateCommand` is neither a text nor a list of texts")


def _text_of(said: Mapping[str, Any], name: str, file: Path) -> str:
    found = said.get(name, "")
    if not isinstance(found, str):
        raise _Wrong(f"{file}: `{name}` is not a text")
    return found


def _path(text: str, base: Path) -> Path:
    return Path(os.path.normpath(base / Path(text).expanduser()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_variable(name: Any, value: Any) -> bool:
    return isinstance(name, str) and bool(_VARIABLE.fullmatch(name)) and isinstance(value, str) and "\0" not in value
