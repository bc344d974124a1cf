"""Statements of an answer besides numbers that can be looked up: names of columns, files, functions, cells; test runs.

Few things are judged, so that what is said is right: a name counts only in code style and beside the word that says what it
names, a file by its ending, and nothing in a sentence that is about what could be or is to be made.
"""

from __future__ import annotations

import builtins
import json
import keyword
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from cellwright.agent.calls.tool_names import access_of
from cellwright.events import UnknownName
from cellwright.markdown.prose import HIDDEN, prose_of
from cellwright.sessions.api_messages import begins_turn
from cellwright.text import lazy_pattern, strings_in

NameKind = Literal["column", "file", "function", "cell"]
TestsVerdict = Literal["borne_out", "contradicted", "outdated", "not_run", "unclear"]

MOST_TEXT = 400_000
LIBRARIES = (
    *(
        "pandas",
        "numpy",
        "matplotlib.pyplot",
        "matplotlib.axes",
        "seaborn",
        "scipy",
        "scipy.stats",
        "sklearn",
        "polars",
    ),
    *("torch", "xarray"),
)
MODULES = frozenset({"np", "pd", "plt", "sns", "tf", "sp", "pl", "xr", "math", "torch", "jnp", "df"})
"""The names that modules and frames usually have in code."""
CLASSES = ("DataFrame", "Series", "ndarray", "Axes", "Tensor", "Dataset")
"""Modules whose names are known if they are imported already; none is imported for it."""

_SPAN = lazy_pattern(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_FILE = lazy_pattern(
    r"[\w.~/-]{0,180}[\w-]\.(?:csv|tsv|txt|md|rst|py|ipynb|json|jsonl|ya?ml|toml|cfg|ini|parquet|feather|h5|npy|npz|pkl|xlsx?|db|"
    r"sqlite|sql|png|jpe?g|svg|pdf|html?|css|js|ts|tsx|sh|log)"
)
_COLUMN = lazy_pattern(r"[^\W\d]\w{0,80}(?:[ -]\w{1,40}){0,4}")
_FUNCTION = lazy_pattern(r"([^\W\d]\w{2,80})(?:\(\))?")
_BEFORE = {
    "column": lazy_pattern(r"\b(?:columns?|fields?)\s{1,3}$", re.IGNORECASE),
    "function": lazy_pattern(r"\b(?:functions?|methods?|class(?:es)?)\s{1,3}$", re.IGNORECASE),
}
_AFTER = {
    "column": lazy_pattern(r"\s{1,3}(?:columns?|fields?)\b", re.IGNORECASE),
    "function": lazy_pattern(r"\s{1,3}(?:functions?|methods?|class(?:es)?)\b", re.IGNORECASE),
}
_LIST = lazy_pattern(r",?\s{1,3}(?:and|or)?\s{0,3}$|,\s{0,3}$", re.IGNORECASE)
_CELL = lazy_pattern(r"\bcells? \[(\d{1,5})\]", re.IGNORECASE)
_NOT_STATED = lazy_pattern(
    r"\b(?:no|not|none|never|without|missing|lacks?|absent|cannot|would|could|should|might|may|can|if|unless|e\.g|example"
    r"|such as|instead|new|create[sd]?|creating|add(?:s|ed|ing)?|wrote|write|written|saved?|rename[sd]?|call it|suggest\w*"
    r"|recommend\w*|let me|i'll|i will|want|next|like|typo|expect\w*)\b|n't\b|n’t\b|\?",
    re.IGNORECASE,
)
_SENTENCE = lazy_pattern(r"[.!?](?:\s|$)|\n")

_TESTS = lazy_pattern(
    r"\b(?:(?:all|every|both|the|these|its|\d{1,6})\b[^.;:,\n]{0,30})?\btests?\b(?:\s\w{1,12}){0,2}\s(?:pass(?:es|ed)?|succeed(?:s|ed)?|"
    r"(?:is|are|stay|stays) (?:all )?(?:green|passing))\b",
    re.IGNORECASE,
)
_TESTS_NOT_STATED = lazy_pattern(
    r"\b(?:if|unless|until|once|when|whether|should|would|could|might|may|can|make sure|ensure|so that|expect\w*|not|no"
    r"|never|fail\w*|before|let me|i'll|i will|to (?:check|see|verify))\b|n't\b|n’t\b|\?",
    re.IGNORECASE,
)
_COUNT = lazy_pattern(r"\b(\d{1,6})\s(?:\w{1,12}\s){0,2}tests?\b")
_RUNNER = lazy_pattern(
    r"\b(?:pytest|py\.test|unittest|nose2|tox|nox|doctest|vitest|jest|mocha|rspec|phpunit|ctest)\b"
    r"|\b(?:npm|pnpm|yarn|bun)\s(?:run\s)?(?:t|test)\b|\b(?:go|cargo|mvn|gradle|dotnet|make|mix|deno)\s(?:\S{1,40}\s){0,2}test\b"
)
_BAD = lazy_pattern(
    r"\b[1-9]\d{0,5} (?:failed|failures?|errors?|failing)\b|\bfailures=[1-9]|\berrors=[1-9]|^FAILED\b|^FAIL(?:ED)?[: (]"
    r"|^--- FAIL|\bFAILED \(|exit code [1-9]|^not ok\b|Traceback \(most recent",
    re.MULTILINE,
)
_GOOD = lazy_pattern(
    r"\b([1-9]\d{0,5}) (?:tests? )?passed\b|\b([1-9]\d{0,5}) passing\b|^Ran ([1-9]\d{0,5}) tests?\b|^OK\b|^ok\s"
    r"|test result: ok",
    re.MULTILINE,
)
_CODE_ENDINGS = lazy_pattern(r"\.(?:py|ipynb|js|jsx|ts|tsx|go|rs|java|c|cc|cpp|h|rb|php|sh|toml|cfg|json|ya?ml)$")


class StatedName(Struct, frozen=True):
    """A name that an answer states, from `start` to `end` in its characters; `found`: something seen or there has it."""

    text: str
    start: int
    end: int
    kind: NameKind
    found: bool

    @property
    def words(self) -> str:
        """The verdict in words.

        >>> StatedName("churn", 0, 5, "column", False).words
        'no column of this name in anything that this conversation saw'
        """
        what = "file of this name here or" if self.kind == "file" else f"{self.kind} of this name"
        return f"{self.kind} found" if self.found else f"no {what} in anything that this conversation saw"


class TestsClaim(Struct, frozen=True):
    """A statement that tests pass, held against the last run of tests in the turn."""

    __test__ = False  # pytest collects classes by their names

    text: str
    start: int
    end: int
    verdict: TestsVerdict
    words: str


def seen_texts(messages: Sequence[bytes]) -> list[str]:
    """Return all that the encoded messages of a session hold but Claude's own sentences: prompts, calls, their results."""
    texts: list[str] = []
    for message in map(json.loads, messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block.get("type") == "tool_use":
                texts += strings_in(block["input"])
            elif block.get("type") == "tool_result":
                texts.append(_result_text(block))
            elif block.get("type") == "text" and message["role"] == "user":
                texts.append(block["text"])
    return texts


def _result_text(block: Mapping[str, Any]) -> str:
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def stated_names(
    answer: str, seen: Sequence[str], folder: Path | None = None, known: Callable[[str], bool] = lambda _: False
) -> tuple[StatedName, ...]:
    """Return the columns, files, functions and cells that `answer` states, each with whether anything has the name.

    `seen` are texts (`seen_texts`), `folder` the one that relative paths start at, `known` knows the user's namespace.

    >>> [(name.text, name.found) for name in stated_names("The column `age` and the column `wage`.", ["age,height"])]
    [('age', True), ('wage', False)]
    """
    answer = answer[:MOST_TEXT]
    text = "\n".join(seen)
    found: list[StatedName] = []
    for name, start, kind in _names(answer):
        if len(found) >= 200:
            break
        if not _NOT_STATED.search(_around(answer, start, start + len(name))):
            there = _exists(name, kind, text, folder, known)
            found.append(StatedName(name, start, start + len(name), kind, there))
    return tuple(found)


def unknown_names(
    answer: str, messages: Sequence[bytes], folder: Path, known: Callable[[str], bool]
) -> tuple[UnknownName, ...]:
    """Return the names that `answer` states and nothing has, and the statements that the last run of tests contradicts.

    `messages` are the session's, encoded; an answer that states no name does not read them.
    """
    answer = answer[:MOST_TEXT]
    prose = prose_of(answer)
    found: list[UnknownName] = []
    if next(_names(answer), None) is not None:
        spans = list(_inline_code(answer))
        for name in stated_names(answer, seen_texts(messages), folder, known):
            if name.found:
                continue
            text = name.text if name.kind == "cell" else answer[name.start : answer.index("`", name.start)]
            behind = sum(at > name.start and other == text for at, other in spans)
            from_end = prose.count(text, name.end) if name.kind == "cell" else behind
            found.append(UnknownName(text, from_end, name.words, code=name.kind != "cell"))
    found += [
        UnknownName(claim.text, prose.count(claim.text, claim.end), claim.words, code=False)
        for claim in claims_of_tests(answer, messages)
        if claim.verdict in ("contradicted", "outdated")
    ]
    return tuple(found[:50])


def _inline_code(answer: str) -> Iterator[tuple[int, str]]:
    """Yield the start and the text of each piece of inline code, as a page draws it: none of blocks of code."""
    at, is_block = 0, False
    for line in answer.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            is_block = not is_block
        elif not is_block:
            yield from ((at + span.start(1), span[1]) for span in _SPAN.finditer(line))
        at += len(line) + 1


def _names(answer: str) -> Iterator[tuple[str, int, NameKind]]:
    prose = prose_of(answer)
    kind: NameKind | None = None
    last = 0
    for span in _SPAN.finditer(answer):
        around = prose[max(0, span.start() - 1) : span.start()] + prose[span.end() : span.end() + 1]
        if not around.strip(HIDDEN + "\n[]"):
            continue  # inside a block of code, the text of a link, or alone on its line
        before, after = answer[max(0, span.start() - 40) : span.start()], answer[span.end() : span.end() + 20]
        listed = kind if kind is not None and _LIST.fullmatch(answer[last : span.start()]) else None
        kind = _kind(span[1], before, after) or listed
        last = span.end()
        if kind is not None and (name := _name(span[1], kind)):
            yield name, span.start(1), kind
    for cell in _CELL.finditer(prose):
        yield answer[cell.start() : cell.end()], cell.start(), "cell"


def _kind(span: str, before: str, after: str) -> NameKind | None:
    if _FILE.fullmatch(span):
        return "file"
    for kind in ("column", "function"):
        if _BEFORE[kind].search(before) or _AFTER[kind].match(after):
            return "column" if kind == "column" else "function"
    return None


def _name(span: str, kind: NameKind) -> str:
    if kind == "file":
        return span
    if kind == "function":
        match = _FUNCTION.fullmatch(span)
        return match[1] if match else ""
    return span if _COLUMN.fullmatch(span) else ""


def _around(answer: str, start: int, end: int) -> str:
    """Return the sentence around, the name itself left out."""
    before, after = answer[max(0, start - 300) : start], answer[end : end + 300]
    begin = max((match.end() for match in _SENTENCE.finditer(before)), default=0)
    stop = _SENTENCE.search(after)
    rest = after[: stop.start() + 1] if stop else after
    return re.sub(r"`[^`\n]{0,200}`", " ", f"{before[begin:]} {rest}".replace("``", " "))


def _exists(name: str, kind: NameKind, text: str, folder: Path | None, known: Callable[[str], bool]) -> bool:
    if kind == "cell":
        number = re.sub(r"\D", "", name)
        return f"[{number}]" in text or f'execution_count="{number}"' in text or f"cell {number}" in text
    if kind == "file":
        return _file_exists(name, text, folder)
    return _occurs(name, text) or known(name) or (kind == "function" and _is_common(name))


def _occurs(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?:(?!\w)|(?<=\.))", text) is not None


def _file_exists(name: str, text: str, folder: Path | None) -> bool:
    owner = name.partition(".")[0]
    is_attribute = "/" not in name and (owner in MODULES or owner in sys.modules or _occurs(f"{owner}.", text))
    if is_attribute or name.rpartition("/")[2] in text:  # `np.log`
        return True
    if folder is None:
        return False
    try:
        return (folder / Path(name).expanduser()).exists()
    except (OSError, RuntimeError, ValueError):
        return True  # not a path of this system, or one that may not be looked at


def _is_common(name: str) -> bool:
    """Return whether Python, or a library that is imported already, has a function or class of this name."""
    if hasattr(builtins, name) or keyword.iskeyword(name) or name in sys.stdlib_module_names:
        return True
    modules = [vars(sys.modules[library]) for library in LIBRARIES if library in sys.modules]
    classes = [module[owner] for module in modules for owner in CLASSES if isinstance(module.get(owner), type)]
    return any(name in module for module in modules) or any(name in dir(owner) for owner in (str, list, dict, *classes))


class _TestRun(Struct, frozen=True):
    passed: bool | None
    many: int | None
    edited_since: bool


def claims_of_tests(answer: str, messages: Sequence[bytes]) -> tuple[TestsClaim, ...]:
    """Return the statements of `answer` that tests pass, held against the last run of tests in the last turn."""
    answer = answer[:MOST_TEXT]
    prose = prose_of(answer)
    claims = [
        match
        for match in _TESTS.finditer(prose)
        if not _TESTS_NOT_STATED.search(_around(prose, match.start(), match.end()) + match[0])
    ]
    run = _last_run(messages) if claims else None
    return tuple(
        TestsClaim(answer[match.start() : match.end()], match.start(), match.end(), *_held_against(match[0], run))
        for match in claims
    )


def _held_against(claim: str, run: _TestRun | None) -> tuple[TestsVerdict, str]:
    if run is None:
        return "not_run", "no tests ran in this turn"
    if run.passed is None:
        return "unclear", "the last run of the tests does not show how it ended"
    if not run.passed:
        return "contradicted", "the last run of the tests in this turn failed"
    stated = _COUNT.search(claim)
    if stated and run.many is not None and int(stated[1]) != run.many:
        return "contradicted", f"the last run of the tests had {run.many} that passed"
    if run.edited_since:
        return "outdated", "files were changed after the last run of the tests"
    return "borne_out", "the last run of the tests in this turn passed"


def _last_run(messages: Sequence[bytes]) -> _TestRun | None:
    decoded = [json.loads(message) for message in messages]
    first = max((at for at, message in enumerate(decoded) if begins_turn(message)), default=0)
    runs: set[str] = set()
    last: _TestRun | None = None
    for message in decoded[first:]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block.get("type") == "tool_use":
                if _runs_tests(block):
                    runs.add(block["id"])
                    last = _TestRun(None, None, edited_since=False)
                elif last is not None and access_of(block["name"]).edits_files:
                    values = block["input"] if isinstance(block["input"], Mapping) else {}
                    path = str(values.get("file_path") or values.get("notebook_path") or "x.py")
                    if _CODE_ENDINGS.search(path) is not None:
                        last = _TestRun(last.passed, last.many, edited_since=True)
            elif block.get("type") == "tool_result" and block.get("tool_use_id") in runs:
                last = _ended(block)
    return last


def _runs_tests(block: Mapping[str, Any]) -> bool:
    values = block["input"] if isinstance(block["input"], Mapping) else {}
    command = values.get("command") or values.get("code") or ""
    return access_of(block["name"]).kind == "tests" or (
        isinstance(command, str) and _RUNNER.search(command[:20_000]) is not None
    )


def _ended(block: Mapping[str, Any]) -> _TestRun:
    text = _result_text(block)[-60_000:]
    good = list(_GOOD.finditer(text))
    counts = [int(group) for match in good for group in match.groups() if group]
    if block.get("is_error") or _BAD.search(text):
        return _TestRun(False, None, edited_since=False)
    return _TestRun(True if good else None, counts[-1] if counts else None, edited_since=False)
