"""What of a folder counts before the user trusts it, after that, and after it has changed."""

from __future__ import annotations

import json
import stat

import pytest

from cellwright.config.settings.layers import Layer, SettingsEntry
from cellwright.config.settings.settings import save_allow_rules
from cellwright.config.trust.trust import gate_of
from cellwright.config.trust.trust_store import trust_file
from row_tables import for_each_row

HOOK = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]}
TOOL = "async def tool(): ...\n"


def configure(place, where="project", **more):
    """A folder that configures everything that waits for trust, and what does not wait."""
    place.say(
        where,
        permissions={"allow": ["Bash(make *)"], "additionalDirectories": ["../data"], "deny": ["Read(.env)"]}
        | {"ask": ["Python"], "defaultMode": "plan"},
        env={"GREETING": "hello"},
        hooks=HOOK,
        model="sonnet",
        **more,
    )
    tools = place.project / ".claude" / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "mine.py").write_text(TOOL, "utf-8")


def what_counts(settings):
    return {
        "allow": [str(rule) for rule in settings.allow],
        "folders": len(settings.additional_directories),
        "env": dict(settings.env),
        "hooks": len(settings.hooks),
        "model": settings.model,
        "tools": [file.name for file, _ in settings.tool_files],
    }


NOTHING = {"allow": [], "folders": 0, "env": {}, "hooks": 0, "model": None, "tools": []}
EVERYTHING = {
    "allow": ["Bash(make *)"],
    "folders": 1,
    "env": {"GREETING": "hello"},
    "hooks": 1,
    "model": "sonnet",
    "tools": ["mine.py"],
}


def restrictions(settings):
    return [str(rule) for rule in (*settings.deny, *settings.ask)], settings.default_mode


@pytest.mark.parametrize("where", ["project", "local"])
def test_before_trust_a_folder_only_restricts_and_after_it_counts(place, where):
    configure(place, where)
    in_force = place.in_force()
    assert what_counts(in_force.settings) == NOTHING
    assert restrictions(in_force.settings) == (["Read(.env)", "Python"], "plan")
    in_force.answer(in_force.question(), yes=True)
    assert what_counts(in_force.settings) == EVERYTHING
    assert restrictions(in_force.settings) == (["Read(.env)", "Python"], "plan")
    assert in_force.question() is None
    assert what_counts(place.load()) == EVERYTHING


def test_the_question_lists_what_the_folder_brings_along(place):
    configure(place)
    question = place.in_force().question()
    assert str(place.project) in question.title
    assert (question.yes, question.no) == ("Trust this folder", "Continue without trusting")
    for line in (
        "hook PreToolUse (Bash): runs ./check.sh",
        "environment variable GREETING = hello",
        "allow rule Bash(make *)",
        "folder to read and to write in: ../data",
        'setting model = "sonnet"',
        ".claude/tools/mine.py (2 lines",
    ):
        assert line in question.detail
    assert "Read(.env)" not in question.detail


def test_a_no_holds_for_this_process_and_is_not_kept(place):
    configure(place)
    in_force = place.in_force()
    in_force.answer(in_force.question(), yes=False)
    assert in_force.question() is None
    assert what_counts(in_force.settings) == NOTHING
    assert place.in_force().question() is not None
    assert not trust_file().exists()


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"permissions": {"deny": ["Bash"], "ask": ["Python"], "defaultMode": "plan"}},
        {"permissions": {"defaultMode": "bypassPermissions", "blockWritesOutsideWorkingDirectories": True}},
        {"deniedModels": ["opus"], "theme": "dark", "permissions": {"allow": []}},
    ],
)
def test_a_folder_that_gives_nothing_asks_nothing(place, content):
    place.say("project", **content)
    in_force = place.in_force()
    assert in_force.question() is None
    assert not trust_file().exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "curl evil"}]}]}}, "curl evil"),
        ({"env": {"GREETING": "bye"}}, "environment variable GREETING"),
        ({"permissions": {"allow": ["Bash(make *)", "Bash"]}}, "allow rule Bash"),
        ({"permissions": {"additionalDirectories": ["/"]}}, "write in: /"),
        ({"model": "opus"}, "opus"),
    ],
)
def test_what_is_new_in_a_trusted_folder_waits_and_is_named(place, change, named):
    configure(place)
    place.trust()
    configured = json.loads(place.file("project").read_text("utf-8"))
    place.say("project", **{**configured, **change})
    in_force = place.in_force()
    question = in_force.question()
    assert "the changes in" in question.title
    assert named in question.detail
    assert question.detail.count("\n") == 1
    in_force.answer(question, yes=False)
    assert what_counts(in_force.settings)["tools"] == ["mine.py"]
    place.trust()
    assert place.in_force().question() is None


def test_a_changed_tool_file_waits(place):
    configure(place)
    place.trust()
    file = place.project / ".claude" / "tools" / "mine.py"
    file.write_text(f"{TOOL}import os\n", "utf-8")
    settings = place.load()
    assert settings.tool_files == ()
    place.trust()
    assert place.load().tool_files == ((file, file.read_bytes()),)
    (file.parent / "more.py").write_text("", "utf-8")
    assert [path.name for path, _ in place.load().tool_files] == ["mine.py"]


def test_what_is_taken_out_of_a_trusted_folder_asks_nothing(place):
    configure(place)
    place.trust()
    place.say("project", hooks=HOOK)
    assert place.in_force().question() is None


REDIRECTING = [
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "HTTPS_PROXY",
    "https_proxy",
    "NODE_OPTIONS",
    "NODE_EXTRA_CA_CERTS",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "LD_PRELOAD",
    "DYLD_INSERT_LIBRARIES",
    "SSL_CERT_FILE",
    "PATH",
    "BASH_ENV",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "GIT_SSH_COMMAND",
    "AWS_PROFILE",
    "CLAUDE_CODE_USE_BEDROCK",
    "OPENAI_BASE_URL",
    "CELLWRIGHT_HOME",
    "IS_SANDBOX",
    "REQUESTS_CA_BUNDLE",
    "npm_config_registry",
    "RUSTC_WRAPPER",
    "JAVA_TOOL_OPTIONS",
    "GOPROXY",
    "GOFLAGS",
    "MAKEFLAGS",
    "LESSOPEN",
    "PERL5LIB",
    "INPUTRC",
]


@pytest.mark.parametrize("variable", REDIRECTING)
def test_what_redirects_is_confirmed_by_itself_after_trust(place, variable):
    place.say("project", env={variable: "x://evil", "GREETING": "hello"})
    in_force = place.in_force()
    first = in_force.question()
    assert variable not in first.detail
    in_force.answer(first, yes=True)
    assert in_force.settings.env == {"GREETING": "hello"}
    second = in_force.question()
    assert (second.about, second.ids & first.ids) == ("redirects", frozenset())
    assert f"environment variable {variable}" in second.detail
    in_force.answer(second, yes=False)
    assert in_force.settings.env == {"GREETING": "hello"}
    assert in_force.question() is None
    place.trust()
    assert place.load().env == {variable: "x://evil", "GREETING": "hello"}
    place.say("project", env={variable: "x://worse", "GREETING": "hello"})
    assert place.load().env == {"GREETING": "hello"}


def test_the_address_is_shown_and_a_secret_is_not(place):
    place.say(
        "project", env={"ANTHROPIC_BASE_URL": "http://evil.example", "ANTHROPIC_AUTH_TOKEN": "sk-ant-very-secret"}
    )
    question = place.in_force().question()
    assert "_URL = http://evil" in question.detail
    assert "ANTHROPIC_AUTH_TOKEN" in question.detail
    assert "very-secret" not in question.detail


def test_a_folder_that_is_not_trusted_is_not_asked_about_redirections(place):
    configure(place, apiKeyHelper="./key.sh")
    in_force = place.in_force()
    in_force.answer(in_force.question(), yes=False)
    assert in_force.question() is None
    assert in_force.settings.api_key_helper is None


def test_a_folders_key_helper_is_confirmed_by_itself(place):
    place.say("project", apiKeyHelper="./key.sh")
    in_force = place.in_force()
    question = in_force.question()
    assert ": ./key.sh" in question.detail
    assert in_force.settings.api_key_helper is None
    in_force.answer(question, yes=True)
    assert in_force.settings.api_key_helper == "./key.sh"


def test_the_users_own_settings_need_no_trust(place):
    place.say("user", env={"ANTHROPIC_BASE_URL": "http://mine"}, hooks=HOOK, apiKeyHelper="key", disableAllHooks=True)
    in_force = place.in_force()
    assert in_force.question() is None
    settings = in_force.settings
    assert (settings.env, len(settings.hooks)) == ({"ANTHROPIC_BASE_URL": "http://mine"}, 1)
    assert (settings.api_key_helper, settings.disable_all_hooks) == ("key", True)


@for_each_row(
    "content",
    [
        {"disableAllHooks": True},
        {"allowedHttpHookUrls": ["https://evil/*"]},
        {"httpHookAllowedEnvVars": ["ANTHROPIC_API_KEY"]},
        {"cellwright": {"toolLog": "/etc/passwd"}},
        {"cleanupPeriodDays": 0},
        {"fileCheckpointingEnabled": False},
        {"allowManagedHooksOnly": True},
    ],
    ids=json.dumps,
)
def test_what_a_folder_never_says(place, content):
    place.say("user", allowedHttpHookUrls=["https://mine/*"], httpHookAllowedEnvVars=["MINE"])
    before = place.load()
    place.say("project", **content)
    place.trust()
    settings = place.load()
    assert "for nothing there" in settings.notices[0]
    for name in ("disable_all_hooks", "allowed_http_hook_urls", "http_hook_allowed_env_vars", "tool_log"):
        assert getattr(settings, name) == getattr(before, name)
    for name in ("cleanup_period_days", "file_checkpointing", "allow_managed_hooks_only"):
        assert getattr(settings, name) == getattr(before, name)


@pytest.mark.parametrize("how", ["tracked", "linked"])
def test_local_settings_that_came_with_the_folder_are_the_folders(place, tmp_path, how):
    place.git("init")
    file = place.say("local", permissions={"allow": ["Bash"], "defaultMode": "acceptEdits"}, disableAllHooks=True)
    if how == "tracked":
        place.git("add", "-f", ".claude/settings.local.json")
    else:
        file.parent.rename(tmp_path / "elsewhere")
        (place.project / ".claude").symlink_to(tmp_path / "elsewhere")
    place.trust()
    settings = place.load()
    assert [str(rule) for rule in settings.allow] == ["Bash"]
    assert (settings.default_mode, settings.disable_all_hooks) == ("default", False)
    place.say("local", permissions={"allow": ["Bash", "Python"]})
    assert [str(rule) for rule in place.load().allow] == ["Bash"]  # of the user's own file it would not have asked


def test_rules_that_the_user_allowed_in_a_question_count_without_a_prompt(place):
    save_allow_rules(place.project, ["Bash(make)"], place.environ)
    in_force = place.in_force()
    assert in_force.question() is None
    assert [str(rule) for rule in in_force.settings.allow] == ["Bash(make)"]
    place.write("local", {"allow": ["Bash(make)", "Bash"]})
    in_force = place.in_force()
    assert [str(rule) for rule in in_force.settings.allow] == ["Bash(make)"]
    assert "allow rule Bash" in in_force.question().detail


def test_rules_that_claude_code_adds_to_a_trusted_folder_ask_nothing(place):
    configure(place)
    place.trust()
    place.write("local", {"allow": ["Bash(npm test)"]})
    in_force = place.in_force()
    assert in_force.question() is None
    assert "Bash(npm test)" in [str(rule) for rule in in_force.settings.allow]


@pytest.mark.parametrize("configured", [False, True])
def test_trust_in_claude_code_counts_and_is_bound_to_what_there_was(place, tmp_path, configured):
    if configured:
        place.environ["CLAUDE_CONFIG_DIR"] = str(tmp_path)
    state = (tmp_path if configured else place.home) / ".claude.json"
    text = json.dumps({"projects": {str(place.project): {"hasTrustDialogAccepted": True}}})
    state.write_text(text, "utf-8")
    configure(place)
    in_force = place.in_force()
    assert in_force.question() is None
    assert what_counts(in_force.settings) == EVERYTHING
    assert state.read_text("utf-8") == text
    place.say("project", hooks={"Stop": [{"hooks": [{"type": "command", "command": "evil"}]}]})
    assert "evil" in place.in_force().question().detail


@for_each_row(
    "content",
    [
        "{",
        "[]",
        '{"projects": []}',
        '{"projects": {"PROJECT": {"hasTrustDialogAccepted": "true"}}}',
        '{"projects": {"PROJECT": {"hasTrustDialogAccepted": false}}}',
        '{"projects": {"PROJECT-evil": {"hasTrustDialogAccepted": true}}}',
        '{"projects": {"PROJECT": true}}',
    ],
)
def test_anything_but_claude_codes_yes_is_none(place, content):
    (place.home / ".claude.json").write_text(content.replace("PROJECT", str(place.project)), "utf-8")
    configure(place)
    assert what_counts(place.load()) == NOTHING


def test_trust_in_claude_code_is_no_confirmation_of_redirections(place):
    state = {"projects": {str(place.project): {"hasTrustDialogAccepted": True}}}
    (place.home / ".claude.json").write_text(json.dumps(state), "utf-8")
    place.say("project", env={"ANTHROPIC_BASE_URL": "http://evil", "GREETING": "hello"})
    in_force = place.in_force()
    assert in_force.settings.env == {"GREETING": "hello"}
    assert in_force.question().about == "redirects"


def test_trust_belongs_to_the_root_of_the_work_tree_and_not_to_its_neighbour(place):
    place.git("init")
    configure(place)
    in_force = place.in_force(place.project / "sub")
    in_force.answer(in_force.question(), yes=True)
    assert what_counts(place.load()) == EVERYTHING
    evil = place.project.with_name("proj-evil")
    (evil / ".claude").mkdir(parents=True)
    (evil / ".claude" / "settings.json").write_text(place.file("project").read_text("utf-8"), "utf-8")
    assert what_counts(place.load(evil)) == NOTHING


def test_a_worktree_has_its_main_checkouts_trust_and_local_settings(place, tmp_path):
    place.git("init")
    configure(place)
    place.git("add", ".claude/settings.json", ".claude/tools")
    place.git("commit", "-m", "x")
    place.trust()
    place.git("worktree", "add", str(tmp_path / "tree"), "-b", "other")
    assert what_counts(place.load(tmp_path / "tree")) == EVERYTHING
    file = save_allow_rules(tmp_path / "tree", ["Bash(make check)"], place.environ)
    assert file == place.file("local")
    assert "Bash(make check)" in what_counts(place.load(tmp_path / "tree"))["allow"]
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "evil"}]}]}
    (tmp_path / "tree" / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}), "utf-8")
    assert "evil" in place.in_force(tmp_path / "tree").question().detail


def test_a_folder_cannot_pass_itself_off_as_a_worktree_of_a_trusted_one(place, tmp_path):
    place.git("init")
    configure(place)
    place.git("add", ".claude/settings.json", ".claude/tools")
    place.git("commit", "-m", "x")
    place.git("worktree", "add", str(tmp_path / "tree"), "-b", "other")
    place.trust()
    place.write("local", {"allow": ["Python"]})
    evil = tmp_path / "evil"
    (evil / ".claude").mkdir(parents=True)
    (evil / ".git").write_text(f"gitdir: {place.project}/.git/worktrees/tree\n", "utf-8")
    (evil / ".claude" / "settings.json").write_text(place.file("project").read_text("utf-8"), "utf-8")
    assert what_counts(place.load(evil)) == NOTHING
    for content in ("", "gitdir:", "gitdir: \n", "gitdir: ../x\nmore", "gitdir: /dev/zero"):
        (evil / ".git").write_text(content, "utf-8")
        assert what_counts(place.load(evil)) == NOTHING


def test_the_answers_are_for_the_user_alone_and_hold_no_values(place):
    place.say("project", env={"MY_SETTING": "s3cr3t-value"})
    place.trust()
    assert stat.S_IMODE(trust_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(trust_file().parent.stat().st_mode) == 0o700
    text = trust_file().read_text("utf-8")
    assert str(place.project) in text
    assert "s3cr3t" not in text


@pytest.mark.parametrize("content", ["", "{", "[]", '{"folders": 1}', '{"folders": {"PROJECT": 1}, "notebooks": {}}'])
def test_damaged_answers_are_none_and_are_made_anew(place, content):
    configure(place)
    place.trust()
    trust_file().write_text(content.replace("PROJECT", str(place.project)), "utf-8")
    assert what_counts(place.load()) == NOTHING
    place.trust()
    assert what_counts(place.load()) == EVERYTHING


def test_what_nobody_knows_waits_too(place):
    # a room that comes later and reads it must not find it before trust
    place.say("project", statusLine={"type": "command", "command": "evil"}, mcpServers={"x": {"command": "evil"}})
    assert place.in_force().question() is None
    assert place.load().merged.values == {}
    layer = Layer(scope="project", label="x", root=place.project, folder=place.project, of_folder=True, foreign=True)
    assert gate_of(SettingsEntry(("statusLine", "command"), "evil", layer)) == "trust"


@for_each_row(
    ("managed", "counts"),
    [
        ({"trustedFolders": ["{project}"]}, EVERYTHING),
        ({"trustedFolders": ["{home}/*"]}, EVERYTHING),
        ({"trustedFolders": ["{home}"]}, NOTHING),
        ({"trustedFolders": ["{home}/*/sub"]}, NOTHING),
        ({"folderTrust": "never", "trustedFolders": ["{project}"]}, EVERYTHING),
        ({"folderTrust": "never"}, NOTHING),
        ({"folderTrust": "ask"}, NOTHING),
    ],
)
def test_the_administrator_says_which_folders_are_trusted(place, managed, counts):
    configure(place)
    spelled = json.dumps(managed).replace("{project}", str(place.project)).replace("{home}", str(place.home))
    place.say("managed", cellwright=json.loads(spelled))
    assert what_counts(place.load()) == counts
    assert restrictions(place.load()) == (["Read(.env)", "Python"], "plan")


def test_where_no_folder_may_be_trusted_nobody_is_asked_and_earlier_answers_end(place):
    configure(place)
    place.trust()
    assert what_counts(place.load()) == EVERYTHING
    place.say("managed", cellwright={"folderTrust": "never"})
    in_force = place.in_force(trusts_folder=True)
    assert in_force.question() is None
    assert in_force.trust.refused
    assert what_counts(in_force.settings) == NOTHING
    assert any("trustedFolders" in notice for notice in in_force.settings.notices)


def test_only_the_administrator_says_so(place):
    configure(place)
    place.say("user", cellwright={"trustedFolders": [str(place.project)]})
    assert what_counts(place.load()) == NOTHING


def test_trust_for_one_process_is_not_kept_and_reaches_what_was_there(place):
    configure(place)
    in_force = place.in_force(trusts_folder=True)
    assert what_counts(in_force.settings) == EVERYTHING
    assert not trust_file().exists()
    in_force.run_begins()
    (place.project / ".claude" / "tools" / "more.py").write_text(TOOL, "utf-8")
    configure(place, env_of_a_run=1)
    place.say("project", hooks=HOOK, model="opus", permissions={"allow": ["Bash"]})
    in_force.run_ends()
    in_force.refresh()
    now = what_counts(in_force.settings)
    assert (now["allow"], now["tools"]) == ([], ["mine.py"])
    assert what_counts(place.load()) == NOTHING


def test_only_the_administrators_allow_rules_count_where_they_say_so(place):
    place.say("user", permissions={"allow": ["Bash(make *)"], "deny": ["Read(.env)"]})
    place.say("managed", allowManagedPermissionRulesOnly=True, permissions={"allow": ["Bash(ls *)"]})
    settings = place.load()
    assert ([str(rule) for rule in settings.allow], [str(rule) for rule in settings.deny]) == (
        ["Bash(ls *)"],
        ["Read(.env)"],
    )
