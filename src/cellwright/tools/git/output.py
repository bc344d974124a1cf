"""git's answers, read into data for the views and text for Claude."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.permissions.patch_text import changed_lines
from cellwright.redaction.redaction import is_secret
from cellwright.text import counted, lazy_pattern, visible

LOG_FORMAT = "%x1e%H%x1f%P%x1f%an%x1f%ae%x1f%aI%x1f%D%x1f%s%x1f%b%x1f"
BRANCH_FORMAT = "%00".join(
    (
        "%(HEAD)",
        "%(refname)",
        "%(objectname:short)",
        "%(upstream:short)",
        "%(upstream:track)",
        "%(committerdate:iso-strict)",
        "%(subject)",
    )
)

_COMMIT = lazy_pattern(
    r"\x1e(?P<hash>[0-9a-f]{40,64})\x1f(?P<parents>[^\x1f]*)\x1f(?P<author>[^\x1f]*)\x1f(?P<email>[^\x1f]*)\x1f"
    r"(?P<date>[^\x1f]*)\x1f(?P<refs>[^\x1f]*)\x1f(?P<subject>[^\x1f]*)\x1f(?P<body>[^\x1f]*)\x1f"
)
_URL_USER = lazy_pattern(r"(\w[\w+.-]*://)[^/\s@]+@")
_EMPTY_DIFF = lazy_pattern(r"^diff --git .*\n(?=diff --git |\Z)", re.MULTILINE)

_STATES = {
    "M": "modified",
    "T": "type changed",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "U": "unmerged",
}


def commits(text: str, *, oneline: bool) -> tuple[str, list[dict[str, Any]]]:
    """Commits in `LOG_FORMAT` (patches and statistics may follow each) as text, and as data."""
    found = list(_COMMIT.finditer(text))
    parts = [text[: found[0].start()] if found else text]
    facts = []
    for number, match in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(text)
        rest = text[match.end() : end].strip("\n")
        parts.append(_commit_text(match, rest, oneline=oneline))
        facts.append(
            {
                "hash": match["hash"],
                "parents": match["parents"].split(),
                "author": match["author"],
                "email": match["email"],
                "date": match["date"],
                "refs": match["refs"].split(", ") if match["refs"] else [],
                "subject": match["subject"],
            }
        )
    return ("\n" if oneline else "\n\n").join(part for part in parts if part.strip()), facts


def _commit_text(match: re.Match[str], rest: str, *, oneline: bool) -> str:
    refs = f" ({match['refs']})" if match["refs"] else ""
    if oneline:
        line = f"{match['hash'][:10]}{refs} {match['subject']}"
        return f"{line}\n{rest}" if rest else line
    merge = (
        f"\nMerge: {' '.join(parent[:10] for parent in match['parents'].split())}" if " " in match["parents"] else ""
    )
    head = f"commit {match['hash']}{refs}{merge}\nAuthor: {match['author']} <{match['email']}>\nDate: {match['date']}\n"
    message = f"{match['subject']}\n\n{match['body'].strip()}".strip().replace("\n", "\n    ")
    return f"{head}\n    {message}" + (f"\n\n{rest}" if rest else "")


def status(data: bytes) -> tuple[str, dict[str, Any]]:
    """`status --porcelain=v2 --branch -z` as text, and as data."""
    facts: dict[str, Any] = {"branch": {}, "entries": []}
    records = iter(data.decode("utf-8", "surrogateescape").split("\0"))
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            facts["branch"][name.removeprefix("branch.")] = value
        elif kind == "1":
            facts["entries"].append(_entry(*rest.split(" ", 7)))
        elif kind == "2":
            fields = rest.split(" ", 8)
            facts["entries"].append({**_entry(*fields[:7], fields[8]), "from": shown_name(next(records, ""))})
        elif kind == "u":
            fields = rest.split(" ", 9)
            facts["entries"].append({"path": shown_name(fields[-1]), "state": "unmerged", "code": fields[0]})
        elif kind in ("?", "!"):
            state = "untracked" if kind == "?" else "ignored"
            facts["entries"].append({"path": shown_name(rest), "state": state})
        elif kind == "#stash":
            facts["stash"] = rest
    return _status_text(facts), facts


def _entry(code: str, *fields: str) -> dict[str, Any]:
    staged, unstaged = code[0], code[1]
    entry: dict[str, Any] = {"path": shown_name(fields[-1]), "code": code}
    if staged != ".":
        entry["staged"] = _STATES.get(staged, staged)
    if unstaged != ".":
        entry["unstaged"] = _STATES.get(unstaged, unstaged)
    return entry


def shown_name(path: str) -> str:
    """A path on one line, whatever is in it."""
    if path.isprintable():
        return path
    return visible(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).replace("\n", "⏎")


def _status_text(facts: Mapping[str, Any]) -> str:
    branch = facts["branch"]
    head = branch.get("head", "")
    lines = [f"On branch {head}" if head != "(detached)" else f"HEAD detached at {branch.get('oid', '')[:10]}"]
    if branch.get("oid") == "(initial)":
        lines.append("No commits yet")
    if upstream := branch.get("upstream"):
        ahead, behind = (int(part) for part in branch.get("ab", "+0 -0").split())
        lines.append(f"Upstream {upstream}: {counted(ahead, 'commit')} ahead, {-behind} behind")
    entries: Sequence[Mapping[str, Any]] = facts["entries"]
    for title, key in (("Staged", "staged"), ("Not staged", "unstaged")):
        lines += _section(title, [_changed(entry, entry[key]) for entry in entries if key in entry])
    for state in ("unmerged", "untracked", "ignored"):
        lines += _section(
            state.capitalize(), [f"  {entry['path']}" for entry in entries if entry.get("state") == state]
        )
    return "\n".join(lines if entries else [*lines, "Nothing changed, nothing untracked."])


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"{title} ({len(lines)}):", *lines] if lines else []


def _changed(entry: Mapping[str, Any], state: str) -> str:
    path = f"{entry['from']} -> {entry['path']}" if state in ("renamed", "copied") else entry["path"]
    return f"  {state}: {path}"


def branches(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Branches in `BRANCH_FORMAT`, one a line, as text, and as data."""
    lines, facts = [], []
    for line in text.splitlines():
        fields = line.split("\0")
        if len(fields) != 7:
            lines.append(line)  # `(no branch, rebasing …)` and the like
            continue
        head, ref, commit, upstream, track, date, subject = fields
        name = ref.removeprefix("refs/heads/").removeprefix("refs/")
        facts.append({"name": name, "current": head == "*", "commit": commit, "upstream": upstream, "date": date})
        follows = f" [{upstream}{': ' + track.strip('[]') if track else ''}]" if upstream else ""
        lines.append(f"{head or ' '} {name} {commit}{follows} {date[:10]} {subject}")
    return "\n".join(lines), facts


def blame(text: str) -> tuple[str, list[dict[str, Any]]]:
    """`blame --porcelain` as text, and as data."""
    known: dict[str, dict[str, str]] = {}
    commit, number = "", 0
    facts: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("\t"):
            about = known[commit]
            facts.append({"line": number, "commit": commit, **about, "text": line[1:]})
        elif found := re.match(r"([0-9a-f]{40,64}) \d+ (\d+)", line):
            commit, number = found[1], int(found[2])
            known.setdefault(commit, {})
        else:
            name, _, value = line.partition(" ")
            if name in ("author", "author-time", "summary"):
                known[commit][name] = value
    lines = [
        f"{fact['commit'][:10]} {_day(fact.get('author-time', ''))} {fact.get('author', '')[:24]:<24} "
        f"{fact['line']:>5}\t{fact['text']}"
        for fact in facts
    ]
    return "\n".join(lines), [{key: value for key, value in fact.items() if key != "text"} for fact in facts]


def _day(seconds: str) -> str:
    import datetime  # needed for blame alone

    if not seconds.isdigit():
        return " " * 10
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).date().isoformat()


def diff(text: str) -> tuple[str, dict[str, Any]]:
    """A patch without files that were touched and not changed, and how many lines it adds and takes away."""
    text = _EMPTY_DIFF.sub("", text)
    added, removed = changed_lines(text)
    files = [line.rpartition(" b/")[2] for line in text.splitlines() if line.startswith("diff --git ")]
    return text, {"files": files, "added": added, "removed": removed} if files else {}


def without_secrets(text: str) -> str:
    """`text` without the names and passwords in addresses."""
    return _URL_USER.sub(r"\1***@", text)


def configuration(data: bytes) -> str:
    """`config -z` as lines `key=value`, without secrets."""
    lines = []
    for record in data.decode("utf-8", "replace").split("\0"):
        key, found, value = record.partition("\n")
        if not found:
            lines.append(without_secrets(key))
        elif is_secret(key.rpartition(".")[2], value):
            lines.append(f"{without_secrets(key)}=(withheld: a secret)")
        else:
            lines.append(f"{without_secrets(key)}={without_secrets(value)}")
    return "\n".join(lines).strip()
