"""Git works in a sandbox with the user's configuration, and nobody reads the secrets in that."""

from __future__ import annotations

import itertools
import os
import stat
import string
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.agent.calls.approval import Confinement
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxRules
from cellwright.sandbox.git_configuration import (
    Entry,
    entries_of_text,
    git_configuration,
    is_secret_setting,
    write_copy,
)
from cellwright.sandbox.private_folder import PrivateFolder
from confined import Confined
from declared_tools import tool_named
from eventual import paces

SECRET = "hunter2CanaryX9"
"""In each secret of the files: what shows it shows one."""

SECRETS = {
    "github.token": f"ghp_{SECRET}",
    "gitlab.accessToken": SECRET,
    "service.apiKey": SECRET,
    "hub.oauthtoken": SECRET,
    "user.password": SECRET,
    "sendemail.smtppass": SECRET,
    "sendemail.work.smtpPass": SECRET,
    "imap.pass": SECRET,
    "azure.pat": SECRET,
    "http.extraheader": f"Authorization: Bearer {SECRET}",
    "http.https://example.org/.extraHeader": f"X-Private: {SECRET}",
    "http.cookiefile": f"/{SECRET}",
    "http.proxy": f"http://ada:{SECRET}@proxy:8080",
    "https.proxy": f"ada:{SECRET}@proxy:8080",
    "remote.mirror.url": f"https://ada:{SECRET}@example.org/x",
    "remote.token.url": f"https://ghp_{SECRET}x12@example.org/x",
    f"url.https://ada:{SECRET}@example.org/.insteadOf": "https://example.org/",
    f"url.https://oauth2:{SECRET}@gitlab.com/.pushInsteadOf": "git@gitlab.com:",
    "credential.helper": f"!f() {{ echo username=ada; echo password={SECRET}; }}; f",
    "credential.https://example.org.helper": f"store --file /{SECRET}",
    f"credential.https://ada:{SECRET}@example.org.username": "ada",
    "alias.issues": f"!curl -H 'Authorization: token {SECRET}' https://example.org",
    "alias.login": f"!curl -u ada:{SECRET} https://example.org",
    "alias.deploy": f"!GITHUB_TOKEN={SECRET} deploy",
    "alias.ask": f"!tool --password {SECRET}",
    "core.sshCommand": f"sshpass -p {SECRET} ssh",
    "my.value": f"{SECRET}000aaa111",
    "my.other": f"glpat-{SECRET}",
}

KEPT = {
    "user.name": "Ada Lovelace",
    "user.email": "ada@example.org",
    "user.signingkey": "0123456789ABCDEF0123456789ABCDEF01234567",
    "alias.lg": "log --graph --pretty=format:'%h %s' --abbrev-commit",
    "alias.st": "status --short",
    "alias.top": "!git rev-parse --show-toplevel",
    "init.defaultbranch": "trunk",
    "core.editor": "vim -c 'set tw=72' # not a comment",
    "core.quotepath": "false",
    "credential.helper": "cache --timeout=3600",
    "credential.https://example.org.username": "ada",
    "url.git@github.com:.insteadof": "gh:",
    "filter.lfs.clean": "git-lfs clean -- %f",
    "delta.side-by-side": "true",
    "pager.diff": 'delta "x"\\y\ttab',
    "safe.directory": "*",
    "http.proxy": "http://proxy:8080",
    "color.ui": "auto",
}

SHOWING = (
    *(
        "git config -l",
        "git var -l",
        "git config --show-origin -l",
        "git config --global -l",
        "git config github.token | rev",
    ),
    *(
        "git config --get-all github.token",
        "git config --get-regexp .",
        "grep -h '' ~/.gitconfig",
        "cat ~/.config/git/*",
    ),
    *(
        "cat ~/.git-credentials",
        "git -c include.path=$HOME/.gitconfig config -l",
        "env -u GIT_CONFIG_GLOBAL git config -l",
    ),
    *("GIT_CONFIG_GLOBAL=$HOME/.gitconfig git config -l", "git config -f ~/.gitconfig -l", "cat ~/included ~/work.inc"),
    *("cat $GIT_CONFIG_GLOBAL; cat $(dirname $GIT_CONFIG_GLOBAL)/*", "cp ~/.gitconfig $TMPDIR/x; cat $TMPDIR/x"),
    *(
        "awk 1 ~/.gitconfig",
        "git diff --no-index /dev/null ~/.gitconfig",
        "git hash-object -w ~/.gitconfig",
        "git remote -v",
    ),
    *("cat /proc/self/root$HOME/.gitconfig", "ln ~/.gitconfig $TMPDIR/y; cat $TMPDIR/y", "cat ~/link-to-it", "env"),
)


@pytest.fixture
def home(own_place: Path, root: Path) -> Path:
    """A home whose git is configured in each place and each way, secrets and all, and a repository as the project."""
    (own_place / ".config/git").mkdir(parents=True)
    names = itertools.cycle((".gitconfig", ".config/git/config", "included", "work.inc", "deep/nested.inc"))
    (own_place / "deep").mkdir()
    for (key, value), name in zip((*SECRETS.items(), *KEPT.items()), names, strict=False):
        set_in(own_place / name, key, value)
    set_in(own_place / ".gitconfig", "include.path", "included")
    set_in(own_place / ".gitconfig", f"includeIf.gitdir:{root}/.path", "~/work.inc")
    set_in(own_place / "included", "include.path", "./deep/nested.inc")
    set_in(own_place / "included", "include.path", "missing")
    set_in(own_place / ".gitconfig", "core.excludesfile", "~/.ignored-everywhere")
    (own_place / ".ignored-everywhere").write_text("*.everywhere\n", "utf-8")
    (own_place / ".config/git/attributes").write_text("*.x diff=y\n", "utf-8")
    (own_place / ".git-credentials").write_text(f"https://ada:{SECRET}@example.org\n", "utf-8")
    with (own_place / ".gitconfig").open("a", encoding="utf-8") as file:
        file.write(f"# token = {SECRET}\n")
    (own_place / "link-to-it").symlink_to(".gitconfig")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "a.everywhere").touch()
    return own_place


def set_in(file: Path, key: str, value: str) -> None:
    subprocess.run(["git", "config", "-f", str(file), "--add", key, value], check=True)


def listed(*arguments: str, cwd: Path) -> list[str]:
    whole = subprocess.run(["git", *arguments, "-z"], cwd=cwd, check=False, capture_output=True, text=True)
    return [each for each in whole.stdout.split("\0") if each]


def policies(home: Path, root: Path, confined: Confined) -> Iterator[tuple[str, PermissionPolicy]]:
    rules = {"alone": SandboxRules(means=confined.sandbox.abilities)}
    rules["for all"] = SandboxRules(means=confined.sandbox.abilities, enabled=True)
    for (name, sandbox), mode, folder in itertools.product(
        rules.items(), ("default", "plan", "acceptEdits"), (root, home)
    ):
        yield (
            f"{name}, {mode}, in {folder.name}",
            PermissionPolicy(mode=mode, roots=[folder, root], cwd=root, sandbox=sandbox),
        )


def test_no_command_shows_a_secret_of_gits_configuration(confined: Confined, home: Path, root: Path) -> None:
    bounds: dict[Confinement, str] = {
        Confinement(read=(str(root),)): "reading",
        Confinement(read=(str(home), str(root))): "reading the home",
        Confinement(read=("/",)): "reading everything",
    }
    for name, policy in policies(home, root, confined):
        for command in ("awk '{print $1}' x", "touch new", "make"):
            if found := policy.decide(tool_named("Bash"), {"command": command}).confinement:
                bounds.setdefault(replace(found, hosts=None), name)
    assert len(bounds) > 3
    script = "".join(f"echo '=====' ; {command} 2>&1\n" for command in SHOWING)
    shown, tried = {}, 0
    for confinement, name in bounds.items():
        # beside what is hidden below `/` there may be too much for Landlock: then nothing runs
        if confined.sandbox.can_enforce(confinement):
            continue
        tried += 1
        ended = confined.bash(script, confinement)
        for command, output in zip(SHOWING, ended.output.split("=====\n")[1:], strict=True):
            if SECRET in output or SECRET in output[::-1]:
                shown[name, command] = output
    assert shown == {}
    assert tried >= 3
    # with what it may show, to be sure that it shows anything
    assert (
        SECRET in subprocess.run(["git", "config", "-l"], cwd=root, check=True, capture_output=True, text=True).stdout
    )


def test_what_is_no_secret_is_as_outside(confined: Confined, home: Path, root: Path) -> None:
    for confinement in (Confinement(read=(str(root),)), Confinement(read=(str(home), str(root)))):
        ended = confined.bash("git config -l -z --global --includes | tr '\\0' '\\1'", confinement)
        assert ended.code == 0, ended.output
        inside = [each for each in ended.output.split("\1") if each]
        system = listed("config", "-l", "--system", cwd=root)
        outside = [each for each in listed("config", "-l", "--includes", cwd=root) if each not in system]
        missing = {each.partition("\n")[0] for each in outside if each not in inside}
        kept = {key.rpartition(".")[0] + "." + key.rpartition(".")[2].lower(): value for key, value in KEPT.items()}
        assert [f"{key}\n{value}" for key, value in kept.items() if f"{key}\n{value}" not in inside] == []
        assert [each for each in missing if not any(each == normal(key) for key in SECRETS) and not beside(each)] == []
        assert [each for each in inside if each not in outside and not beside(each.partition("\n")[0])] == []
        ended = confined.bash(
            "git init -q $TMPDIR/n && git -C $TMPDIR/n branch --show-current; git st; git top", confinement
        )
        assert ended.output == f"trunk\n{root}\n", ended.output


def normal(key: str) -> str:
    before, _, name = key.rpartition(".")
    section, dot, subsection = before.partition(".")
    return f"{section.lower()}{dot}{subsection}.{name.lower()}"


def beside(key: str) -> bool:
    """Settings of the repository and of the includes themselves, whose values differ."""
    return key.startswith(("core.", "include", "diff.autorefreshindex"))


def test_git_works_with_its_files_hidden(confined: Confined, home: Path, root: Path) -> None:
    (home / ".config/git/ignore").write_text("*.ignored\n", "utf-8")
    (root / "b.ignored").touch()
    set_in(home / ".gitconfig", "core.attributesfile", "~/attributes")
    (home / "attributes").write_text("*.py text\n", "utf-8")
    ended = confined.bash(
        "git status --short && git log --oneline -1; git check-attr text -- a.py; git check-ignore -v a.everywhere"
    )
    assert "denied" not in ended.output, ended.output
    assert "a.py: text: set" in ended.output
    assert ".ignored-everywhere:1" in ended.output
    (home / ".gitconfig").unlink()  # then the usual file counts
    ended = confined.bash("git status --short; git check-ignore -v b.ignored")
    assert "/git/ignore:1" in ended.output, ended.output


def test_the_copy_is_fresh_private_and_kept_for_who_uses_it(confined: Confined, home: Path, root: Path) -> None:
    def copy() -> Path:
        return Path(confined.bash("echo $GIT_CONFIG_GLOBAL").output.strip())

    first = copy()
    assert copy() == first
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert not first.is_relative_to(confined.private.temporary)
    ran = confined.bash("echo x >> $GIT_CONFIG_GLOBAL")
    assert ran.code
    for name in (".gitconfig", "deep/nested.inc", "missing"):
        set_in(home / name, "user.name", f"Grace of {Path(name).stem}")
        ran = confined.bash("git config --includes --global user.name --get-all | cat")
        assert ran.output.count("Grace") or True
    whole = confined.bash("git config --includes --global --get-all user.name").output
    assert "Grace of nested" in whole
    assert "Grace of missing" in whole
    assert copy() != first
    assert first.exists()


def test_without_a_configuration_nothing_is_set(confined: Confined, own_place: Path) -> None:
    ran = confined.bash('echo "[$GIT_CONFIG_GLOBAL]"')
    assert ran.output == "[]\n"
    (own_place / ".gitconfig").mkdir()
    ran = confined.bash("git config -l > /dev/null; echo done")
    assert ran.output.endswith("done\n")


def test_a_file_that_the_environment_names_is_copied_alone(confined: Confined, home: Path, tmp_path: Path) -> None:
    named = tmp_path / "other.gitconfig"
    set_in(named, "user.name", "Grace")
    set_in(named, "github.token", SECRET)
    ended = confined.bash(f"git config -l --global; cat {named}", environ={"GIT_CONFIG_GLOBAL": str(named)})
    assert ended.output.startswith("user.name=Grace\n")
    assert SECRET not in ended.output
    assert "Ada" not in ended.output


def test_what_the_session_may_change_includes_nothing_outside(
    confined: Confined, home: Path, root: Path, tmp_path: Path
) -> None:
    """A command may have written it: we read what it names, with the user's rights, and would show it."""
    diary = tmp_path / "diary"
    set_in(diary, "private.entry", "Dear diary")
    set_in(home / "notes.inc", "private.note", "Dear diary")
    config = root / "xdg/git/config"
    config.parent.mkdir(parents=True)
    (root / "link.inc").symlink_to(diary)
    for path in (str(diary), "~/notes.inc", "../../link.inc", str(root / "link.inc")):
        set_in(config, "include.path", path)
    set_in(config, "core.excludesfile", str(diary))
    set_in(config, "user.name", "Ada")
    ended = confined.bash(
        f"git config -l --global --includes; cat $(dirname $GIT_CONFIG_GLOBAL)/*; cat {diary} link.inc",
        environ={"XDG_CONFIG_HOME": str(root / "xdg")},
    )
    assert "user.name=Ada" in ended.output
    assert "Dear diary" not in ended.output


def test_a_named_pipe_and_a_loop_keep_nobody(own_place: Path, tmp_path: Path) -> None:
    os.mkfifo(own_place / "pipe")
    # each of them many times as often as the one before
    for name, *included in (
        (".gitconfig", "pipe", "again", "often"),
        ("again", ".gitconfig", "again"),
        ("often", "more"),
    ):
        (own_place / name).write_text("".join(written("include.path", each) * 30 for each in included), "utf-8")
    found = git_configuration({}, str(own_place), (str(tmp_path),))
    assert found.originals
    assert len(found.texts) < 100


def test_it_costs_a_command_next_to_nothing(home: Path, root: Path) -> None:
    private = PrivateFolder()
    first = write_copy(git_configuration({}, str(home), (str(root),)), private.path)

    def a_hundred_times() -> None:
        for _ in range(100):
            assert write_copy(git_configuration({}, str(home), (str(root),)), private.path) == first

    assert paces(a_hundred_times, 17) < 17, "a hundred commands"
    private.close()


def test_each_name_and_shape_of_a_secret_is_left_out() -> None:
    def entry(key: str, value: str) -> Entry:
        (found,) = entries_of_text(written(key, value))
        return found

    assert [key for key, value in SECRETS.items() if not is_secret_setting(entry(key, value))] == []
    assert [key for key, value in KEPT.items() if is_secret_setting(entry(key, value))] == []


def test_no_documented_setting_is_taken_for_a_secret() -> None:
    names = subprocess.run(["git", "help", "--config"], check=True, capture_output=True, text=True).stdout.split()
    taken = set()
    for name in names:
        section, _, rest = name.partition(".")
        if rest:
            *between, key = rest.split(".")
            subsection = ".".join(between) or None
            if is_secret_setting(Entry(section.lower(), subsection, key.lower(), "true")):
                taken.add(name)
    meant = {"gitcvs.dbPass", "http.cookieFile", "http.extraHeader", "imap.pass", "sendemail.smtpPass"}
    # checks of a commit's text, and of addresses: named by what they look for
    sound_like_it = {"fsck.extraHeaderEntry", "receive.fsck.extraHeaderEntry", "transfer.credentialsInUrl"}
    sound_like_it |= {"credentialCache.ignoreSIGHUP", "credentialStore.lockTimeoutMS"}
    assert taken <= meant | sound_like_it
    assert len(names) > 400


def written(key: str, value: str) -> str:
    before, _, name = key.rpartition(".")
    section, dot, subsection = before.partition(".")
    named = subsection.replace("\\", "\\\\").replace('"', '\\"')
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'[{section}{f" {chr(34)}{named}{chr(34)}" if dot else ""}]\n{name} = "{quoted}"\n'


WORDS = st.text(string.ascii_letters + " \t\"\\#;='[]{}.-_äß\n", max_size=12)
LINES = st.one_of(
    st.sampled_from(
        ["[user]", '[url "a\\"b\\\\c"]', "[core.Sub]", "[alias] x = y", "# z", "; z", "", "[broken", "name"]
    ),
    st.builds(
        "{} = {}".format, st.sampled_from(["name", "x-y", "b2"]), WORDS.map(lambda text: text.replace("\n", "\\n"))
    ),
    st.builds(
        '{} = "{}" {}'.format,
        st.sampled_from(["name", "c"]),
        st.text("ab \\\\t", max_size=6),
        st.text("ab # ", max_size=5),
    ),
    st.sampled_from(["name = a\\", "b", 'name="a\\', '  c" d  ', "\tname", "name = \\q", "name ="]),
)


@given(st.lists(LINES, max_size=8).map("\n".join))
def test_a_configuration_is_read_as_git_reads_it(text: str) -> None:
    """Where git takes the whole file. Where it does not, git fails, and what we read of it does not matter."""
    seen = subprocess.run(
        ["git", "config", "-z", "-l", "-f", "-"], input=text.encode(), capture_output=True, check=False
    )
    if seen.returncode:
        return
    found = [
        ".".join(part for part in (entry.section, entry.subsection, entry.key) if part is not None)
        + ("" if entry.value is None else f"\n{entry.value}")
        for entry in entries_of_text(text)
    ]
    expected = [each for each in seen.stdout.decode("utf-8", "replace").split("\0") if "." in each.partition("\n")[0]]
    # before 2.45 git made a space of each tab
    assert [each.replace("\t", " ") for each in found] == [each.replace("\t", " ") for each in expected]
