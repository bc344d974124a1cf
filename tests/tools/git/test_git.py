from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.check_input import check_input
from cellwright.agent.calls.tool_results import json_of
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.git.git import git_tool

ENVIRONMENT = {
    "GIT_AUTHOR_DATE": "2024-03-01T10:00:00+01:00",
    "GIT_COMMITTER_DATE": "2024-03-01T10:00:00+01:00",
}


class Repository:
    """A small repository, read by the tool and changed by git itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder.parent), **ENVIRONMENT}
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True, env=environ).stdout

    def put(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def result(self, subcommand: str, *args: str, **more: Any) -> ToolResult:
        tool = git_tool(self.folder)
        tool_input = {"subcommand": subcommand, "args": list(args), **more}
        check_input(tool, tool_input)
        result = asyncio.run(tool.call(tool_input, ToolContext("", print)))
        assert isinstance(result, ToolResult)
        return result

    def text(self, subcommand: str, *args: str, **more: Any) -> str:
        content = self.result(subcommand, *args, **more).content
        assert isinstance(content, str)
        return content

    def facts(self, subcommand: str, *args: str) -> dict[str, Any]:
        structured: dict[str, Any] = json_of(self.result(subcommand, *args).structured, "Git")
        return structured

    def error(self, subcommand: str, *args: str, **more: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self.result(subcommand, *args, **more)
        return caught.value


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "project")
    made.folder.mkdir()
    made.git("init", "-q", "-b", "main")
    made.put("a.txt", "one\ntwo\nthree\n")
    made.put("src/b.py", "x = 1\n")
    made.commit("First things\n\nWith a body.")
    made.put("a.txt", "one\n2\nthree\n")
    made.commit("Second things")
    return made


def test_status(repository):
    assert "branch main\nNothing" in repository.text("status")
    repository.put("a.txt", "changed\n")
    repository.put("new\nfile", "")
    repository.put("src/staged.py", "")
    repository.git("add", "src/staged.py")
    repository.git("mv", "src/b.py", "src/c d.py")
    assert repository.text("status", "--short").splitlines() == [
        "On branch main",
        "Staged (2):",
        "  renamed: src/b.py -> src/c d.py",
        "  added: src/staged.py",
        "Not staged (1):",
        "  modified: a.txt",
        "Untracked (1):",
        "  new⏎file",
    ]
    facts = repository.facts("status")
    assert facts["branch"]["head"] == "main"
    assert {"path": "a.txt", "code": ".M", "unstaged": "modified"} in facts["entries"]
    assert {"path": "src/c d.py", "from": "src/b.py", "code": "R.", "staged": "renamed"} in facts["entries"]
    assert repository.text("status", "--", "src").count("\n") == 3
    assert "are relative to" in repository.text("status", path="src")


def test_status_of_a_conflict_and_of_a_branch_behind(repository):
    repository.git("checkout", "-q", "-b", "other", "HEAD~1")
    repository.git("branch", "-q", "--set-upstream-to=main")
    assert "Upstream main: 0" in repository.text("status")
    repository.put("a.txt", "mine\n")
    repository.commit("mine")
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "main")
    assert "Unmerged (1):\n  a.txt" in repository.text("status")


def test_log(repository):
    second, first = repository.git("log", "--format=%H").split()
    assert repository.text("log") == (
        f"commit {second} (HEAD -> main)\nAuthor: Ada <ada@example.org>\nDate: 2024-03-01T10:00:00+01:00\n\n"
        f"    Second things\n\n"
        f"commit {first}\nAuthor: Ada <ada@example.org>\nDate: 2024-03-01T10:00:00+01:00\n\n"
        "    First things\n    \n    With a body."
    )
    assert repository.text("log", "--oneline", "-1").endswith(" Second things")
    assert repository.text("log", "-n", "1", "--oneline", "main~1") == f"{first[:10]} First things"
    assert repository.text("log", "--oneline", "--", "src").endswith("First things")
    assert repository.text("log", "--oneline", "src").endswith("First things")
    assert repository.text("log", "--format=%h %s", "-1").endswith("Second things")
    assert "+2" in repository.text("log", "-p", "-1")
    assert " a.txt | 2 +-" in repository.text("log", "--stat", "-1", "--oneline")
    assert "* " in repository.text("log", "--graph", "--oneline")
    commits = repository.facts("log")["commits"]
    assert commits[1]["subject"] == "First things"
    assert commits[0]["parents"] == [first]
    assert commits[0]["refs"] == ["HEAD -> main"]
    assert repository.text("log", "--author=nobody") == "(nothing)"


def test_log_gives_fifty_commits_and_says_how_to_go_on(repository):
    stream = "".join(
        f"commit refs/heads/main\ncommitter Ada <ada@example.org> {number} +0000\ndata 2\nno\n" for number in range(54)
    )
    subprocess.run(
        ["git", "fast-import", "--quiet", "--force"], cwd=repository.folder, input=stream, text=True, check=True
    )
    text = repository.text("log", "--oneline")
    assert len(text.splitlines()) == 51
    assert "first 50 commits" in text
    assert "--skip=50" in text
    assert len(repository.text("log", "--oneline", "-n", "60").splitlines()) == 54


def test_diff(repository):
    assert repository.text("diff") == "No differences."
    repository.put("a.txt", "one\n2\nthree\nfour\n")
    assert "+four" in repository.text("diff")
    assert "+four" in repository.text("diff", "a.txt")
    assert repository.text("diff", "--", "src") == "No differences."
    assert repository.text("diff", "--cached") == "No differences."
    assert repository.text("diff", "--name-only", "HEAD~1") == "a.txt"
    assert "-two\n+2" in repository.text("diff", "HEAD~1..HEAD", "--", "a.txt")
    facts = repository.facts("diff", "HEAD~1")
    assert (facts["files"], facts["added"], facts["removed"]) == (["a.txt"], 2, 1)
    assert repository.text("diff", "--", str(repository.folder / "a.txt")).count("+four") == 1


def test_changed_lines_that_look_like_the_names_of_files_count(repository):
    repository.put("a.txt", "-- one\n")
    repository.git("add", "a.txt")
    # of another size: git takes a file for unchanged by its size and its time, where the clock is set back
    repository.put("a.txt", "++ one more\n")
    assert "\n--- one\n+++ one more" in repository.text("diff")
    facts = repository.facts("diff")
    assert (facts["added"], facts["removed"]) == (1, 1)


def test_a_path_through_a_link_to_the_repository(repository, tmp_path):
    (tmp_path / "alias").symlink_to(repository.folder)
    repository.put("a.txt", "changed\n")
    assert "+changed" in repository.text("diff", "--", str(tmp_path / "alias" / "a.txt"))


def test_show(repository):
    assert repository.text("show", "HEAD~1:a.txt") == "one\ntwo\nthree"
    assert "Second things" in repository.text("show")
    assert "+2" in repository.text("show", "HEAD")
    assert repository.facts("show")["commits"][0]["subject"] == "Second things"
    repository.git("tag", "-a", "v1", "-m", "a tag")
    assert "a tag" in repository.text("show", "v1")


def test_branches_and_descriptions(repository):
    repository.git("branch", "feature/x", "HEAD~1")
    lines = repository.text("branch").splitlines()
    assert [line.split()[:2] for line in lines] == [["feature/x", lines[0].split()[1]], ["*", "main"]]
    assert repository.text("branch", "--show-current") == "main"
    assert "feature/x" not in repository.text("branch", "--contains", "HEAD")
    assert "main" not in repository.text("branch", "feature/*")
    assert {"name": "main", "current": True}.items() <= repository.facts("branch", "-a")["branches"][1].items()
    assert repository.text("describe", "--always")
    repository.git("tag", "v1.0", "HEAD~1")
    assert repository.text("describe", "--tags").startswith("v1.0-1-g")
    assert "No names found" in repository.error("describe", "--match", "nothing").message


def test_remotes_show_no_passwords(repository):
    repository.git("remote", "add", "origin", "https://ada:hunter2@example.org/x.git")
    assert "https://***@example.org/x.git" in repository.text("remote")
    assert repository.text("remote", "get-url", "origin") == "https://***@example.org/x.git"
    assert "hunter2" not in repository.text("remote", "show", "origin")
    assert "hunter2" not in repository.text("config", "--list")


def test_blame(repository):
    second, first = repository.git("log", "--format=%H").split()
    assert repository.text("blame", "--", "a.txt").splitlines()[:2] == [
        f"{first[:10]} 2024-03-01 Ada{'':21}     1\tone",
        f"{second[:10]} 2024-03-01 Ada{'':21}     2\t2",
    ]
    assert repository.text("blame", "-L", "2,2", "a.txt").endswith("\t2")
    assert repository.text("blame", "-L2,2", "HEAD~1", "--", "a.txt").endswith("\ttwo")
    assert repository.facts("blame", "a.txt")["lines"][1]["summary"] == "Second things"
    assert "one file" in repository.error("blame").message


def test_files_and_configuration(repository):
    repository.put("ignored.log", "")
    repository.put(".gitignore", "*.log\n")
    assert repository.text("ls-files").splitlines() == ["a.txt", "src/b.py"]
    assert repository.text("ls-files", "--others", "--exclude-standard") == ".gitignore"
    repository.git("config", "user.name", "Ada")
    repository.git("config", "http.extraheader", "AUTHORIZATION: basic abc")
    assert repository.text("config", "user.name") == "Ada"
    assert repository.text("config", "--get", "user.nothing") == "(not set)"
    everything = repository.text("config")
    assert "user.name=Ada" in everything
    assert "core.fsmonitor" not in everything, "our own settings are not the user's"
    assert "http.extraheader=(withheld" in everything


def test_a_linked_work_tree_and_a_submodule_are_read(repository, tmp_path):
    repository.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    assert Repository(tmp_path / "linked").text("status").startswith("On branch linked")
    repository.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(repository.folder), "inner")
    assert Repository(repository.folder / "inner").text("log", "--oneline").endswith("First things")


def test_what_git_says_is_told(repository, tmp_path):
    assert "bad revision" in repository.error("log", "nowhere").message
    assert repository.error("log", path="a.txt").code == ErrorCode.FILE_PATH_INVALID
    assert repository.error("log", path="nowhere").code == ErrorCode.FILE_NOT_FOUND
    (tmp_path / "plain").mkdir()
    error = repository.error("status", path=str(tmp_path / "plain"))
    assert error.code == ErrorCode.FILE_PATH_INVALID
    assert "git repository" in error.message
    assert "Flags: " in repository.error("log", "--no-such-flag").message
    assert repository.error("log", timeout_seconds=1).code == ErrorCode.INVALID_PARAMETERS


def test_much_is_cut_with_the_way_to_go_on(repository):
    repository.put("big.txt", "".join(f"line {number}\n" for number in range(200_000)))
    repository.commit("big")
    text = repository.text("show", "HEAD")
    assert len(text) < 61_000
    assert "Cut after" in text
    assert "--stat" in text


def test_title_and_examples(repository):
    tool = git_tool(repository.folder)
    assert tool.title is not None
    assert tool.title({"subcommand": "log", "args": ["-n", "3"]}) == "git log -n 3"
    assert tool.read_only
    for example in tool.input_examples:
        check_input(tool, example)
