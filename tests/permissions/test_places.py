"""Where paths lead on a real file system: links, hop by hop, and the many spellings of one name."""

from __future__ import annotations

import os
import sys
import unicodedata
from pathlib import Path

import pytest

from cellwright.permissions.paths import PathProblem, folded, inside, normalised, places, protected_part
from cellwright.permissions.policy import PermissionPolicy
from declared_tools import tool_named
from row_tables import for_each_row


def edits(place, path, **rules):
    return place.policy("acceptEdits", **rules).decide(tool_named("Write"), {"file_path": path}).behavior


def reads(place, path, **rules):
    return place.policy(**rules).decide(tool_named("Read"), {"file_path": path}).behavior


@for_each_row(
    ("path", "expected"),
    [
        ("a", "allow"),
        ("a/b/../c", "allow"),
        ("./a/./b//c", "allow"),
        ("src/../../proj/src/a.py", "allow"),
        ("{project}/../proj/a", "allow"),
        ("{home}/proj", "allow"),
        ("{home}/proj/", "allow"),
        ("{home}/proj-evil", "ask"),
        ("{home}/proj-evil/../proj/a", "allow"),
        ("{home}/projx/a", "ask"),
        ("{home}/pro", "ask"),
        ("{home}/PROJ/a", "ask"),
        ("{home}", "ask"),
        ("..", "ask"),
        ("../..", "ask"),
        ("../proj/../outside", "ask"),
        ("/", "ask"),
        ("//", "ask"),
        ("/.", "ask"),
        ("/proc/self/cwd/src/a.py", "ask"),
        ("/proc/self/root{project}/src/a.py", "ask"),
        ("/proc/thread-self/root/etc/passwd", "ask"),
        ("/dev/stdout", "ask"),
        ("/dev/fd/1", "ask"),
        ("link-in/../a", "allow"),
        ("link-in/../link-out/../proj/a", "ask"),
        ("link-out/../a", "ask"),
        ("link-out/../proj/a", "ask"),
        ("back/deep/b.py", "ask"),
        ("two-hops", "ask"),
        ("not-there/../link-out/x", "ask"),
        ("src/a.py/not-a-folder", "allow"),
        ("x" * 3000, "allow"),
        ("x" * 5000, "deny"),
        ("\\etc\\passwd", "allow"),
        ("C:\\x", "allow"),
        ("a b", "allow"),
        ("~", "ask"),
        ("~nobody/x", "ask"),
        ("./~/x", "allow"),
    ],
)
def test_inside_or_not(place, path, expected):
    assert edits(place, place.fill(path)) == expected
    assert reads(place, place.fill(path)) == expected


@pytest.mark.parametrize("hops", [1, 2, 5, 20])
def test_every_hop_of_a_chain_of_links_counts(place, hops):
    target = place.home / "outside"
    for number in range(hops):
        link = place.project / f"hop{number}"
        link.symlink_to(target)
        target = link
    assert edits(place, f"hop{hops - 1}/x") == "ask"
    assert edits(place, f"hop{hops - 1}/x", deny=["Edit(~/outside/**)"]) == "deny"
    assert edits(place, f"hop{hops - 1}/x", deny=["Edit(./hop0)"]) == "deny"
    allowed = [f"Edit(/hop{number}/**)" for number in range(hops)]
    assert edits(place, f"hop{hops - 1}/x", allow=allowed) == "ask"
    assert edits(place, f"hop{hops - 1}/x", allow=["Edit(~/**)"]) == "allow"


@for_each_row("path", ["a/" * 20_000, "x" * 40_000, "../" * 15_000, "link-in/" * 10_000, "\0", "a\ud800"])
def test_what_no_path_can_be_is_denied_at_once(place, path):
    for tool, field in (("Write", "file_path"), ("Grep", "path"), ("NotebookRead", "notebook_path")):
        assert place.policy("bypassPermissions").decide(tool_named(tool), {field: path}).behavior == "deny"


def test_a_hop_in_between_that_is_outside_counts(place):
    # in, out, and in again: whoever owns the place outside decides where it goes next
    assert edits(place, "back/x.py") == "ask"
    assert edits(place, "back/x.py", allow=["Edit(/src/**)"]) == "ask"
    assert edits(place, "back/x.py", deny=["Edit(~/outside/return)"]) == "deny"


def test_links_are_followed_as_they_are_at_each_call(place):
    policy = place.policy("acceptEdits")
    assert policy.decide(tool_named("Write"), {"file_path": "later/x"}).behavior == "allow"
    (place.project / "later").symlink_to(place.home / "outside")
    assert policy.decide(tool_named("Write"), {"file_path": "later/x"}).behavior == "ask"


def test_a_link_that_leads_nowhere_leads_where_it_says(place):
    (place.project / "dangling").symlink_to(place.home / "outside" / "none")
    (place.project / "within").symlink_to("src/none")
    (place.project / "up").symlink_to("../outside/none")
    assert edits(place, "dangling") == "ask"
    assert edits(place, "within") == "allow"
    assert edits(place, "up") == "ask"


def test_a_link_of_another_name_to_what_is_protected(place):
    (place.project / ".git").mkdir()
    (place.project / "innocent").symlink_to(".git/config")
    (place.project / "folder").symlink_to(".git")
    (place.project / ".gitlink").symlink_to("src")
    for path in ("innocent", "folder/hooks/pre-commit", "folder/../.git/x"):
        assert edits(place, path) == "ask"
        assert edits(place, path, allow=["Edit", "Edit(//**)"]) == "ask"
    assert edits(place, ".gitlink/a.py") == "allow"
    # a link that has a protected name is protected, wherever it leads
    (place.project / ".vscode").symlink_to("src")
    assert edits(place, ".vscode/a.py") == "ask"


def test_links_in_a_circle_and_endless_ones_are_denied(place):
    (place.project / "one").symlink_to("two")
    (place.project / "two").symlink_to("one")
    (place.project / "deeper").symlink_to("deeper/x")
    for path in ("one", "one/x", "two", "deeper", "deeper/y"):
        assert edits(place, path) == "deny"
        assert reads(place, path) == "deny"


@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="no procfs here")
@pytest.mark.parametrize("way", ["/proc/self/root", "/proc/thread-self/root", "/proc/self/cwd/../../..", "/dev/../."])
def test_the_ways_around_through_procfs(place, way):
    secret = place.project / ".env"
    if way.endswith(".."):
        # the working directory, and up to the root from there
        up = "/".join([".."] * (len(place.project.parts) - 1))
        way = f"/proc/self/cwd/{up}"
    assert reads(place, f"{way}{secret}", deny=["Read(./.env)"]) == "deny"
    assert reads(place, f"{way}{place.home}/outside/data.csv", deny=["Read(~/outside/**)"]) == "deny"


def test_an_open_descriptor_is_the_file_it_is_open_for(place):
    descriptor = os.open(place.project / ".env", os.O_RDONLY)
    try:
        assert reads(place, f"/proc/self/fd/{descriptor}", deny=["Read(./.env)"]) == "deny"
        assert reads(place, f"/dev/fd/{descriptor}", deny=["Read(./.env)"]) == "deny"
    finally:
        os.close(descriptor)


COMPOSED, DECOMPOSED = unicodedata.normalize("NFC", "Ångström"), unicodedata.normalize("NFD", "Ångström")


@for_each_row("written", [COMPOSED, DECOMPOSED, COMPOSED.upper(), DECOMPOSED.lower(), "A\u030angstro\u0308m"])
@for_each_row("ruled", [COMPOSED, DECOMPOSED])
def test_one_name_in_many_spellings_is_one_name_for_restrictions(place, ruled, written):
    assert reads(place, f"{written}/x", deny=[f"Read(./{ruled}/**)"]) == "deny"
    assert edits(place, f"src/{written}", deny=[f"Edit({ruled})"]) == "deny"


def test_a_grant_is_for_the_very_spelling(place):
    outside = place.home / "outside"
    assert reads(place, str(outside / COMPOSED), allow=[f"Read(~/outside/{COMPOSED})"]) == "allow"
    assert reads(place, str(outside / DECOMPOSED), allow=[f"Read(~/outside/{COMPOSED})"]) == "ask"
    assert reads(place, str(outside / "DATA.csv"), allow=["Read(~/outside/data.csv)"]) == "ask"


@for_each_row(
    "name",
    [
        ".git/config",
        ".GIT/config",
        ".Git/Config",
        ".gıt/config".replace("ı", "i"),
        ".g\u200bit/config",
        "\ufeff.git/config",
        ".git\u200d/config",
        ".git./config",
        ".git /config",
        ".git::$INDEX_ALLOCATION/config",
        "GIT~1/config",
        "git~2/hooks/x",
        "CLAUDE~1/settings.json",
        "a/b/.git",
        ".git/../.git/x",
        ".claude/settings.json",
        ".claude/agents/x.md",
        ".claude/worktrees/w/.git/config",
        ".claude/worktrees/../settings.json",
        ".CLAUDE/Settings.Local.json",
        ".mcp.JSON",
        ".jupyter/jupyter_lab_config.py",
        ".JUPYTER/x",
        ".ipython/profile_default/startup/a.py",
        "Startup/first.IPY",
        "Jupyter_Notebook_Config.JSON",
        "IPYTHON_CONFIG.PY",
        "SiteCustomize.py",
        "x/UserCustomize.PY",
        "lib/evil.PTH",
        "share/jupyter/kernels/x/kernel.json",
        "Overrides.json",
        ".BashRC",
        ".bash_aliases",
        ".zshrc",
        ".config/git/hooks/x",
        ".Config/Git/config",
        ".ssh/config",
        "x/site-packages/a.py",
        "Library/Jupyter/runtime/x",
        ".venv/bin/ls",
        "venv/Scripts/git.exe",
    ],
)
def test_protected_in_every_spelling_for_making_changing_and_deleting(place, name):
    assert edits(place, name) == "ask"
    assert edits(place, name, allow=["Edit(//**)", "Edit", "Write"]) == "ask"
    for patch in (
        f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n",
        f"--- a/{name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
    ):
        decision = place.policy("acceptEdits", allow=["Edit"]).decide(tool_named("ApplyPatch"), {"patch": patch})
        assert decision.behavior in ("ask", "deny")
    assert place.policy("dontAsk", allow=["Edit"]).decide(tool_named("Write"), {"file_path": name}).behavior == "deny"


@for_each_row(
    "name",
    [
        "git/config",
        ".gitignore",
        ".gitattributes",
        ".github/dependabot.yml",
        "my.git.txt",
        "claude/settings.json",
        ".claude/worktrees/w/src/a.py",
        "config/git/x",
        "startup/readme.md",
        "startup.py",
        "src/startup/data/x.py",
        "kernel.jsonl",
        "jupyter_notes.py",
        "ipython_config.pyc",
        "pth/x",
        "x.pth.txt",
        "bash_profile",
        "src/sitecustomize_test.py",
        "pyrightconfig.toml",
        "x~1/a",
        "gitter~1",
        "mcp.json",
        "conftest.py",
        "pyproject.toml",
        "package.json",
        "Makefile",
    ],
)
def test_neighbours_of_what_is_protected_are_not(place, name):
    assert edits(place, name) == "allow"
    assert protected_part(str(place.project / name)) is None


@for_each_row(
    ("place_name", "folder", "expected"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/ab", "/a", False),
        ("/a-b/c", "/a", False),
        ("/a", "/a/b", False),
        ("/a", "/", True),
        ("/", "/", True),
    ],
)
def test_containment_goes_by_whole_names(place_name, folder, expected):
    assert inside(place_name, [folder]) is expected


def test_where_a_path_leads_is_told_hop_by_hop(place):
    project, home = str(place.project), str(place.home)
    assert places("two-hops/x", project) == (f"{project}/two-hops/x", f"{project}/link-out/x", f"{home}/outside/x")
    assert places("link-out/../proj/x", project) == (
        f"{project}/proj/x",
        f"{home}/outside",
        f"{home}/proj/x",
    )
    assert places("src//./a.py", project) == (f"{project}/src/a.py",)
    with pytest.raises(PathProblem):
        places("loop", project)


def test_normal_and_folded_names():
    assert normalised("//a/../b/.//c/") == "/b/c"
    assert folded(DECOMPOSED) == folded(COMPOSED.upper()) == COMPOSED.casefold()
    assert folded("A\u200bB") == "ab"


def test_a_root_may_be_the_root_of_everything(tmp_path):
    policy = PermissionPolicy("acceptEdits", roots=["/"], cwd=tmp_path)
    assert policy.decide(tool_named("Write"), {"file_path": "/somewhere/x"}).behavior == "allow"
    assert policy.decide(tool_named("Write"), {"file_path": "/somewhere/.git/x"}).behavior == "ask"


def test_several_roots_hold_together(place):
    policy = PermissionPolicy("acceptEdits", roots=[place.project, place.home / "outside"], cwd=place.project)
    assert policy.decide(tool_named("Write"), {"file_path": "link-out/x"}).behavior == "allow"
    assert policy.decide(tool_named("Write"), {"file_path": "back/x"}).behavior == "allow"
    assert policy.decide(tool_named("Write"), {"file_path": "../proj-evil/x"}).behavior == "ask"


def test_this_interpreters_programs_are_protected_wherever_they_are():
    programs = Path(sys.prefix).resolve() / "bin"
    policy = PermissionPolicy("acceptEdits", allow=["Edit"], roots=[programs.parent], cwd=programs.parent)
    for tool, tool_input in (
        ("Write", {"file_path": str(programs / "ls"), "content": "evil"}),
        ("Bash", {"command": f"cp evil {programs}/ls"}),
    ):
        assert policy.decide(tool_named(tool), tool_input).behavior == "ask"
