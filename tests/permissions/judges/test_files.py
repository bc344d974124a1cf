"""May a file be read or edited? Tables of calls, in both directions."""

from __future__ import annotations

import pytest

from declared_tools import tool_named
from row_tables import for_each_row

EDIT = {"old_string": "a", "new_string": "b"}


def field(tool: str) -> str:
    return {"NotebookEdit": "notebook_path", "NotebookRead": "notebook_path", "Grep": "path", "LS": "path"}.get(
        tool, "file_path"
    )


def behavior(place, tool, path, mode="default", **rules):
    tool_input = {field(tool): place.fill(path)}
    return (
        place.policy(mode, **rules)
        .decide(tool_named(tool, read_only=tool not in ("Edit", "Write", "NotebookEdit")), tool_input)
        .behavior
    )


@for_each_row("tool", ["Read", "Grep", "LS", "NotebookRead"])
@for_each_row(
    ("path", "expected"),
    [
        # inside, however it is written
        ("src/a.py", "allow"),
        ("{project}/src/a.py", "allow"),
        ("./src/../src/a.py", "allow"),
        ("{project}", "allow"),
        ("not/there/yet.py", "allow"),
        ("link-in/a.py", "allow"),
        ("link-env", "allow"),
        # the neighbour whose name starts the same (CVE-2025-54794)
        ("{home}/proj-evil/a.py", "ask"),
        ("../proj-evil/a.py", "ask"),
        # out by dots
        ("../outside/data.csv", "ask"),
        ("src/../../outside/data.csv", "ask"),
        ("..", "ask"),
        ("/etc/passwd", "ask"),
        ("/", "ask"),
        # out by links (CVE-2025-59829, CVE-2026-24053)
        ("link-out/data.csv", "ask"),
        ("link-out/not-there", "ask"),
        ("link-file", "ask"),
        ("two-hops/data.csv", "ask"),
        ("link-in/../../outside/data.csv", "ask"),
        # a link that comes back through a folder that others control
        ("back/a.py", "ask"),
        ("{home}/way-in/src/a.py", "ask"),
        # what the shell would expand, and what no file can be called
        ("~/outside/data.csv", "ask"),
        ("~root/x", "ask"),
        ("loop", "deny"),
        ("src/\0a.py", "deny"),
        ("src/\ud800.py", "deny"),
        ("~\ud800", "deny"),
        ("src/a\u202egnp.py", "ask"),
        ("src/a\u200b.py", "ask"),
        ("/proc/self/environ", "ask"),
        ("//etc/passwd", "ask"),
    ],
)
def test_reading(place, tool, path, expected):
    assert behavior(place, tool, path) == expected


def test_searches_without_a_path_are_inside(place):
    policy = place.policy()
    assert policy.decide(tool_named("Grep", read_only=True), {"pattern": "x"}).behavior == "allow"
    assert policy.decide(tool_named("LS", read_only=True), {}).behavior == "allow"


@for_each_row(
    ("pattern", "path", "expected"),
    [
        ("**/*.py", None, "allow"),
        ("src/*.py", None, "allow"),
        ("*.py", "src", "allow"),
        ("{{project}}/src/*.py".replace("{{project}}", "{project}"), None, "allow"),
        ("/etc/*", None, "ask"),
        ("/*", None, "ask"),
        ("../*", None, "ask"),
        ("src/../../outside/*", None, "ask"),
        ("*/../../outside/*", None, "ask"),
        ("{/etc,src}/*", None, "ask"),
        ("{..,src}/*", None, "ask"),
        ("*.py", "/etc", "ask"),
        ("*", "link-out", "ask"),
        ("link-out/*", None, "ask"),
    ],
)
def test_globbing(place, pattern, path, expected):
    tool_input = {"pattern": place.fill(pattern)} | ({"path": path} if path else {})
    assert place.policy().decide(tool_named("Glob", read_only=True), tool_input).behavior == expected


@for_each_row(
    ("path", "default", "accept_edits"),
    [
        ("src/a.py", "ask", "allow"),
        ("{project}/new/folder/file.py", "ask", "allow"),
        ("link-in/a.py", "ask", "allow"),
        (".claude/worktrees/one/a.py", "ask", "allow"),
        ("gitignore.md", "ask", "allow"),
        (".gitignore", "ask", "allow"),
        (".github/workflows/ci.yml", "ask", "ask"),
        ("src/config.py", "ask", "allow"),
        ("{home}/proj-evil/a.py", "ask", "ask"),
        ("../outside/new.csv", "ask", "ask"),
        ("link-out/new.csv", "ask", "ask"),
        ("link-file", "ask", "ask"),
        ("back/new.py", "ask", "ask"),
        ("~/x", "ask", "ask"),
        ("loop", "deny", "deny"),
        ("a\0b", "deny", "deny"),
        ("", "ask", "ask"),
        # protected, also where they do not exist yet (CVE-2025-54135, CVE-2026-25725)
        (".git/hooks/pre-commit", "ask", "ask"),
        (".git", "ask", "ask"),
        ("src/.git/config", "ask", "ask"),
        (".GIT/config", "ask", "ask"),
        (".g\u200cit/config", "ask", "ask"),
        (".git./config", "ask", "ask"),
        (".git::$INDEX_ALLOCATION/config", "ask", "ask"),
        (".claude/settings.json", "ask", "ask"),
        (".claude/settings.local.json", "ask", "ask"),
        (".Claude/Settings.json", "ask", "ask"),
        (".claude/worktrees/one/.claude/settings.json", "ask", "ask"),
        ("src/../.claude/settings.json", "ask", "ask"),
        (".mcp.json", "ask", "ask"),
        (".vscode/tasks.json", "ask", "ask"),
        (".idea/workspace.xml", "ask", "ask"),
        (".husky/pre-commit", "ask", "ask"),
        (".cargo/config.toml", "ask", "ask"),
        (".devcontainer/devcontainer.json", "ask", "ask"),
        (".devcontainer.json", "ask", "ask"),
        (".yarn/releases/y.cjs", "ask", "ask"),
        (".mvn/extensions.xml", "ask", "ask"),
        (".config/git/config", "ask", "ask"),
        (".gitconfig", "ask", "ask"),
        (".gitmodules", "ask", "ask"),
        (".bashrc", "ask", "ask"),
        (".bash_profile", "ask", "ask"),
        (".zshenv", "ask", "ask"),
        (".profile", "ask", "ask"),
        (".envrc", "ask", "ask"),
        (".npmrc", "ask", "ask"),
        (".yarnrc.yml", "ask", "ask"),
        (".pnp.cjs", "ask", "ask"),
        (".pnpmfile.cjs", "ask", "ask"),
        ("bunfig.toml", "ask", "ask"),
        (".bazelrc", "ask", "ask"),
        (".pre-commit-config.yaml", "ask", "ask"),
        ("lefthook-local.yml", "ask", "ask"),
        ("gradle/wrapper/gradle-wrapper.properties", "ask", "ask"),
        (".ripgreprc", "ask", "ask"),
        ("pyrightconfig.json", "ask", "ask"),
        (".claude.json", "ask", "ask"),
        # Jupyter's and Python's own ways to run code later
        (".ipython/profile_default/startup/00.py", "ask", "ask"),
        ("startup/00.py", "ask", "ask"),
        (".jupyter/jupyter_server_config.py", "ask", "ask"),
        ("jupyter_server_config.json", "ask", "ask"),
        ("jupyter_config.py", "ask", "ask"),
        ("ipython_config.py", "ask", "ask"),
        ("ipython_kernel_config.py", "ask", "ask"),
        ("sitecustomize.py", "ask", "ask"),
        ("src/usercustomize.py", "ask", "ask"),
        ("evil.pth", "ask", "ask"),
        ("kernels/python3/kernel.json", "ask", "ask"),
        ("overrides.json", "ask", "ask"),
        (".venv/lib/python3.11/site-packages/json.py", "ask", "ask"),
        (".ssh/authorized_keys", "ask", "ask"),
    ],
)
@for_each_row("tool", ["Edit", "Write", "NotebookEdit"])
def test_editing(place, tool, path, default, accept_edits):
    assert behavior(place, tool, path) == default
    assert behavior(place, tool, path, "acceptEdits") == accept_edits


@pytest.mark.parametrize(
    "path", [".git/config", ".claude/settings.json", ".mcp.json", "startup/x.py", "link-git/config"]
)
@pytest.mark.parametrize(
    "rules", [["Edit"], ["Edit(**)"], ["Edit(//**)"], ["Write"], ["Edit(/.git/**)", "Edit(.mcp.json)"]]
)
def test_no_rule_allows_writing_what_is_protected(place, path, rules):
    (place.project / ".git").mkdir()
    (place.project / "link-git").symlink_to(place.project / ".git")
    assert behavior(place, "Write", path, allow=rules) == "ask"
    assert behavior(place, "Write", path, "bypassPermissions") == "allow"
    assert behavior(place, "Read", path) == "allow"


@for_each_row(
    ("mode", "read_in", "read_out", "edit_in", "edit_out"),
    [
        ("default", "allow", "ask", "ask", "ask"),
        ("manual", "allow", "ask", "ask", "ask"),
        ("auto", "allow", "ask", "ask", "ask"),
        ("plan", "allow", "ask", "deny", "deny"),
        ("acceptEdits", "allow", "ask", "allow", "ask"),
        ("dontAsk", "allow", "deny", "deny", "deny"),
        ("bypassPermissions", "allow", "allow", "allow", "allow"),
    ],
)
def test_modes(place, mode, read_in, read_out, edit_in, edit_out):
    assert behavior(place, "Read", "src/a.py", mode) == read_in
    assert behavior(place, "Read", "/etc/hosts", mode) == read_out
    assert behavior(place, "Edit", "src/a.py", mode) == edit_in
    assert behavior(place, "Edit", "/etc/hosts", mode) == edit_out


@for_each_row(
    ("rule", "path", "expected"),
    [
        # a rule that names a place reaches outside; a bare one means the session's folders
        ("Read(//etc/**)", "/etc/hosts", "allow"),
        ("Read(//etc/hosts)", "/etc/hosts", "allow"),
        ("Read(//etc/hosts)", "/etc/hosts.bak", "ask"),
        ("Read(//etc)", "/etc/hosts", "ask"),
        ("Read(/etc/**)", "/etc/hosts", "ask"),
        ("Read(etc/**)", "/etc/hosts", "ask"),
        ("Read", "/etc/hosts", "ask"),
        ("Read(*)", "/etc/hosts", "ask"),
        ("Read(**)", "/etc/hosts", "ask"),
        ("Read(hosts)", "/etc/hosts", "ask"),
        ("Read(~/outside/**)", "{home}/outside/data.csv", "allow"),
        ("Read(~/outside/*.csv)", "{home}/outside/data.csv", "allow"),
        ("Read(~/outside/*.txt)", "{home}/outside/data.csv", "ask"),
        ("Read(../outside/**)", "{home}/outside/data.csv", "allow"),
        ("Edit(~/outside/**)", "{home}/outside/data.csv", "allow"),
        ("Read(~/OUTSIDE/**)", "{home}/outside/data.csv", "ask"),
        # the link is allowed, what it leads to is not; and the other way round
        ("Read(/link-out/**)", "link-out/data.csv", "ask"),
        ("Read(~/outside/**)", "link-out/data.csv", "ask"),
        ("Write(~/outside/**)", "{home}/outside/data.csv", "ask"),
        ("Grep(~/outside/**)", "{home}/outside/data.csv", "ask"),
    ],
)
def test_allowing_to_read_outside(place, rule, path, expected):
    assert behavior(place, "Read", path, allow=[rule]) == expected


@for_each_row(
    ("rule", "path", "expected"),
    [
        ("Edit", "src/a.py", "allow"),
        ("Edit(*)", "src/a.py", "allow"),
        ("Write", "src/a.py", "ask"),
        ("Read", "src/a.py", "ask"),
        ("Edit(/src/**)", "src/a.py", "allow"),
        ("Edit(/src/**)", "src/deep/b.py", "allow"),
        ("Edit(/src/**)", "notes.txt", "ask"),
        ("Edit(src/**)", "src/a.py", "allow"),
        ("Edit(src/**)", "src/../notes.txt", "ask"),
        ("Edit(deep/**)", "src/deep/b.py", "ask"),
        ("Edit(./src/*.py)", "src/a.py", "allow"),
        ("Edit(./src/*.py)", "src/deep/b.py", "ask"),
        ("Edit(src/*)", "src/a.py", "allow"),
        ("Edit(src/?.py)", "src/a.py", "allow"),
        ("Edit(src/[ab].py)", "src/a.py", "allow"),
        ("Edit(src/[!a].py)", "src/a.py", "ask"),
        ("Edit(a.py)", "src/a.py", "allow"),
        ("Edit(*.py)", "src/deep/b.py", "allow"),
        ("Edit(**/deep/*)", "src/deep/b.py", "allow"),
        ("Edit(A.PY)", "src/a.py", "ask"),
        ("Edit(src)", "src/a.py", "ask"),
        ("Edit(src/)", "src/a.py", "allow"),
        ("Edit(/link-in/**)", "link-in/a.py", "ask"),
        ("Edit(/src/**)", "link-in/a.py", "ask"),
        ("Edit(**)", "link-in/a.py", "allow"),
        ("Edit(**)", "link-out/data.csv", "ask"),
    ],
)
def test_allowing_edits(place, rule, path, expected):
    assert behavior(place, "Edit", path, allow=[rule]) == expected


@for_each_row(
    ("rule", "path", "read", "edit"),
    [
        ("Read(.env)", ".env", "deny", "deny"),
        ("Read(.env)", "src/.env", "deny", "deny"),
        ("Read(.env)", "{home}/outside/.env", "deny", "deny"),
        ("Read(.env)", "notes.txt", "allow", "allow"),
        ("Read(.env)", ".env.example", "allow", "allow"),
        ("Read(./.env)", ".env", "deny", "deny"),
        ("Read(./.env)", "src/.env", "allow", "allow"),
        ("Read(.env)", ".ENV", "deny", "deny"),
        ("Read(.env)", "link-env", "deny", "deny"),
        ("Read(link-env)", "link-env", "deny", "deny"),
        ("Read(./link-env)", ".env", "deny", "deny"),
        ("Read(./secrets/**)", "secrets/key.pem", "deny", "deny"),
        ("Read(./secrets)", "secrets/key.pem", "deny", "deny"),
        ("Read(secrets/**)", "src/secrets/x", "deny", "deny"),
        ("Read(*.pem)", "secrets/KEY.PEM", "deny", "deny"),
        ("Read(//etc/**)", "/etc/hosts", "deny", "deny"),
        ("Read(~/outside/**)", "link-out/data.csv", "deny", "deny"),
        ("Read(~/outside/**)", "two-hops/data.csv", "deny", "deny"),
        ("Read(./link-out/**)", "two-hops/data.csv", "deny", "deny"),
        ("Read(~/outside/**)", "~/outside/data.csv", "deny", "deny"),
        ("Read(./loop/x)", "notes.txt", "allow", "allow"),
        ("Read(~/outside)", "~/outside/data.csv", "deny", "deny"),
        ("Read(/caf\u00e9.txt)", "cafe\u0301.txt", "deny", "deny"),
        ("Read", "src/a.py", "deny", "deny"),
        ("*", "src/a.py", "deny", "deny"),
        ("Edit", "src/a.py", "allow", "deny"),
        ("Edit(/src/**)", "src/a.py", "allow", "deny"),
        ("Edit(/src/**)", "notes.txt", "allow", "allow"),
        ("Edit(/src/**)", "link-in/a.py", "allow", "deny"),
        ("Write(/src/**)", "src/a.py", "allow", "deny"),
        ("Write", "src/a.py", "allow", "allow"),
        ("read(.env)", ".env", "deny", "deny"),
        ("READ(.env)", ".env", "deny", "deny"),
        ("Grep(.env)", ".env", "deny", "deny"),
    ],
)
@for_each_row("mode", ["acceptEdits", "bypassPermissions"])
def test_denying(place, mode, rule, path, read, edit):
    inside = "outside" not in path and "out/" not in path and "hops" not in path and not path.startswith("/")
    if inside or "deny" in (read, edit):
        assert behavior(place, "Read", path, mode, deny=[rule]) == read
        assert behavior(place, "Edit", path, mode, deny=[rule]) == edit
        assert behavior(place, "Edit", path, mode, deny=[rule], allow=["Edit", "Read(//**)"]) == edit


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("default", "ask"), ("acceptEdits", "ask"), ("bypassPermissions", "ask"), ("dontAsk", "deny")],
)
def test_ask_rules_hold_in_every_mode(place, mode, expected):
    assert behavior(place, "Edit", "src/a.py", mode, ask=["Edit(/src/**)"], allow=["Edit"]) == expected
    assert behavior(place, "Read", "src/a.py", mode, ask=["Read(a.py)"]) == expected


@for_each_row(
    ("tool_input", "expected"),
    [
        ({"pattern": "x"}, "deny"),
        ({"pattern": "x", "path": "."}, "deny"),
        ({"pattern": "x", "path": "src"}, "allow"),
        ({"pattern": "x", "glob": "*.py"}, "allow"),
        ({"pattern": "x", "glob": "!.env"}, "allow"),
        ({"pattern": "x", "glob": "!*.py"}, "deny"),
        ({"pattern": "x", "glob": "**/*"}, "deny"),
        ({"pattern": "x", "glob": "{.env,a}"}, "deny"),
        ({"pattern": "x", "path": ".env"}, "deny"),
        ({"pattern": "x", "path": "notes.txt"}, "allow"),
    ],
)
def test_a_search_reads_the_files_below_its_folder(place, tool_input, expected):
    assert place.policy(deny=["Read(.env)"]).decide(tool_named("Grep", read_only=True), tool_input).behavior == expected


def test_a_search_passes_folders_that_rules_name_too(place):
    (place.project / "node_modules").mkdir()
    policy = place.policy(deny=["Read(./node_modules/**)"])
    assert policy.decide(tool_named("Grep", read_only=True), {"pattern": "x"}).behavior == "deny"
    assert policy.decide(tool_named("Grep", read_only=True), {"pattern": "x", "glob": "*.py"}).behavior == "deny"
    assert (
        policy.decide(tool_named("Grep", read_only=True), {"pattern": "x", "glob": "!node_modules"}).behavior == "allow"
    )


def test_how_the_folder_itself_is_called_is_the_users_business(place):
    from cellwright.permissions.policy import PermissionPolicy

    odd = place.home / "π {a,b} (x)\u200d [y] \\z"
    odd.mkdir()
    policy = PermissionPolicy(roots=[odd], cwd=odd)
    assert policy.decide(tool_named("Read"), {"file_path": str(odd / "a")}).behavior == "allow"
    (suggestion,) = policy.decide(tool_named("Edit"), {"file_path": "a"}).suggestions
    assert (
        policy.allowing([suggestion.rules[0]]).decide(tool_named("Write"), {"file_path": str(odd / "b")}).behavior
        == "allow"
    )


def test_a_folder_too_large_to_look_through_is_asked_for(place):
    many = place.project / "many"
    many.mkdir()
    for number in range(20_002):
        (many / str(number)).touch()
    decision = place.policy(deny=["Read(*.secret)"]).decide(
        tool_named("Grep", read_only=True), {"pattern": "x", "path": "many"}
    )
    assert decision.behavior == "ask"
    assert "Read(*.secret)" in decision.reason


def test_the_source_of_a_rule_is_what_its_slash_starts_from(place):
    from cellwright.permissions.policy import PermissionPolicy
    from cellwright.permissions.rules.rule import parse_rule

    rule = parse_rule("Edit(/docs/**)", source_root=str(place.home))
    policy = PermissionPolicy(allow=[rule], roots=[place.home], cwd=place.project)
    assert policy.decide(tool_named("Edit"), {"file_path": str(place.home / "docs" / "x.md")}).behavior == "allow"
    assert policy.decide(tool_named("Edit"), {"file_path": str(place.project / "docs" / "x.md")}).behavior == "ask"


@for_each_row(
    ("tool", "rules", "path", "expected"),
    [
        # a rule for a place counts beside one for the session's folders, whichever stands first
        ("Read", ["Read", "Read(~/outside/**)"], "../outside/data.csv", "allow"),
        ("Read", ["Read(~/outside/**)", "Read"], "../outside/data.csv", "allow"),
        ("Grep", ["Read", "Read(~/outside/**)"], "../outside", "allow"),
        ("Edit", ["Edit", "Edit(~/outside/**)"], "../outside/data.csv", "allow"),
        ("Edit", ["Edit", "Read(~/outside/**)"], "../outside/data.csv", "ask"),
        ("Read", ["Read", "Read(~/outside/**)"], "../proj-evil/x", "ask"),
        # one rule allows the link, another what it leads to
        ("Read", ["Read", "Read(~/outside/**)"], "link-out/data.csv", "allow"),
        ("Read", ["Read(/link-out/**)", "Read(~/outside/**)"], "link-out/data.csv", "allow"),
        ("Edit", ["Edit", "Edit(~/outside/**)"], "link-out/data.csv", "allow"),
        ("Edit", ["Edit(/src/**)", "Edit(/link-in/**)"], "link-in/a.py", "allow"),
        ("Edit", ["Edit(/src/**)", "Read(/link-in/**)"], "link-in/a.py", "ask"),
        ("Edit", ["Edit", "Read(~/outside/**)"], "link-out/data.csv", "ask"),
        ("Read", ["Read(/link-out/**)", "Read(~/outside/**)"], "two-hops/data.csv", "ask"),
        ("Read", ["Read"], "link-out/data.csv", "ask"),
        ("Edit", ["Edit", "Edit(~/outside/**)", "Edit(//**)"], "link-git/config", "ask"),
    ],
)
def test_rules_allow_together(place, tool, rules, path, expected):
    if not (link := place.project / "link-git").is_symlink():
        link.symlink_to(place.project / ".git")
    field = "path" if tool == "Grep" else "file_path"
    assert place.policy(allow=rules).decide(tool_named(tool), {field: path}).behavior == expected


def test_a_home_behind_a_link_leads_to_the_session_too(place, tmp_path, monkeypatch):
    # as on clusters: the system calls the project's folder otherwise than its user does
    home = tmp_path / "users-home"
    home.symlink_to(place.home)
    monkeypatch.setenv("HOME", str(home))
    policy = place.policy("acceptEdits")
    for path in (home / "proj/src/a.py", place.project / "src/a.py"):
        assert policy.decide(tool_named("Read"), {"file_path": str(path)}).behavior == "allow"
        assert policy.decide(tool_named("Edit"), {"file_path": str(path)}).behavior == "allow"
    assert (
        policy.decide(tool_named("Bash"), {"command": "cat ~/proj/notes.txt && cd ~/proj/src && ls"}).behavior
        == "allow"
    )
    for outside in ("outside/data.csv", "proj-evil/x", "proj/link-out/data.csv", "way-in/notes.txt"):
        assert policy.decide(tool_named("Read"), {"file_path": str(home / outside)}).behavior == "ask"
    assert policy.decide(tool_named("Edit"), {"file_path": str(home / "proj/.git/config")}).behavior == "ask"
    assert policy.decide(tool_named("Bash"), {"command": "rm -rf ~/proj"}).behavior == "ask"


def test_a_root_behind_a_link_is_the_root(place):
    from cellwright.permissions.policy import PermissionPolicy

    linked = place.home / "way-in"
    policy = PermissionPolicy("acceptEdits", roots=[linked], cwd=linked)
    assert policy.decide(tool_named("Edit"), {"file_path": str(linked / "src/a.py")}).behavior == "allow"
    assert policy.decide(tool_named("Edit"), {"file_path": str(place.project / "src/a.py")}).behavior == "allow"
    assert policy.decide(tool_named("Edit"), {"file_path": str(place.home / "outside/x")}).behavior == "ask"
