"""What holds for any path on a real file system full of links: nothing is let out, and no spelling gets past a rule."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.permissions.paths import protected_part
from cellwright.permissions.policy import PermissionPolicy
from declared_tools import tool_named

NAMES = ["a", "b", "c", "é", "x-evil", ".git", "Startup"]
NAME = st.sampled_from(NAMES)
INNER = st.lists(NAME, min_size=1, max_size=3).map("/".join)
LINK_TARGETS = st.one_of(
    INNER, INNER.map("../{}".format), INNER.map("../../out/{}".format), st.just(".."), st.just("/")
)
LINKS = st.dictionaries(INNER, LINK_TARGETS, max_size=6)
STEPS = st.one_of(NAME, st.sampled_from(["..", ".", "", "proj", "out", "proj-evil"]))
PATHS = st.lists(STEPS, min_size=1, max_size=7).map("/".join).filter(bool)


@contextmanager
def world(links: dict[str, str]) -> Iterator[Path]:
    """A project in a folder of its own, with `links` as far as they can be made."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        project = top / "proj"
        (project / "a" / "b").mkdir(parents=True)
        (top / "out" / "a").mkdir(parents=True)
        (top / "proj-evil").mkdir()
        for link, target in links.items():
            path = project / link
            # a link may lead out: what is made stays in the folder that goes away again
            if not os.path.lexists(path) and path.parent.is_dir() and path.parent.resolve().is_relative_to(top):
                path.symlink_to(target)
        yield project


@settings(derandomize=True, max_examples=400, deadline=None, database=None)
@given(LINKS, PATHS)
def test_what_is_allowed_is_inside_wherever_the_links_lead(links, path):
    with world(links) as project:
        policy = PermissionPolicy("acceptEdits", roots=[project], cwd=project)
        for given_path in (path, f"{project}/{path}"):
            if policy.decide(tool_named("Write"), {"file_path": given_path}).behavior != "allow":
                continue
            real = Path(os.path.realpath(project / given_path))
            assert real.is_relative_to(project)
            assert protected_part(str(real)) is None
            assert policy.decide(tool_named("Read"), {"file_path": given_path}).behavior == "allow"


@settings(derandomize=True, max_examples=400, deadline=None, database=None)
@given(LINKS, PATHS, PATHS)
def test_a_denied_file_is_denied_by_every_way_that_leads_to_it(links, path, other):
    with world(links) as project:
        target = os.path.realpath(project / path)
        policy = PermissionPolicy("bypassPermissions", deny=[f"Read(/{target})"], roots=[project], cwd=project)
        assert policy.decide(tool_named("Read"), {"file_path": path}).behavior == "deny"
        if os.path.realpath(project / other) == target:
            assert policy.decide(tool_named("Edit"), {"file_path": other}).behavior == "deny"


def respelled(path: str, choices: list[int]) -> str:
    """The same file in other words, as some file system or the operating system takes them."""
    made = []
    for index, (part, choice) in enumerate(zip(path.split("/"), choices, strict=False)):
        variants = [
            part,
            part.upper(),
            part.swapcase(),
            unicodedata.normalize("NFD", part),
            unicodedata.normalize("NFC", part),
            f"./{part}",
            f"/{part}" if index else part,
            f"{part}/../{part}",
            f"{part[:1]}\u200d{part[1:]}",
        ]
        made.append(variants[choice % len(variants)])
    return "/".join(made)


PLAIN = st.lists(st.sampled_from(["a", "b", "secrets", "é", "Straße", "deep.txt"]), min_size=2, max_size=4).map(
    "/".join
)


@settings(derandomize=True, max_examples=400, deadline=None, database=None)
@given(PLAIN, st.lists(st.integers(0, 8), min_size=4, max_size=4), st.sampled_from(["whole", "name", "folder"]))
def test_respelling_a_path_never_gets_it_past_a_deny_rule(path, choices, rule):
    pattern = {"whole": f"./{path}", "name": path.rpartition("/")[2], "folder": f"./{path.partition('/')[0]}/**"}[rule]
    with tempfile.TemporaryDirectory() as name:
        project = Path(name).resolve()
        policy = PermissionPolicy("bypassPermissions", deny=[f"Read({pattern})"], roots=[project], cwd=project)
        for spelling in (path, respelled(path, choices), f"{project}/{respelled(path, choices)}"):
            for tool in ("Read", "Edit", "Write", "EditSymbol"):
                assert policy.decide(tool_named(tool), {"file_path": spelling}).behavior == "deny", spelling


def change_text(action: str, path: str, other: str) -> str:
    if action == "rename":
        return f"diff --git a/{path} b/{other}\nsimilarity index 100%\nrename from {path}\nrename to {other}\n"
    old, new = "/dev/null" if action == "create" else f"a/{path}", "/dev/null" if action == "delete" else f"b/{path}"
    hunk = {"create": "@@ -0,0 +1 @@\n+x\n", "delete": "@@ -1 +0,0 @@\n-x\n"}.get(action, "@@ -1 +1 @@\n-x\n+y\n")
    return f"diff --git a/{path} b/{path}\n--- {old}\n+++ {new}\n{hunk}"


@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(
    st.lists(st.tuples(st.sampled_from(["edit", "create", "delete", "rename"]), PLAIN, PLAIN), min_size=1, max_size=5)
)
def test_a_patch_is_denied_if_it_names_one_file_that_is(changes):
    policy = PermissionPolicy("bypassPermissions", deny=["Read(./a/secrets/**)"], roots=["/p"], cwd="/p")
    named = [name for action, *paths in changes for name in (paths if action == "rename" else paths[:1])]
    texts = [change_text(*change) for change in changes]
    denied = any(path == "a/secrets" or path.startswith("a/secrets/") for path in named)
    decision = policy.decide(tool_named("ApplyPatch"), {"patch": "".join(texts)})
    assert decision.behavior == ("deny" if denied else "allow"), decision.reason
