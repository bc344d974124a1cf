"""Options that a plugin asks its user for (`userConfig` in its manifest), and the answers.

Answers stand in the user's settings, as Claude Code keeps them: `pluginConfigs."name@marketplace".options`. Those that the
plugin calls sensitive are in the system's keyring where one works, else in a file for the user alone, never in settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.config.credentials.stored_key import in_keyring, of_keyring, out_of_keyring
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic

CONFIGS = "pluginConfigs"
REFERENCE = "user_config."
"""The text before an option's name in `${user_config.NAME}`."""

_VARIABLE = "CLAUDE_PLUGIN_OPTION_"
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})
_read: dict[tuple[int, int], dict[str, dict[str, str]]] = {}
"""The secrets as they were read, by the state of the file: a keyring may take its time."""


class PluginOption(Struct, frozen=True, kw_only=True):
    """One option that a plugin has; `default` is None where it has none."""

    name: str
    title: str = ""
    description: str = ""
    kind: str = "string"
    sensitive: bool = False
    required: bool = False
    default: str | None = None

    @property
    def words(self) -> str:
        """The option for who is to give it."""
        said = ": ".join(filter(None, (self.title, self.description)))
        return f"{self.name} ({said})" if said else self.name

    def checked(self, text: str) -> str:
        """`text` as this option takes it. Raises CellwrightError INVALID_PARAMETERS."""
        text = text.strip()
        problem = ""
        if "\0" in text or "\n" in text or not text:
            problem = "one line of text"
        elif self.kind == "number":
            try:
                float(text)
            except ValueError:
                problem = "a number"
        elif self.kind == "boolean":
            if text.lower() in _TRUE | _FALSE:
                return "true" if text.lower() in _TRUE else "false"
            problem = "true or false"
        elif self.kind in ("directory", "file"):
            path = Path(text).expanduser()
            if not (path.is_dir() if self.kind == "directory" else path.is_file()):
                problem = f"a {self.kind} that is there"
            text = str(path)
        if problem:
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{self.name} takes {problem}. Nothing was changed.")
        return text


def read_options(given: Any, problems: list[str]) -> tuple[PluginOption, ...]:
    """The options that the manifest's `userConfig` says; what is not understood is told in `problems`."""
    if given is not None and not isinstance(given, Mapping):
        problems.append("`userConfig` is not an object")
        return ()
    options = []
    for name, said in (given or {}).items():
        if not isinstance(said, Mapping) or not name.isidentifier():
            problems.append(f"`userConfig` holds {name[:80]!r}, which is no option")
            continue
        options.append(
            PluginOption(
                name=name,
                title=" ".join(str(said.get("title") or "").split())[:200],
                description=" ".join(str(said.get("description") or "").split())[:500],
                kind=str(said.get("type") or "string"),
                sensitive=said.get("sensitive") is True,
                required=said.get("required") is True,
                default=text_of(said.get("default")),
            )
        )
    return tuple(options)


def text_of(value: Any) -> str | None:
    """The text that stands for an answer as settings hold it; None for none."""
    if isinstance(value, list):
        return ",".join(filter(None, map(text_of, value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def answers_of(plugin_id: str, options: Sequence[PluginOption], configs: Mapping[str, Any]) -> dict[str, str]:
    """The value of each option: the user's answer, else its default; one that has neither is not there.

    `configs` is the setting `pluginConfigs` of the user and the administrator: a project's does not count.
    """
    config = configs.get(plugin_id)
    said = config.get("options") if isinstance(config, Mapping) else None
    said = said if isinstance(said, Mapping) else {}
    secrets = _secrets().get(plugin_id, {}) if any(option.sensitive for option in options) else {}
    answers = {
        option.name: secrets.get(option.name) if option.sensitive else text_of(said.get(option.name))
        for option in options
    }
    return {
        option.name: answer
        for option in options
        if (answer := answers[option.name] if answers[option.name] is not None else option.default) is not None
    }


def as_variables(answers: Mapping[str, str]) -> dict[str, str]:
    """The variables that hooks have of the answers.

    >>> as_variables({"api_key": "k"})
    {'CLAUDE_PLUGIN_OPTION_API_KEY': 'k'}
    """
    return {f"{_VARIABLE}{name.upper()}": answer for name, answer in answers.items()}


def secrets_file() -> Path:
    """The file that says where sensitive answers are, and holds them where no keyring works."""
    return state_folder() / "plugins" / "options.json"


def keep_secret(plugin_id: str, name: str, value: str) -> str:
    """Keep a sensitive answer; gives where: "keyring" or "file". Raises CellwrightError FILE_ACCESS_ERROR."""
    place = "keyring" if in_keyring(_entry(plugin_id, name), value) else "file"
    content = _content()
    content.setdefault(plugin_id, {})[name] = {"place": place, **({"value": value} if place == "file" else {})}
    _write(content)
    return place


def forget_secrets(plugin_id: str) -> None:
    """Forget all sensitive answers for a plugin. Raises CellwrightError FILE_ACCESS_ERROR."""
    content = _content()
    kept = content.pop(plugin_id, None)
    if kept is None:
        return
    for name, about in kept.items():
        if about.get("place") == "keyring":
            out_of_keyring(_entry(plugin_id, name))
    _write(content)


def _entry(plugin_id: str, name: str) -> str:
    return f"plugin:{plugin_id}:{name}"


def _secrets() -> dict[str, dict[str, str]]:
    try:
        facts = secrets_file().stat()
    except OSError:
        return {}
    state = (facts.st_mtime_ns, facts.st_size)
    if state not in _read:
        found = {
            plugin_id: {
                name: of_keyring(_entry(plugin_id, name)) if about.get("place") == "keyring" else about.get("value", "")
                for name, about in kept.items()
            }
            for plugin_id, kept in _content().items()
        }
        _read.clear()
        _read[state] = {key: {name: each for name, each in kept.items() if each} for key, kept in found.items()}
    return _read[state]


def _content() -> dict[str, dict[str, dict[str, str]]]:
    try:
        content = json.loads(secrets_file().read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    kept = content.items() if isinstance(content, dict) else ()
    return {
        key: {name: about for name, about in each.items() if isinstance(about, dict)}
        for key, each in kept
        if isinstance(each, dict)
    }


def _write(content: Mapping[str, Any]) -> None:
    file = secrets_file()
    try:
        make_private_folder(file.parent)
        write_atomic(file, json.dumps(content, indent=1).encode(), PRIVATE_FILE)
    except OSError as error:
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file} could not be written: {error}.") from error
