"""What a child gets of the environment, as a table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.tools.process.environment import child_environment
from row_tables import for_each_row


@for_each_row(
    "name",
    [
        *(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "OPENAI_API_KEY",
        ),
        *("openai_api_key", "GEMINI_APIKEY", "GITHUB_TOKEN", "GH_TOKEN", "HF_TOKEN", "NPM_TOKEN", "GITLAB_PAT"),
        *(
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_SECURITY_TOKEN",
            "AWS_BEARER_TOKEN_BEDROCK",
        ),
        *(
            "AWS_CONTAINER_AUTHORIZATION_TOKEN",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "AZURE_CLIENT_SECRET",
            "JUPYTER_TOKEN",
        ),
        *("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JPY_PARENT_PID", "JPY_SESSION_NAME", "DB_PASSWORD", "PGPASSWORD"),
        *("MYSQL_PWD", "REDIS_PASS", "MY_SECRET_THING", "SECRETKEY", "SSH_KEY", "STRIPE_KEY", "SENTRY_DSN", "NPM_AUTH"),
        *("SESSION_COOKIE", "GPG_PASSPHRASE", "SLACK_TOKENS", "CELLWRIGHT_SEARCH_API_KEY", "DB_CONNECTION_STRING"),
    ],
)
def test_secrets_are_withheld_by_name(name):
    assert name not in child_environment({name: "value"})


@for_each_row(
    "value",
    [
        *(
            "sk-ant-api03-abcdefgh",
            "ghp_abcdefgh12345678",
            "github_pat_abcdefgh1234",
            "xoxb-12345678-abc",
            "AKIAABCDEFGH1234",
        ),
        *("glpat-abcdefgh1234", "hf_abcdefgh1234", "eyJhbGciOi.eyJzdWIiOi.abc", "-----BEGIN RSA PRIVATE KEY-----\nx"),
        *("postgres://ada:secret@host/db", "https://user:pw@example.org/x"),
    ],
)
def test_secrets_are_withheld_by_value(value):
    assert "INNOCENT" not in child_environment({"INNOCENT": value})


@for_each_row(
    "name",
    [
        *(
            "BASH_ENV",
            "ENV",
            "BASH_FUNC_ls%%",
            "SHELLOPTS",
            "BASHOPTS",
            "PS4",
            "PROMPT_COMMAND",
            "CDPATH",
            "GLOBIGNORE",
        ),
        *("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONSTARTUP", "PYTHONINSPECT", "PERL5OPT", "RUBYOPT"),
        *("LESSOPEN", "GIT_EXTERNAL_DIFF", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"),
    ],
)
def test_what_would_run_code_or_colour_output_goes(name):
    assert name not in child_environment({name: "x"})


@for_each_row(
    ("name", "value"),
    [
        *(("HOME", "/home/ada"), ("LANG", "C.UTF-8"), ("PWD", "/x"), ("OLDPWD", "/y"), ("SSH_AUTH_SOCK", "/tmp/agent")),
        *(("AWS_REGION", "eu-1"), ("AWS_PROFILE", "dev"), ("AWS_CA_BUNDLE", "/ca.pem"), ("SSL_CERT_FILE", "/ca.pem")),
        *(("LD_LIBRARY_PATH", "/cuda"), ("PYTHONPATH", "/src"), ("VIRTUAL_ENV", "/venv"), ("CONDA_PREFIX", "/conda")),
        *(("TOKENIZERS_PARALLELISM", "false"), ("KEYBOARD", "us"), ("CUDA_VISIBLE_DEVICES", "0"), ("DISPLAY", ":0")),
        *(
            ("HTTPS_PROXY", "http://user:pw@proxy:3128"),
            ("http_proxy", "http://proxy"),
            ("EDITOR", "vim"),
            ("URL", "https://x.org"),
        ),
        *(("MPLBACKEND", "agg"), ("NODE_OPTIONS", "--max-old-space-size=4096"), ("AUTHOR", "Ada"), ("MONKEY", "x")),
    ],
)
def test_the_rest_stays(name, value):
    assert child_environment({name: value})[name] == value


def test_what_is_added():
    environ = child_environment({"PAGER": "less", "GIT_PAGER": "delta", "TERM": "xterm-color", "CLAUDECODE": "0"})
    expected = {"CLAUDECODE": "1", "PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}
    expected["GIT_OPTIONAL_LOCKS"] = "0"
    assert {name: environ[name] for name in expected} == expected


@pytest.mark.parametrize(
    "users",
    [
        {},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "diff.noprefix", "GIT_CONFIG_VALUE_0": "true"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "diff.autoRefreshIndex", "GIT_CONFIG_VALUE_0": "true"},
    ],
)
def test_git_diff_leaves_the_index_as_it_is(tmp_path, users):
    environ = child_environment({**os.environ, **users})

    def git(*arguments: str) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        command = ["git", *name, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environ, check=True, capture_output=True, text=True).stdout

    file = tmp_path / "notes.txt"
    file.write_text("one\n")
    git("init", "-q")
    git("add", "notes.txt")
    git("commit", "-qm", "first")
    os.utime(file, (1, 1))
    index = (tmp_path / ".git" / "index").read_bytes()
    assert git("diff") == ""
    assert (tmp_path / ".git" / "index").read_bytes() == index
    file.write_text("two\n")
    own = "+++ notes.txt" if "diff.noprefix" in users.values() else "+++ b/notes.txt"
    assert f"{own}\n@@ -1 +1 @@\n-one\n+two\n" in git("diff")


def test_secret_settings_of_git_stay_here():
    settings = [
        ("http.extraHeader", "Authorization: x"),
        ("user.name", "Ada"),
        ("github.token", "x"),
        ("core.abbrev", "9"),
    ]
    given = {
        f"GIT_CONFIG_{kind}_{n}": pair[at]
        for n, pair in enumerate(settings)
        for at, kind in enumerate(("KEY", "VALUE"))
    }
    environ = child_environment({**given, "GIT_CONFIG_COUNT": str(len(settings))})
    kept = [(environ[f"GIT_CONFIG_KEY_{n}"], environ[f"GIT_CONFIG_VALUE_{n}"]) for n in range(3)]
    assert kept == [("user.name", "Ada"), ("core.abbrev", "9"), ("diff.autoRefreshIndex", "false")]
    assert environ["GIT_CONFIG_COUNT"] == "3"
    assert "GIT_CONFIG_KEY_3" not in environ


def test_a_count_that_git_refuses_is_left_to_git():
    assert child_environment({"GIT_CONFIG_COUNT": "many"})["GIT_CONFIG_COUNT"] == "many"


def test_the_notebooks_matplotlib_backend_is_not_a_scripts():
    assert "MPLBACKEND" not in child_environment({"MPLBACKEND": "module://matplotlib_inline.backend_inline"})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/bin:/bin", "/venv/bin:/usr/bin:/bin"),
        ("/usr/bin:/venv/bin:/bin", "/venv/bin:/usr/bin:/bin"),
        # an empty or relative entry would run what the folder brings along
        (".:/usr/bin::bin:/bin:", "/venv/bin:/usr/bin:/bin"),
        ("", "/venv/bin"),
    ],
)
def test_this_interpreters_programs_go_first(path, expected):
    assert child_environment({"PATH": path}, Path("/venv/bin"))["PATH"] == expected


def test_without_a_path_there_is_one():
    first, *rest = child_environment({})["PATH"].split(":")
    assert first == str(Path(sys.executable).parent)
    assert rest


def test_what_is_given_is_not_changed():
    environ = {"ANTHROPIC_API_KEY": "x", "PATH": "/bin"}
    child_environment(environ)
    assert environ == {"ANTHROPIC_API_KEY": "x", "PATH": "/bin"}
