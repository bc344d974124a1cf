"""The judgement of what a folder configures: each thing counts at once, after the user trusts the folder, or never.

A folder can restrict at once (deny and ask rules, a stricter mode). Anything that gives it rights or runs something
(hooks, `env`, allow rules, directories, `.claude/tools`) waits until the user trusts it; anything that says where the
conversation goes and who gives the key (`ANTHROPIC_BASE_URL`, proxies, `apiKeyHelper`, …) is confirmed besides, by
itself. Trust is bound to what the folder configured when it was given: anything new or changed waits again.
docs/decisions/trust.md has the reasons.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.front_matter import read_front_matter
from cellwright.config.settings.known_settings import KEYS, Key
from cellwright.config.settings.layers import SettingsEntry
from cellwright.config.settings.settings_files import SettingsSources, home_folder
from cellwright.config.trust.repository import main_checkout
from cellwright.config.trust.trust_store import FolderTrust, folder_trust, remember_folder
from cellwright.errors import CellwrightError
from cellwright.permissions.modes import MODES, parse_mode
from cellwright.text import lazy_pattern

Gate = Literal["open", "trust", "confirm", "never"]

_REDIRECTS = lazy_pattern(
    r"""
    (ANTHROPIC|CLAUDE|CELLWRIGHT|AWS|GOOGLE|GCLOUD|CLOUD_ML|VERTEX|AZURE|OTEL|NODE|NPM|PYTHON|LD|DYLD|PERL5?|RUBY|JAVA
     |JDK|GIT|SSH|BASH|SSL|CURL|REQUESTS|JUPYTER|JPY|IPYTHON|PIP|UV|CONDA|XDG|GNUPG|KUBE|DOCKER|CARGO|RUST|GO|MAKE|LESS)
    (_.*|[A-Z]*)
    | .*(PROXY|URLS?|_ENDPOINT|_HOSTS?|_SERVER|_REGISTRY|_MIRROR|_INDEX|_CA_BUNDLE|_CERTS?|_CERT_FILE|_CERT_DIR|_SOCK)
    | .*(PATH|HOME|RC|FLAGS|_OPTIONS|OPTS?|_WRAPPER|_ASKPASS|_COMMAND|KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)
    | SHELL | ENV | EDITOR | VISUAL | PAGER | BROWSER | TMPDIR | TEMP | TMP | IFS | PS4 | IS_SANDBOX | VIRTUAL_ENV
    | ZDOTDIR | COMSPEC | PATHEXT | SYSTEMROOT | WINDIR | HOSTALIASES | LOCALDOMAIN
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Variables that say where requests go, whose certificates count, whose key is used, or what programs run or load."""

_GIVES_RIGHTS = frozenset({"allowed-tools", "allowed_tools", "hooks"})
_BRINGS_ALONG = frozenset({"hooks", "mcpServers"})
_SKILL_RIGHTS = "rules or hooks that hold while the skill is at work"
_AGENT_RIGHTS = "hooks or servers of an agent"
_LONGEST_LINE = 300
_LARGEST_STATE = 64_000_000


class Item(Struct, frozen=True):
    """One thing that a folder configures. `id` changes when it does; `entry` is None for what is in no settings file.

    `once`: what it says may change without a new question, since it gives no rights.
    """

    id: str
    text: str
    gate: Gate
    entry: SettingsEntry | None = None
    file: Path | None = None
    once: bool = False


class Trust(Struct, frozen=True, kw_only=True):
    """The judgement of a folder. `withheld` are ids of entries; `waiting` is what the user could still let count.

    `trusted`: the user said so before, so that what is `waiting` is new or changed since. `refused`: the administrator has
    no folder trusted but those that are listed, so that nothing waits. `outside` are the files from
    elsewhere that the folder's instructions to Claude may bring along, `skill_rights` those of its skills whose rules and
    hooks hold, `agent_rights` those of its agents whose hooks do.
    """

    folder: Path
    trusted: bool = False
    refused: bool = False
    withheld: frozenset[str] = frozenset()
    waiting: tuple[Item, ...] = ()
    tool_files: tuple[tuple[Path, bytes], ...] = ()
    outside: frozenset[Path] = frozenset()
    skill_rights: frozenset[Path] = frozenset()
    agent_rights: frozenset[Path] = frozenset()
    notices: tuple[str, ...] = ()


def gate_of(entry: SettingsEntry) -> Gate:
    """Return the gate that an entry has to wait for."""
    layer = entry.layer
    key = _key_of(entry)
    if key is not None and key.folder == "managed":
        return "open" if layer.scope == "managed" else "never"
    if not layer.of_folder:
        return "open"
    if key is None:
        return "trust"
    if entry.path == ("permissions", "defaultMode"):
        return "open" if layer.foreign else "trust"  # how far it counts is judged against the mode below it
    if key.folder == "own":
        return "never" if layer.foreign else "trust"
    if key.path == ("env",):
        return "confirm" if _REDIRECTS.fullmatch(entry.path[-1]) else "trust"
    return {"tightens": "open", "confirm": "confirm"}.get(key.folder, "trust")  # type: ignore[return-value]


def tightens(entry: SettingsEntry) -> bool:
    """Return whether an entry can only restrict, so that it counts wherever it comes from."""
    key = _key_of(entry)
    return key is not None and key.folder == "tightens"


def _key_of(entry: SettingsEntry) -> Key | None:
    return KEYS.get(entry.path) or KEYS.get(entry.path[:-1])


def judge(reading: SettingsSources, environ: Mapping[str, str], *, for_now: frozenset[str] | None = None) -> Trust:
    """Judge what counts of the folder that `reading` is of, by what the user has answered so far.

    `for_now` are the ids of what the user trusts besides without that being kept; None: nothing. The administrator's word
    goes before both.
    """
    folder = main_checkout(reading.project)
    items = _items(reading)
    listed, refused = _administrators_word(reading, folder)
    trust = folder_trust(folder)
    if refused:
        trust = FolderTrust(rules=trust.rules if trust is not None else frozenset())
    elif listed:
        trust = _trusting(trust or FolderTrust(), items)
    elif for_now is not None:
        trust = _trusting(trust or FolderTrust(), [item for item in items if item.id in for_now])
    elif (trust is None or not trust.trusted) and items and trusted_by_claude_code(folder, environ):
        trust = _adopted(folder, items)
    trust = trust or FolderTrust()
    waiting = tuple(item for item in items if not _counts(item, trust))
    kept_out = {item.entry.id for item in waiting if item.entry is not None}
    kept_out |= {entry.id for entry in reading.entries if _never_counts(entry, trust)}
    files = {item.file for item in waiting}
    notices = list(_notices(reading.entries))
    if refused and waiting:
        notices.append(refusal_text(folder))
    return Trust(
        folder=folder,
        trusted=trust.trusted,
        refused=refused,
        withheld=frozenset(kept_out),
        waiting=() if refused else waiting,
        tool_files=tuple((file, content) for file, content in reading.tool_files if file not in files),
        outside=frozenset(file for file in reading.outside if trust.trusted and file not in files),
        skill_rights=frozenset(file for file, _ in reading.skill_files if trust.trusted and file not in files),
        agent_rights=frozenset(file for file, _ in reading.agent_files if trust.trusted and file not in files),
        notices=tuple(notices),
    )


def trusted_as_it_is(reading: SettingsSources) -> frozenset[str]:
    """The ids of what the folder brings along now and trust would let count."""
    return frozenset(item.id for item in _items(reading) if item.gate == "trust")


def refusal_text(folder: Path) -> str:
    """Say that the administrator has this folder not trusted."""
    return (
        f"What {folder} brings along does not count: the administrator's settings let no folder be trusted but those in "
        "`cellwright.trustedFolders`."
    )


def _administrators_word(reading: SettingsSources, folder: Path) -> tuple[bool, bool]:
    """Return whether the administrator trusts `folder`, and whether nobody else may."""
    managed = [entry for entry in reading.entries if entry.layer.scope == "managed"]
    patterns = [entry.value for entry in managed if entry.path == ("cellwright", "trustedFolders") and entry.element]
    listed = any(_lies_in(folder, pattern) for pattern in patterns)
    refuses = any(entry.path == ("cellwright", "folderTrust") and entry.value == "never" for entry in managed)
    return listed, refuses and not listed


def _lies_in(folder: Path, pattern: str) -> bool:
    """Return whether `folder` is the one that `pattern` names, or with `*` one of those; both as they really are."""
    real, expected = folder.resolve(), Path(pattern).expanduser()
    if "*" not in pattern:
        return real == expected.resolve()
    # `*` stands for one folder: fnmatch's would reach into all below
    parts = expected.parts
    return len(parts) == len(real.parts) and all(map(fnmatch.fnmatchcase, real.parts, parts))


def _trusting(trust: FolderTrust, items: Sequence[Item]) -> FolderTrust:
    accepted = frozenset(item.id for item in items if item.gate == "trust")
    return replace(trust, trusted=True, accepted=trust.accepted | accepted)


def accept(trust: Trust, items: Iterable[Item]) -> None:
    """The user said yes to `items` of the folder. Raises CellwrightError FILE_ACCESS_ERROR."""
    items = tuple(items)
    accepted = {item.id for item in items if item.gate == "trust"}
    confirmed = {item.id for item in items if item.gate == "confirm"}

    def change(trust: FolderTrust) -> FolderTrust:
        return replace(
            trust,
            trusted=trust.trusted or bool(accepted),
            accepted=trust.accepted | accepted,
            confirmed=trust.confirmed | confirmed,
        )

    remember_folder(trust.folder, change)


def revoke(folder: Path) -> None:
    """The user trusts the folder no more; rules allowed in questions stay. Raises CellwrightError FILE_ACCESS_ERROR."""
    remember_folder(folder, lambda trust: FolderTrust(rules=trust.rules))


def remember_rules(project: Path, rules: Sequence[str]) -> None:
    """The user allowed `rules` for ever in a question about a call. Raises CellwrightError FILE_ACCESS_ERROR."""
    remember_folder(main_checkout(project), lambda known: replace(known, rules=known.rules | set(rules)))


def trusted_by_claude_code(folder: Path, environ: Mapping[str, str]) -> bool:
    """Return whether Claude Code trusts `folder`: `projects[folder].hasTrustDialogAccepted` of `.claude.json`."""
    configured = environ.get("CLAUDE_CONFIG_DIR")
    file = (Path(configured) if configured else home_folder(environ)) / ".claude.json"
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST_STATE:
            return False
        projects = json.loads(file.read_bytes()).get("projects")
        found = [projects.get(key) for key in {str(folder), str(folder.resolve())}]
    except (OSError, ValueError, RecursionError, AttributeError):  # not there, or not as Claude Code writes it
        return False
    return any(isinstance(each, dict) and each.get("hasTrustDialogAccepted") is True for each in found)


def _adopted(folder: Path, items: Sequence[Item]) -> FolderTrust:
    """Claude Code's trust is bound to nothing; from now on it is to what the folder configures today."""
    try:
        remember_folder(folder, lambda trust: _trusting(trust, items))
    except CellwrightError:  # a folder that cannot be written: the user's word in Claude Code counts all the same
        return _trusting(FolderTrust(), items)
    return folder_trust(folder) or _trusting(FolderTrust(), items)


def _counts(item: Item, trust: FolderTrust) -> bool:
    if item.gate == "confirm":
        return item.id in trust.confirmed
    if item.once:
        return trust.trusted
    entry = item.entry
    if entry is not None and entry.path == ("permissions", "allow") and not entry.layer.foreign:
        # the user's own file, where Claude Code and we save what the user allows
        return trust.trusted or entry.value in trust.rules
    return trust.trusted and item.id in trust.accepted


def _never_counts(entry: SettingsEntry, trust: FolderTrust) -> bool:
    gate = gate_of(entry)
    return gate == "never" or (gate == "trust" and not trust.trusted and not _asks(entry))


def _items(reading: SettingsSources) -> tuple[Item, ...]:
    found = [
        Item(_digest([_file_name(entry), entry.path, entry.value]), describe(entry), gate, entry)
        for entry in reading.entries
        if (gate := gate_of(entry)) in ("trust", "confirm") and _asks(entry)
    ]
    for file, content in reading.tool_files:
        lines = content.count(b"\n") + 1
        text = f"tools of its own: {file.relative_to(reading.project)} ({lines} lines of Python)"
        found.append(Item(_digest([file.name, hashlib.sha256(content).hexdigest()]), text, "trust", file=file))
    for file in reading.instructions:
        name = str(file.relative_to(reading.project))
        text = f"instructions to Claude: {name}"
        found.append(Item(_digest(["instructions", name]), text, "trust", file=file, once=True))
    for kind, called, files, rights, given in (
        ("skills", "skills and commands", reading.skill_files, _GIVES_RIGHTS, _SKILL_RIGHTS),
        ("agents", "agents", reading.agent_files, _BRINGS_ALONG, _AGENT_RIGHTS),
    ):
        names = [str(file.relative_to(reading.project)) for file, _ in files]
        if names:
            found.append(Item(_digest([kind]), f"{called}: {', '.join(names)}", "trust", once=True))
        for name, (file, content) in zip(names, files, strict=True):
            if _has_key(content, rights):
                digest = _digest([name, hashlib.sha256(content).hexdigest()])
                found.append(Item(digest, f"{given}: {name}", "trust", file=file))
    if styles := [str(file.relative_to(reading.project)) for file in reading.style_files]:
        found.append(Item(_digest(["output styles"]), f"output styles: {', '.join(styles)}", "trust", once=True))
    for file in reading.outside:
        text = f"instructions to Claude from outside the folder: {file}"
        found.append(Item(_digest(["outside", str(file)]), text, "trust", file=file))
    return tuple(found)


@functools.lru_cache(maxsize=1_000)
def _has_key(content: bytes, keys: frozenset[str]) -> bool:
    """Return whether a file's front matter has one of `keys`, however it is spelled there: YAML has escapes."""
    if b"\\" not in content and not any(key.encode() in content for key in keys):
        return False
    return not keys.isdisjoint(read_front_matter(content.decode("utf-8", "replace")).values)


def _asks(entry: SettingsEntry) -> bool:
    """Return whether it is worth a question: something we use, that gives more than there was."""
    if not entry.layer.of_folder or _key_of(entry) is None or (entry.value == [] and not entry.element):
        return False
    if entry.path != ("permissions", "defaultMode"):
        return True
    try:
        mode, _ = parse_mode(entry.value)
    except (CellwrightError, TypeError):  # it is told of where the mode is read
        return False
    return not entry.layer.foreign and MODES.index(mode) > MODES.index("default") and mode != "bypassPermissions"


def _file_name(entry: SettingsEntry) -> str:
    file = entry.layer.file
    return "" if file is None else file.name


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def describe(entry: SettingsEntry) -> str:
    """An entry as a question lists it, in one line."""
    name, value = entry.path[-1], entry.value
    match entry.path:
        case ("hooks", event):
            matcher = f" ({value['matcher']})" if value.get("matcher") else ""
            described = f"hook {event}{matcher}: {'; '.join(_handler(handler) for handler in value['hooks'])}"
        case ("env", _):
            shown = f" = {value}" if gate_of(entry) == "confirm" and not _is_secret(name) else ""
            described = f"environment variable {name}{shown}"
        case ("permissions", "allow"):
            described = f"allow rule {value}"
        case ("permissions", "deny" | "ask"):
            described = f"{name} rule {value}"
        case ("permissions", "additionalDirectories"):
            described = f"folder to read and to write in: {value}"
        case ("permissions", "defaultMode"):
            described = f"permission mode {value}"
        case ("apiKeyHelper",):
            described = f"command that gives the API key: {value}"
        case _:
            described = f"setting {entry.key} = {json.dumps(value)}"
    return (
        described
        if len(described) <= _LONGEST_LINE
        else f"{described[:_LONGEST_LINE]}… ({len(described):,} characters)"
    )


def _handler(handler: Any) -> str:
    if not isinstance(handler, dict):
        return json.dumps(handler)
    shown = next((handler[key] for key in ("command", "url", "prompt", "tool") if key in handler), handler)
    arguments = handler.get("args")
    words = [str(shown), *(map(str, arguments) if isinstance(arguments, list) else ())]
    return " ".join(words) if isinstance(shown, str) else json.dumps(shown)


def _is_secret(name: str) -> bool:
    from cellwright.redaction.secret_names import is_secret  # its module is not needed where nothing is asked

    return is_secret(name) and not name.upper().endswith(("_URL", "_PROXY", "_ENDPOINT", "_DIR", "_FILE"))


def _notices(entries: Iterable[SettingsEntry]) -> Iterable[str]:
    for entry in entries:
        if gate_of(entry) == "never":
            who = "the administrator's settings" if _only_managed(entry) else "~/.claude/settings.json"
            yield f"{entry.layer.label}: `{entry.key}` counts for nothing there; only {who} can set it."


def _only_managed(entry: SettingsEntry) -> bool:
    key = _key_of(entry)
    return key is not None and key.folder == "managed"
