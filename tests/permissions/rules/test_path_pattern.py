"""Names with brackets and other odd characters in path rules: the literal reading counts; an escaped rule is its path."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.config.memory import matches_globs
from cellwright.config.settings.settings import load_settings
from cellwright.errors import CellwrightError
from cellwright.permissions.paths import folded
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules.path_pattern import PatternProblem, compile_pattern, escaped
from cellwright.permissions.rules.rule import parse_rule, with_rules
from cellwright.permissions.sandboxing import SandboxRules
from declared_tools import tool_named

ROUTES = (
    "[slug]",
    "[...rest]",
    "[[...x]]",
    "(group)",
    "{a}",
    "@modal",
    "(.)x",
    "[id].tsx",
    "[a]b[c]",
    "[!x]",
    "[^x]",
    "[a-z]",
    "[",
    "]",
    "[]",
)
OTHERS = {
    "[slug]": "s",
    "[...rest]": "r",
    "[a]b[c]": "abc",
    "[a-z]": "q",
    "[id].tsx": "d.tsx",
    "[!x]": "y",
    "[^x]": "y",
}
SHAPES = (
    "app/{}/**",
    "app/{}",
    "app/{}/",
    "./app/{}/**",
    "/app/{}/**",
    "app/*/{}/**",
    "app/**/{}/*",
    "**/{}/**",
    "{}/**",
    "{}",
)


def decided(project: Path, tool: str, path: str, mode: str = "default", **rules: list[str]) -> str:
    policy = PermissionPolicy(mode, roots=[project], cwd=project, **rules)
    return policy.decide(tool_named(tool), {"file_path": path}).behavior


def place_of(shape: str, name: str) -> str:
    """A file that `shape` means with `name` in it."""
    whole = shape.replace("{}", name).removeprefix("./").removeprefix("/")
    return whole.replace("**/", "xx/").replace("/**", "/ff").replace("/*/", "/xx/").replace("/*", "/ff").rstrip("/")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ROUTES)
def test_a_rule_that_restricts_covers_the_name_and_the_pattern(tmp_path: Path, shape: str, name: str) -> None:
    for restricts, expected in (("deny", "deny"), ("ask", "ask")):
        for tool, denied in (("Read", "Read"), ("Edit", "Edit"), ("Edit", "Read")):
            rules = {restricts: [f"{denied}({shape.replace('{}', name)})"]}
            if restricts == "ask" and tool != denied:
                continue
            mode = "bypassPermissions"
            assert decided(tmp_path, tool, place_of(shape, name), mode, **rules) == expected
            if name in OTHERS:
                assert decided(tmp_path, tool, place_of(shape, OTHERS[name]), mode, **rules) == expected
            assert decided(tmp_path, tool, place_of(shape, "other"), mode, **rules) == "allow" or name in (
                "[!x]",
                "[^x]",
            )
    bash = PermissionPolicy(
        "bypassPermissions", roots=[tmp_path], cwd=tmp_path, deny=[f"Read({shape.replace('{}', name)})"]
    )
    assert bash.decide("Bash", {"command": f"cat '{place_of(shape, name)}'"}).behavior == "deny"


def test_a_rule_that_grants_covers_the_name_or_the_pattern_and_never_both(tmp_path: Path) -> None:
    rules = {"allow": ["Edit(app/[slug]/**)"]}
    pattern, name = "app/s/page.tsx", "app/[slug]/page.tsx"
    assert [decided(tmp_path, "Edit", each, **rules) for each in (pattern, name)] == ["allow", "ask"]
    (tmp_path / "app" / "[slug]").mkdir(parents=True)
    assert [decided(tmp_path, "Edit", each, **rules) for each in (pattern, name)] == ["ask", "allow"]
    exact = {"allow": ["Edit(app/[[]slug]/**)"]}
    assert [decided(tmp_path, "Edit", each, **exact) for each in (pattern, name)] == ["ask", "allow"]
    sets = {"allow": ["Edit(app/[sl]*/**)"]}
    assert [decided(tmp_path, "Edit", each, **sets) for each in (pattern, name)] == ["allow", "ask"]


def test_a_name_in_brackets_that_is_a_link_is_restricted_with_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "[slug]").symlink_to("../real")
    for path in ("real/x", "app/[slug]/x", "app/s/x"):
        assert decided(tmp_path, "Read", path, "bypassPermissions", deny=["Read(app/[slug]/**)"]) == "deny"


def test_the_sandbox_hides_the_folder_of_that_name(tmp_path: Path) -> None:
    folder = tmp_path / "app" / "[slug]"
    folder.mkdir(parents=True)
    rules = [parse_rule("Read(app/[slug]/**)"), parse_rule("Edit(app/[slug]/**)")]
    found = with_rules(SandboxRules(), deny=rules, ask=(), allow=(), cwd=str(tmp_path))
    assert (found.deny_read, found.deny_write) == ((str(folder),), (str(folder),))


NAME = st.text(st.sampled_from("[]{}()*?\\!^-,.~@#$%&;'\" ab\té\n"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
PATH = st.lists(NAME, min_size=1, max_size=3)


@contextmanager
def folder_with(*paths: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        for path in paths:
            try:
                (top / path).parent.mkdir(parents=True, exist_ok=True)
                (top / path).write_text("x", "utf-8")
            except OSError:  # the other path goes through it as a file
                continue
        yield top


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(PATH, PATH)
def test_an_escaped_path_is_matched_by_its_rule_alone(path: list[str], other: list[str]) -> None:
    one, two = "/".join(path), "/".join(other)
    with folder_with(one, two) as top:
        rule = f"Edit(/{escaped(f'{top}/{one}')})"
        assert str(parse_rule(rule)) == rule
        below = f"Edit(/{escaped(f'{top}/{path[0]}')}/**)"
        for behavior in ("allow", "deny"):
            for each, text in ((path, rule), (path[:1], below)):
                pattern = compile_pattern(
                    str(parse_rule(text).specifier), source_root="/", cwd="/", restricts=behavior == "deny"
                )
                assert pattern.matches(f"{top}/{'/'.join(each)}")
                same = folded(two).split("/")[: len(each)] == folded("/".join(each)).split("/")
                exact = two == one if behavior == "allow" else same
                if not (behavior == "deny" or text == below):
                    assert pattern.matches(f"{top}/{two}") is exact
                else:
                    reaches = other[: len(each)] == each if behavior == "allow" else same
                    assert pattern.matches(f"{top}/{two}") is reaches


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(PATH)
def test_a_path_as_it_is_written_is_denied_by_its_rule(path: list[str]) -> None:
    written = "/".join(path)
    if written != written.strip():
        return  # a rule has no blanks at its ends: `[ ]` stands for one
    with folder_with() as top:
        if re.search(r"(?<!\[)\{[^/]*,[^/]*\}", written):
            with pytest.raises(CellwrightError, match="has braces"):  # refused in words, not without a word
                parse_rule(f"Read(/{top}/{written})")
            return
        rule = parse_rule(f"Read(/{top}/{written})")
        pattern = compile_pattern(str(rule.specifier), source_root="/", cwd="/", restricts=True)
        assert pattern.matches(f"{top}/{written}")


@settings(derandomize=True, max_examples=150, deadline=None, database=None)
@given(PATH, PATH)
def test_a_click_keeps_a_rule_for_that_place_alone(path: list[str], other: list[str]) -> None:
    one, two = "/".join(path), "/".join(other)
    with folder_with(one, two) as top:
        project = top / "project"
        project.mkdir(exist_ok=True)
        policy = PermissionPolicy(roots=[project], cwd=project)
        for tool in ("Read", "Edit"):
            decision = policy.decide(tool_named(tool), {"file_path": f"{top}/{one}"})
            for suggestion in decision.suggestions:
                allowing = policy.allowing(suggestion.rules)
                assert allowing.decide(tool_named(tool), {"file_path": f"{top}/{one}"}).behavior == "allow"
                if suggestion.scope == "always":
                    expected = "allow" if os.path.normpath(one) == os.path.normpath(two) else "ask"
                    assert allowing.decide(tool_named(tool), {"file_path": f"{top}/{two}"}).behavior == expected


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        *((f"app/{name}/**", f"app/{name}/page.tsx") for name in ROUTES if name not in ("[", "[]")),
        *((f"app/{name}/", f"app/{name}/page.tsx") for name in ROUTES if name not in ("[", "[]")),
        ("app/[slug]/*.{ts,tsx}", "app/[slug]/a.tsx"),
        ("**/[id].tsx", "x/[id].tsx"),
        ("[id].tsx", "x/[id].tsx"),
        ("app/[slug]/**", "app/s/a"),
        ("./app/[slug]/**", "app/[slug]/a"),
        (r"app/\[slug]/**", "app/[slug]/a"),
    ],
)
def test_paths_of_instructions_and_skills_name_such_folders(tmp_path: Path, glob: str, path: str) -> None:
    globs = [f"{glob}**" if glob.endswith("/") else glob]
    assert matches_globs(tmp_path / path, globs, tmp_path)
    assert not matches_globs(tmp_path / "app/other/page.txt", globs, tmp_path) or glob.startswith(("app/[!", "app/[^"))


def test_a_rule_whose_brackets_only_name_something_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project = tmp_path / "proj"
    (project / "app" / "[slug]").mkdir(parents=True)
    (project / "app" / "[ab]").mkdir()
    (project / "app" / "a").mkdir()
    (project / ".claude").mkdir()
    permissions = '{"deny": ["Read(app/[slug]/**)", "Read(app/[ab]/**)", "Read(app/[x]/**)", "Edit(app/[[]slug]/**)"]}'
    (project / ".claude" / "settings.json").write_text(f'{{"permissions": {permissions}}}', "utf-8")
    notices = [
        notice
        for notice in load_settings(project, {"HOME": str(tmp_path / "home")}).notices
        if "matches nothing" in notice
    ]
    assert len(notices) == 1
    assert "`Read(app/[slug]/**)`" in notices[0]
    assert "`Read(app/[[]slug]/**)`" in notices[0]


def test_two_dots_behind_a_wildcard_are_refused() -> None:
    for pattern in ("[a]/../x", "*/../x", "a/*/.."):
        with pytest.raises(PatternProblem):
            compile_pattern(pattern, source_root="/", cwd="/", restricts=True)
