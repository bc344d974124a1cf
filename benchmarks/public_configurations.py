"""Published configuration files, read as a session reads them: `python -m benchmarks.public_configurations FOLDER...`

A FOLDER holds files, or git repositories (work trees or bare ones, whose last commit is taken). Agents, skills, commands,
output styles, settings and their hooks, memory files, MCP servers and plugins are told by their usual places and read by the
loaders that a session uses. It counts what was read whole, what was read with a remark, and what was left out, each with its
reason; `--all` names every file. Exits with 1 where a loader raised what it may not.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from cellwright.config.agents import NoAgent, read_definition
from cellwright.config.hooks.entries import Entries
from cellwright.config.mcp.servers import ServerOrigin, read_entries
from cellwright.config.memory import read_memory_file
from cellwright.config.output_styles import read_style
from cellwright.config.plugins.plugin import MANIFEST, read_plugin
from cellwright.config.settings.layers import Layer, entries_of
from cellwright.config.skills import NoSkill, load_skill
from cellwright.config.user_files import SettingsProblem, read_settings_file
from cellwright.errors import CellwrightError

Read = Callable[[Path], list[str]]
"""Reads a file; gives remarks. Raises LeftOut."""


class LeftOut(Exception):
    """Raised for a file that is left out, with the reason."""


def read_agent(file: Path) -> list[str]:
    try:
        return list(read_definition(file, "user").problems)
    except NoAgent as problem:
        raise LeftOut(str(problem)) from None


def read_skill_file(file: Path) -> list[str]:
    return _skill(file, file.parent.name, is_command=False)


def read_command(file: Path) -> list[str]:
    return _skill(file, file.stem, is_command=True)


def _skill(file: Path, name: str, *, is_command: bool) -> list[str]:
    try:
        return list(load_skill(file, name, "user", is_command=is_command).problems)
    except NoSkill as problem:
        raise LeftOut(str(problem)) from None


def read_output_style(file: Path) -> list[str]:
    if read_style(file, "user") is None:
        raise LeftOut("it has no text")
    return []


def read_memory(file: Path) -> list[str]:
    found = read_memory_file(file, "user", file.parent)
    if found is None:
        raise LeftOut("it cannot be read")
    return [found.notice] if found.notice else []


def read_settings(file: Path) -> list[str]:
    layer = Layer(scope="user", label=file.name, file=file, root=file.parent, folder=file.parent)
    layered = entries_of(layer, _object(file))
    hooks = next((entry.value for entry in layered.entries if entry.path == ("hooks",)), {})
    return [*layered.problems, *_hook_problems(file, hooks)]


def read_hooks(file: Path) -> list[str]:
    content = _object(file)
    return _hook_problems(file, content.get("hooks", content))


def _hook_problems(file: Path, events: object) -> list[str]:
    if not isinstance(events, dict):
        raise LeftOut("`hooks` is not an object")
    entries = Entries()
    listed = {event: groups for event, groups in events.items() if isinstance(groups, list)}
    entries.add(file.name, listed)
    return entries.problems


def read_servers(file: Path) -> list[str]:
    content = _object(file)
    origin = ServerOrigin(scope="user", label=file.name, cwd=file.parent)
    return read_entries(content.get("mcpServers", content), origin, {}).notices


def read_whole_plugin(manifest: Path) -> list[str]:
    try:
        return list(read_plugin(manifest.parents[1], "public", manifest.parent / "data").problems)
    except CellwrightError as error:
        raise LeftOut(error.message) from None


def _object(file: Path) -> dict[str, object]:
    try:
        return dict(read_settings_file(file) or {})
    except SettingsProblem as problem:
        raise LeftOut(str(problem)) from None


READERS: dict[str, Read] = {
    "agents": read_agent,
    "skills": read_skill_file,
    "commands": read_command,
    "output styles": read_output_style,
    "memory files": read_memory,
    "settings": read_settings,
    "hooks": read_hooks,
    "MCP files": read_servers,
    "plugins": read_whole_plugin,
}


def kind_of(path: Path) -> str | None:
    """The kind of configuration by the place of a file; None for what is none."""
    folders = path.parts[:-1]
    if path.name == "SKILL.md":
        return "skills"
    if path.name in ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md"):
        return "memory files"
    if path.name in (".mcp.json", "mcp.json") or (path.parts[-3:-2] == ("mcps",) and path.suffix == ".json"):
        return "MCP files"
    if path.name == "hooks.json" and "hooks" in folders:
        return "hooks"
    if "/".join(path.parts[-2:]) == MANIFEST:
        return "plugins"
    if path.suffix == ".json" and (
        (path.name.startswith("settings") and ".claude" in folders) or "settings" in folders
    ):
        return "settings"
    if path.suffix != ".md" or path.name.upper() == "README.MD" or "skills" in folders:
        return None
    return next((kind for kind in ("agents", "commands", "output-styles") if kind in folders), None)


FILES = ("*.md", "*.json")
"""All that is looked at: a snapshot may lack larger files."""


def checked_out(folder: Path, scratch: Path) -> Path:
    """The files of `folder`: itself, or of a bare repository its last commit."""
    if (folder / ".git").exists() or not (folder / "HEAD").is_file():
        return folder
    target = scratch / f"{folder.parent.name}-{len(list(scratch.iterdir()))}"
    target.mkdir()
    packed = subprocess.Popen(["git", "--git-dir", folder, "archive", "HEAD", "--", *FILES], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", target], stdin=packed.stdout, check=True)
    packed.wait()
    return target


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        kind = kind_of(path.relative_to(folder)) if path.is_file() and not path.is_symlink() else None
        # of a folder `mcps` the other files are about servers
        if kind is not None and (
            kind != "MCP files" or path.stem.endswith("mcp") or '"mcpServers"' in path.read_text()
        ):
            yield kind.replace("-", " "), path


def reason_of(text: str, file: Path) -> str:
    """The remark without what is this file's own, so that like ones are counted together."""
    text = text.replace(str(file.parent), "").replace(file.name, "FILE")
    return re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"|\d[\d,]*", "…", text)[:110]


def main(arguments: list[str]) -> int:
    show_all = "--all" in arguments
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    faults = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in [each for each in arguments if each != "--all"]:
            for kind, file in files_of(checked_out(Path(name), Path(scratch))):
                outcome, remarks = "read", list[str]()
                try:
                    remarks = READERS[kind](file)
                    outcome = "with a remark" if remarks else "read"
                except LeftOut as reason:
                    outcome, remarks = "left out", [str(reason)]
                except Exception:  # noqa: BLE001  what no loader may do, which is what is looked for
                    outcome, remarks = "raised", [traceback.format_exc().splitlines()[-1]]
                    faults += 1
                counts[kind][outcome] += 1
                reasons.update(f"{kind}: {reason_of(each, file)}" for each in remarks)
                if show_all and remarks:
                    print(file, json.dumps(remarks, ensure_ascii=False))
    outcomes = ("read", "with a remark", "left out", "raised")
    print("| | files |", " | ".join(outcomes), "|\n|---|---|---|---|---|---|")
    for kind in READERS:
        found = counts[kind]
        print(f"| {kind} | {found.total()} |", " | ".join(str(found[outcome]) for outcome in outcomes), "|")
    print(f"\n{sum(found.total() for found in counts.values())} files")
    for reason, count in reasons.most_common(60):
        print(f"{count:5} {reason}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
