"""Front matter as people write it, also where YAML refuses it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from cellwright.config.front_matter import read_front_matter, texts
from eventual import paces
from row_tables import for_each_row


@for_each_row(
    ("text", "values", "body"),
    [
        ("---\nname: a\ntools: Read, Grep\n---\nBody", {"name": "a", "tools": "Read, Grep"}, "Body"),
        ("\ufeff---\r\nname: a\r\n---\r\nBody\r\n", {"name": "a"}, "Body\n"),
        ("no front matter\n---\na: b\n---\n", {}, "no front matter\n---\na: b\n---\n"),
        ("---\n---\nBody", {}, "Body"),
        ("---\n# only a comment\n---\nBody", {}, "Body"),
        ("---\nname: never closed\nBody", {}, "---\nname: never closed\nBody"),
        ("---\nname: a\n---", {"name": "a"}, ""),
        ("--- \nname: a\n--- \nBody", {"name": "a"}, "Body"),
        ("----\nname: a\n---\n", {}, "----\nname: a\n---\n"),
        # what YAML refuses, and Claude Code's users write
        ("---\ndescription: Use when: always\nname: a\n---\n", {"description": "Use when: always", "name": "a"}, ""),
        ("---\nargument-hint: [a] [b]\n---\n", {"argument-hint": "[a] [b]"}, ""),
        ("---\npaths: **/*.py\n---\n", {"paths": "**/*.py"}, ""),
        ("---\nname: a\n\tdescription: tab\n---\n", {"name": "a\ndescription: tab"}, ""),
        ("---\nd: Use: this\n  - A: (no)\n  - B: c: d\n---\n", {"d": "Use: this\n- A: (no)\n- B: c: d"}, ""),
        ("---\ntools:\n- A\n- B: c: d\nname: @x\n---\n", {"tools": ["A", "B: c: d"], "name": "@x"}, ""),
        ("---\nd: |\n  one: two: three\n  four\nx: @\n---\n", {"d": "one: two: three\nfour\n", "x": "@"}, ""),
        ("---\njust a text\n---\nBody", {}, "Body"),
        ("---\n- a\n- b\n---\nBody", {}, "Body"),
        ("---\n2: two\nyes: no\n---\n", {"2": "two", "True": False}, ""),
    ],
)  # fmt: skip
def test_front_matter(text: str, values: dict[str, Any], body: str) -> None:
    front = read_front_matter(text)
    assert (dict(front.values), front.body) == (values, body)


@for_each_row(
    ("value", "found"),
    [
        ("Read, Grep,", ("Read", "Grep")),
        ("src/*.{ts,tsx}, Bash(a, b)", ("src/*.{ts,tsx}", "Bash(a, b)")),
        (["Read", None, 3, ""], ("Read", "3")),
        (None, ()),
        ({"a": "b"}, ()),
        (True, ("True",)),
    ],
)
def test_lists_of_texts(value: Any, found: tuple[str, ...]) -> None:
    assert texts(value) == found


def test_a_problem_is_named_with_its_line() -> None:
    assert read_front_matter("---\nname: a\n\tdescription: b\n---\n").problem.startswith("line 3: ")


QUOTES_FORGOTTEN: dict[str, dict[str, Any]] = {
    "argument-hint: [pr-number] [priority]\nallowed-tools: [Read, Grep]": {
        "argument-hint": "[pr-number] [priority]",
        "allowed-tools": ["Read", "Grep"],
    },
    "argument-hint: [--flag] | <a: b>\nmodel: opus": {"argument-hint": "[--flag] | <a: b>", "model": "opus"},
    "description: It's for: 'all' #1\nname: é-ü": {"description": "It's for: 'all' #1", "name": "é-ü"},
    "description: a: b\ntools:\n  - Read\n  - Bash(git *)\nhooks:\n  Stop:\n    - hooks: []": {
        "description": "a: b",
        "tools": ["Read", "Bash(git *)"],
        "hooks": {"Stop": [{"hooks": []}]},
    },
    "description: ends so:\ncolor: blue\n# said: here\nmodel: haiku # small": {
        "description": "ends so:",
        "color": "blue",
        "model": "haiku",
    },
    "paths: **/*.{ts,tsx}, {a,b}/c": {"paths": "**/*.{ts,tsx}, {a,b}/c"},
}


@for_each_row(("text", "values"), list(QUOTES_FORGOTTEN.items()))
def test_texts_without_their_quotes_are_no_problem(text: str, values: dict[str, Any]) -> None:
    for line_end in ("\n", "\r\n", "\r"):
        front = read_front_matter(f"---\n{text}\n---\n".replace("\n", line_end))
        assert (front.values, front.problem) == (values, ""), line_end


def test_hostile_front_matter_takes_no_time() -> None:
    bomb = "a: &a [x, x]\n" + "\n".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]" for n in range(20)
    )
    for text in (
        f"---\n{bomb}\n---\n",
        "---\n" + "[" * 50_000 + "\n---\n",
        "---\n" + "a" * 1_000_000,
        "---\n" * 50_000,
    ):
        assert paces(lambda text=text: read_front_matter(text), 100) < 100, text[:20]


def test_plain_lines_are_read_as_yaml_reads_them() -> None:
    import yaml

    alphabet = [
        "a",
        "true",
        "no",
        "1",
        " ",
        ":",
        "#",
        "-",
        "[x]",
        "'",
        '"',
        "/",
        "$",
        "*",
        "é",
        "|",
        "&b",
        "{",
        ",",
        "=",
    ]
    for first in alphabet:
        for second in alphabet:
            for third in alphabet:
                line = f"key: {first}{second}{third}"
                try:
                    expected = yaml.safe_load(line)
                except yaml.YAMLError:
                    continue
                found = read_front_matter(f"---\n{line}\n---\n").values
                assert isinstance(expected, dict)
                assert found == expected, line


def test_what_comes_with_cellwright_needs_no_yaml() -> None:
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from cellwright.config.agents import find_agents\n"
        "from cellwright.config.skills import SkillPlace, find_skills\n"
        "nowhere = Path('/nonexistent')\n"
        "place = SkillPlace(cwd=nowhere, project=nowhere, users=nowhere, managed=nowhere)\n"
        "print(bool(find_skills(place)), bool(find_agents(place).agents), 'yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True True False\n"


def test_quoted_texts_are_read_as_yaml_reads_them() -> None:
    import yaml

    for text in ("a: b", "# c", "it's", "[x]", "true", "1", "", " ", "a\\n", "é", "a,b", "{", "- a", "a\tb"):
        line = f'key: "{text}"'
        assert read_front_matter(f"---\n{line}\n---\n").values == yaml.safe_load(line), line
