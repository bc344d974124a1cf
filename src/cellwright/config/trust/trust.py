"""The judgement of what a folder configures: each thing counts at once, after the user trusts the folder, or never.

A folder can restrict at once (deny and ask rules, a stricter mode). Anything that gives it rights or runs something
(hooks, `env`, allow rules, directories, `.claude/tools`) waits until the user trusts it; anything that says where the
conversation goes and who gives the key (`ANTHROPIC_BASE_URL`, proxies, `apiKeyHelper`, …) is confirmed besides, by
itself. Trust is bound to what the folder configured when it was given, and to the files that its command lines name:
anything new or changed waits again. docs/decisions/trust.md has the reasons.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.config.settings.known_settings import KEYS, Key
from cellwright.config.settings.layers import SettingsEntry
from cellwright.config.settings.sandbox import CONTAINER, base_of
from cellwright.config.settings.settings_files import SettingsSources, home_folder
from cellwright.config.skills import SHELL_COMMAND
from cellwright.config.trust.exact_text import block, exact, exact_json
from cellwright.config.trust.project_files import (
    NO_FILES,
    NamedFiles,
    changed,
    main_checkout,
    named_files,
    not_own,
    others_can_write,
)
from cellwright.config.trust.trust_store import FolderTrust, folder_trust, remember_folder, texts
from cellwright.config.user_files import read_front_matter
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
_SKILL_COMMANDS = "commands that run when the skill is called"
_AGENT_RIGHTS = "hooks or servers of an agent"
_ISOLATES = frozenset({"isolation"})
_ISOLATION = "a work tree of its own, which git checks out below .claude/worktrees, for an agent"


class Item(Struct, frozen=True):
    """One thing that a folder configures. `id` changes when it does; `entry` is None for what is in no settings file.

    `once`: what it says may change without a new question, since it gives no rights. `files` are those that its command
    lines name: `id` changes with their content, and `written` only with what the folder configures.
    """

    id: str
    text: str
    gate: Gate
    entry: SettingsEntry | None = None
    file: Path | None = None
    once: bool = False
    written: str = ""
    files: NamedFiles = NO_FILES


HOW_TO_TRUST = "To trust it: `cellwright --trust` for one command, `cellwright trust` for good."


class Trust(Struct, frozen=True, kw_only=True):
    """The judgement of a folder. `withheld` are ids of entries; `waiting` is what the user could still let count.

    `trusted`: the user said so before, so that what is `waiting` is new or changed since. `refused`: the administrator has
    no folder trusted but those that are listed, so that nothing waits. `outside` are the files from
    elsewhere that the folder's instructions to Claude may bring along, `skill_rights` those of its skills whose rules and
    hooks hold, `agent_rights` those of its agents whose hooks, servers and work trees do. `scripts` are the digests of
    files that commands which count name, by their paths from the project; `watched` are all files whose change matters to
    commands.
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
    scripts: Mapping[str, str] = field(default_factory=dict)
    watched: tuple[Path, ...] = ()


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
    items, unreadable = _items(reading, environ)
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
    # with what they say of their files, if the user trusted these when they were others
    items = tuple(
        replace(item, text="\n".join([item.text, *changed_lines(before, item.files.digests)]))
        if (before := trust.scripts.get(item.written)) is not None and not _counts(item, trust)
        else item
        for item in items
    )
    rules = [(rule, item) for item in items if (rule := _local_rule(item)) is not None]
    if any(rule.layer.foreign and not _counts(item, trust) for rule, item in rules):
        # what the user allowed in Claude Code here: `projects[folder].allowedTools` of `.claude.json`
        records = _claude_codes_records(folder, environ)
        trust = replace(trust, rules=trust.rules.union(*(texts(each.get("allowedTools")) for each in records)))
    waiting = tuple(item for item in items if not _counts(item, trust))
    kept_out = {item.entry.id for item in waiting if item.entry is not None}
    for entry in reading.entries:
        gate = gate_of(entry)
        if gate == "never" or (gate == "trust" and not trust.trusted and not _asks(entry)):
            kept_out.add(entry.id)
    kept_out |= unreadable.keys()
    files = {item.file for item in waiting}
    notices = [*_notices(reading.entries), *(each for problems in unreadable.values() for each in problems)]
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
        scripts={path: digest for item in items if item not in waiting for path, digest in item.files.digests.items()},
        watched=tuple(dict.fromkeys(place for item in items for place in item.files.places)),
    )


def trusted_as_it_is(reading: SettingsSources, environ: Mapping[str, str]) -> frozenset[str]:
    """The ids of what the folder brings along now and trust would let count."""
    return frozenset(item.id for item in _items(reading, environ)[0] if item.gate == "trust")


def changed_lines(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Say which files are not those that were trusted, each in a line."""
    return [f"    {exact(path)} changed since you trusted it" for path in changed(before, now)]


def refusal_text(folder: Path) -> str:
    """Say that the administrator has this folder not trusted."""
    return (
        f"What {folder} contains does not apply: the administrator's settings let no folder be trusted but those in "
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
    return replace(trust, trusted=True, accepted=trust.accepted | accepted, scripts=_scripts(trust, items))


def _scripts(trust: FolderTrust, items: Iterable[Item]) -> dict[str, Mapping[str, str]]:
    return {**trust.scripts, **{item.written: item.files.digests for item in items if item.files.digests}}


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
            scripts=_scripts(trust, items),
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
    return any(each.get("hasTrustDialogAccepted") is True for each in _claude_codes_records(folder, environ))


def _claude_codes_records(folder: Path, environ: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Claude Code's own notes on `folder`; none from a file that the folder or another user may have written."""
    configured = environ.get("CLAUDE_CONFIG_DIR")
    file = (Path(configured) if configured else home_folder(environ)) / ".claude.json"
    try:
        real, top = file.resolve(), folder.resolve()
        brought = not_own(top, real, environ) if real.is_relative_to(top) else others_can_write(real)
        if brought or real.stat().st_size > 64_000_000:
            return []
        projects = json.loads(real.read_bytes()).get("projects")
        found = [projects.get(key) for key in {str(folder), str(folder.resolve())}]
    except (OSError, ValueError, RecursionError, AttributeError):  # not there, or not as Claude Code writes it
        return []
    return [each for each in found if isinstance(each, dict)]


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
    rule = _local_rule(item)
    # in the file where Claude Code and we save what the user allows, a rule counts if the user said so, and in one that
    # nobody else can have written every rule does
    if rule is not None and (rule.value in trust.rules or (trust.trusted and not rule.layer.foreign)):
        return True
    return trust.trusted and item.id in trust.accepted


def _local_rule(item: Item) -> SettingsEntry | None:
    """The allow rule of a `settings.local.json` that `item` is, if it is one."""
    entry = item.entry
    is_rule = entry is not None and entry.path == ("permissions", "allow") and entry.layer.scope == "local"
    return entry if is_rule else None


def _items(reading: SettingsSources, environ: Mapping[str, str]) -> tuple[tuple[Item, ...], dict[str, list[str]]]:
    """List what waits for a word of the user's; then, by their ids, the entries that say nothing readable, and why."""
    unreadable = {
        entry.id: problems
        for entry in reading.entries
        if entry.layer.of_folder and entry.path[0] == "hooks" and (problems := _unreadable_hooks(entry))
    }
    found: list[Item] = []
    for entry in reading.entries:
        gate = gate_of(entry)
        brings = False
        if entry.path == CONTAINER:
            from cellwright.config.settings.container import brings_files_of

            brings = brings_files_of(entry.value, reading.project, base_of(entry))
        if brings and gate == "open":
            gate = "trust"  # whoever names it, what the file says is the folder's word
        if entry.id not in unreadable and gate in ("trust", "confirm") and (brings or _asks(entry)):
            file = entry.layer.file
            written = _digest(["" if file is None else file.name, entry.path, entry.value])
            files = named_files(_commands(entry, gate, reading.project), reading.project, reading.cwd)
            found.append(_with_files(Item(written, describe(entry, environ), gate, entry), files))
    found += _items_of_files(reading)
    found += _items_with_rights(reading, environ)
    return tuple(found), unreadable


def _items_of_files(reading: SettingsSources) -> Iterator[Item]:
    for file, content in reading.tool_files:
        lines = content.count(b"\n") + 1
        text = f"tools of its own: {_place(file, reading)} ({lines} lines of Python)"
        yield Item(_digest([file.name, hashlib.sha256(content).hexdigest()]), text, "trust", file=file)
    for file in reading.instructions:
        name = str(file.relative_to(reading.project))
        text = f"instructions to Claude: {exact(name)}"
        yield Item(_digest(["instructions", name]), text, "trust", file=file, once=True)
    for kind, called, files in (
        ("skills", "skills and commands", [file for file, _ in reading.skill_files]),
        ("agents", "agents", [file for file, _ in reading.agent_files]),
        ("output styles", "output styles", reading.style_files),
    ):
        if names := [_place(file, reading) for file in files]:
            yield Item(_digest([kind]), f"{called}: {', '.join(names)}", "trust", once=True)
    for file in reading.outside:
        text = f"instructions to Claude from outside the folder: {exact(str(file))}"
        yield Item(_digest(["outside", str(file)]), text, "trust", file=file)


def _items_with_rights(reading: SettingsSources, environ: Mapping[str, str]) -> Iterator[Item]:
    """List the skills and agents that give rights or run something, each bound to its whole content."""
    for file, content in reading.skill_files:
        if _has_key(content, _GIVES_RIGHTS):
            yield _item_with_rights(_SKILL_RIGHTS, file, content, reading, environ)
        elif _runs_commands(content):
            yield _item_with_rights(_SKILL_COMMANDS, file, content, reading, environ)
    for file, content in reading.agent_files:
        if _has_key(content, _BRINGS_ALONG):
            yield _item_with_rights(_AGENT_RIGHTS, file, content, reading, environ)
        if _has_key(content, _ISOLATES):
            name = str(file.relative_to(reading.project))
            digest = _digest([name, "isolation", hashlib.sha256(content).hexdigest()])
            yield Item(digest, f"{_ISOLATION}: {exact(name)}", "trust", file=file)


def _item_with_rights(
    what: str, file: Path, content: bytes, reading: SettingsSources, environ: Mapping[str, str]
) -> Item:
    name = str(file.relative_to(reading.project))
    written = _digest([name, hashlib.sha256(content).hexdigest()])
    lines, commands = rights_of(content, environ)
    item = Item(written, block(f"{what}: {exact(name)}", *lines), "trust", file=file)
    return _with_files(item, named_files(commands, reading.project, reading.cwd, file.parent))


def _place(file: Path, reading: SettingsSources) -> str:
    return exact(str(file.relative_to(reading.project)))


def _with_files(item: Item, files: NamedFiles) -> Item:
    """`item`, bound to the files that its command lines name."""
    if not files.digests:
        return replace(item, written=item.id, files=files)
    bound = _digest([item.id, dict(files.digests)])
    named = f"    bound to the content of {', '.join(map(exact, sorted(files.digests)))}"
    return replace(item, id=bound, written=item.id, files=files, text=f"{item.text}\n{named}")


def _unreadable_hooks(entry: SettingsEntry) -> list[str]:
    """Explain why a folder's group of hooks is unreadable: one that is, in part, is not trusted in part."""
    from cellwright.config.hooks.entries import Entries, HooksOrigin  # nobody without hooks waits for it

    if not entry.element:
        return []
    entries = Entries()
    entries.add(entry.layer.label, {entry.path[-1]: [entry.value]}, HooksOrigin(strict=True))
    return [f"{problem} Its group of hooks is not trusted." for problem in entries.left_out]


def _commands(entry: SettingsEntry, gate: Gate, project: Path) -> list[str]:
    """The command lines that an entry brings, and texts that programs take for such."""
    if entry.path == CONTAINER:
        from cellwright.config.settings.container import named_in  # few run commands in one

        return list(named_in(entry.value, project, base_of(entry)))
    if entry.path[0] == "hooks":
        return [text for text in commands_of({entry.path[-1]: [entry.value]}) if text]
    if gate == "confirm" and isinstance(entry.value, str):
        return [entry.value]
    return []


def commands_of(events: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """The command lines of hooks, with the arguments of their programs."""
    from cellwright.config.hooks.entries import CommandHook, Entries, HooksOrigin

    entries = Entries()
    entries.add("", events, HooksOrigin(of_component=True))
    for found in entries.by_event.values():
        for hook in found:
            if isinstance(hook, CommandHook):
                yield from (hook.command, *(hook.args or ()))


def rights_of(content: bytes, environ: Mapping[str, str], *, from_project: bool = True) -> tuple[list[str], list[str]]:
    """Describe what a skill's or an agent's front matter gives or runs, in lines; then the command lines among it."""
    front_matter = read_front_matter(content.decode("utf-8", "replace"))
    values = front_matter.values
    lines = [f"{key}: {_text(values[key])}" for key in sorted(_GIVES_RIGHTS) if key in values and key != "hooks"]
    commands: list[str] = []
    if isinstance(hooks := values.get("hooks"), Mapping):
        events = {str(event): groups for event, groups in hooks.items() if isinstance(groups, list)}
        texts, problems = _hooks_in_words(
            events, environ, from_project=from_project, strict=True, secrets=frozenset(), of_component=True
        )
        lines += [
            line for text in (*texts, *(f"left out: {exact(each)}" for each in problems)) for line in text.split("\n")
        ]
        commands += commands_of(events)
    for found in SHELL_COMMAND.finditer(front_matter.body):
        command = (found["inline"] or found["block"]).strip()
        lines.append(f"runs when it is called: {exact(command)}")
        commands.append(command)
    if "mcpServers" in values:
        lines.append(f"mcpServers: {exact_json(values['mcpServers'])}")
    return lines, commands


@functools.lru_cache(maxsize=1_000)
def _has_key(content: bytes, keys: frozenset[str]) -> bool:
    """Return whether a file's front matter has one of `keys`, however it is spelled there: YAML has escapes."""
    if b"\\" not in content and not any(key.encode() in content for key in keys):
        return False
    return not keys.isdisjoint(read_front_matter(content.decode("utf-8", "replace")).values)


@functools.lru_cache(maxsize=1_000)
def _runs_commands(content: bytes) -> bool:
    """Return whether the text of a skill holds commands that run when it is called."""
    if b"!`" not in content and b"```!" not in content:
        return False

    body = read_front_matter(content.decode("utf-8", "replace")).body
    return SHELL_COMMAND.search(body) is not None


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


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def describe(entry: SettingsEntry, environ: Mapping[str, str] | None = None) -> str:
    """An entry as a question lists it, whole: what it is in the first line, with what in those below."""
    name, value = entry.path[-1], entry.value
    match entry.path:
        case ("hooks", event) if entry.element:
            return _described_hooks(entry, event, environ or {})
        case ("env", _):
            shown = "" if _is_secret(name, value, gate_of(entry)) else f" = {exact(str(value))}"
            return f"environment variable {exact(name)}{shown}"
        case ("permissions", "allow"):
            return f"allow rule {_text(value)}"
        case ("permissions", "deny" | "ask"):
            return f"{name} rule {_text(value)}"
        case ("permissions", "additionalDirectories"):
            return f"folder to read and to write in: {_text(value)}"
        case ("permissions", "defaultMode"):
            return f"permission mode {_text(value)}"
        case ("sandbox", "container"):
            return _described_container(entry)
        case ("apiKeyHelper",):
            return f"command that gives the API key: {_text(value)}"
        case _:
            return f"setting {exact(entry.key)} = {exact_json(value)}"


def _described_container(entry: SettingsEntry) -> str:
    from cellwright.config.settings.container import container_setting

    found = container_setting(entry.value, entry.layer.folder, base_of(entry))
    lines = (
        []
        if found.container is None
        else [f"runs in it: {exact(shlex.join(each))}" for each in found.container.after_making]
    )
    if found.container is not None and found.container.image and isinstance(entry.value, dict):
        lines.insert(0, f"image {exact(found.container.image)}")
    return block(f"container that commands run in: {_text(entry.value)}", *lines)


def _text(value: Any) -> str:
    return exact(value) if isinstance(value, str) else exact_json(value)


def _described_hooks(entry: SettingsEntry, event: str, environ: Mapping[str, str]) -> str:
    layer = entry.layer
    secrets = frozenset[str]() if layer.foreign or layer.scope == "project" else None
    texts, problems = _hooks_in_words(
        {event: [entry.value]}, environ, from_project=layer.of_folder, strict=layer.of_folder, secrets=secrets
    )
    texts += [f"hook {exact(event)}: left out: {exact(each)}" for each in problems]
    return "\n".join(texts) or f"hook {exact(event)}: nothing"


def _hooks_in_words(
    events: Mapping[str, Sequence[Any]], environ: Mapping[str, str], **origin: Any
) -> tuple[list[str], list[str]]:
    """The hooks of `events`, and what is wrong with them; `origin` are the fields of their `HooksOrigin`."""
    from cellwright.config.hooks.entries import HooksOrigin, described_hooks  # nobody without hooks waits for it

    return described_hooks(events, HooksOrigin(**origin), environ)


def _is_secret(name: str, value: Any, gate: Gate) -> bool:
    from cellwright.redaction.redaction import is_secret  # its module is not needed where nothing is asked

    if gate == "confirm":  # the address is what is asked about
        return is_secret(name) and not name.upper().endswith(("_URL", "_PROXY", "_ENDPOINT", "_DIR", "_FILE"))
    return is_secret(name, str(value))


def _notices(entries: Iterable[SettingsEntry]) -> Iterable[str]:
    for entry in entries:
        if gate_of(entry) == "never":
            key = _key_of(entry)
            managed = key is not None and key.folder == "managed"
            who = "the administrator's settings" if managed else "~/.claude/settings.json"
            yield f"{entry.layer.label}: `{entry.key}` counts for nothing there; only {who} can set it."
