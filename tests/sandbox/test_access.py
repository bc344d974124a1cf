"""What a confined command can read, and what programs need in order to work at all."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import venv
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox import bubblewrap, landlock
from cellwright.sandbox.bubblewrap import first_missing
from cellwright.sandbox.resolved_bounds import ConfinementError, bounds_of
from confined import Confined
from row_tables import for_each_row

SECRETS = (
    *(
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".gnupg/secring.gpg",
        ".netrc",
        ".docker/config.json",
        ".npmrc",
        ".pypirc",
    ),
    *(".config/gcloud/token", ".kube/config", ".git-credentials", ".config/gh/hosts.yml", ".claude/.credentials.json"),
    *(".config/google-chrome/Default/Cookies", ".mozilla/firefox/x/key4.db", ".local/share/keyrings/login.keyring"),
    *(".local/share/jupyter/runtime/kernel-1.json", ".password-store/mail.gpg", ".cargo/credentials.toml"),
    "cellwright/sessions/x.jsonl",
    *(".gitconfig", ".config/git/config", ".gitcookies"),
)

PROTECTED = (".git/hooks", ".git/config", ".claude/settings.json", ".mcp.json", ".bashrc", ".vscode", "folder/.env")


def write(path: Path, text: str = "content") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def mounted_paths(environ: Mapping[str, str], confined: Confined) -> list[str]:
    """What bubblewrap would mount, or Landlock allow, for a command that reads `/usr`."""
    bounds = bounds_of(Confinement(read=("/usr",), hidden=("/usr/share/doc",)), environ, "/usr")
    landlock.check(bounds)
    bounds = replace(bounds, hidden=())  # the private folder is another user's
    return bubblewrap.arguments("bwrap", bounds, confined.private, cwd="/usr", filter_fd=0, status_fd=0)


def as_nobody(work: Callable[[], int]) -> int | None:
    """Have a user without rights do `work`; its number, below 250, or None for an error."""
    if os.geteuid():
        return work()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child has no use for
        pid = os.fork()
    if pid == 0:
        code = 255
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            code = work()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None if code == 255 else code


def git(*arguments: str, cwd: Path) -> None:
    own = ("-c", "user.name=x", "-c", "user.email=x@y.z", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *own, *arguments], cwd=cwd, check=True, capture_output=True)


def test_it_reads_its_folder_and_writes_nothing(confined: Confined, tmp_path: Path) -> None:
    write(confined.root / "data.csv", "1,2\n")
    outside = write(tmp_path / "outside", "outside")
    ended = confined.bash(
        f"cat data.csv; cat {outside}; echo x > data.csv; echo x > new; rm data.csv; mv data.csv y; mkdir d; "
        f"echo x > {tmp_path}/new; echo x > ~/new; echo x > /tmp/cellwright-new; : > /etc/cellwright"
    )
    assert "1,2" in ended.output
    assert "outside\n" not in ended.output
    assert ended.code != 0
    assert [path.name for path in confined.root.iterdir()] == ["data.csv"]
    assert (confined.root / "data.csv").read_text("utf-8") == "1,2\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "project"]
    assert list(Path.home().iterdir()) == []
    assert not Path("/tmp/cellwright-new").exists()
    assert not Path("/etc/cellwright").exists()


PROGRAMS = {
    "the shell's own": 'x=$(echo hi) && cat <(echo a) && { sleep 0 & } && wait && echo "$x" | tr h H | grep Hi',
    "text": "printf '1 2\\n' > $TMPDIR/a && sed s/1/3/ $TMPDIR/a | awk '{print $1}' | xargs echo | sort | grep 3",
    "find": "find . -name '*.csv' -exec wc -l {} + | grep data.csv",
    "archives": "tar czf $TMPDIR/a.tgz data.csv && tar tzf $TMPDIR/a.tgz && cp -p data.csv $TMPDIR/b && touch $TMPDIR/c",
    "temporary files": 'f=$(mktemp) && echo x > "$f" && cat "$f" && rm "$f"',
    "who": 'test "$(whoami)" = "$(id -un)" && date && locale > /dev/null',
    "processes": "ps aux | wc -l && free > /dev/null && df . > /dev/null && nproc",
    "Python": "python -c 'import sqlite3, ssl, tempfile; tempfile.TemporaryFile()'",
    "certificates": "python -c 'import ssl; print(ssl.create_default_context().get_ca_certs())'",
    "random": "head -c 4 /dev/urandom | wc -c && perl -e 'print rand()'",
    "a here-document of 100 kB": f"test $(cat <<E | wc -c\n{'x' * 100_000}\nE\n) = 100001",
    "multiprocessing": "python -c 'import concurrent.futures as f; f.ThreadPoolExecutor().submit(print).result()'",
    "git": "git --version && git status --short && git log --oneline | grep first && git diff --stat",
    "pip": "python -m pip --version",
    "ruff": "python -m ruff --version && echo 'x = 1' > $TMPDIR/a.py && python -m ruff check $TMPDIR/a.py",
    "node": "! command -v node || node -e 'console.log(require(\"os\").cpus().length > 0)' | grep true",
    "npm": "! command -v npm || npm --version",
}


def test_programs_work(confined: Confined, own_place: Path) -> None:
    git("init", "-q", ".", cwd=confined.root)
    write(confined.root / "data.csv", "1,2\n")
    git("add", ".", cwd=confined.root)
    git("commit", "-qm", "first", cwd=confined.root)
    # what is there and refused is fatal to git; and what may hold tokens is hidden and must not be missed
    write(own_place / ".gitconfig", "[include]\n  path = ~/elsewhere/gitconfig\n")
    write(own_place / "elsewhere/gitconfig", "[user]\n  name = x\n")
    write(own_place / ".config/git/ignore", "*.tmp\n")
    write(own_place / ".npmrc", "//registry.example/:_authToken=x\n")
    write(own_place / ".config/pip/pip.conf", "[global]\nindex-url = https://u:p@example.org\n")
    wrong = {}
    for name, script in PROGRAMS.items():
        ended = confined.bash(f"set -o pipefail; {script}")
        if ended.code:
            wrong[name] = ended
    assert wrong == {}


def test_environments_that_lie_elsewhere_are_found(confined: Confined, tmp_path: Path, own_place: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    tool = write(own_place / ".local/bin/tool", "#!/bin/sh\ncat ~/.local/share/uv/tools/x\n")
    tool.chmod(0o755)
    write(own_place / ".local/share/uv/tools/x", "from uv")
    shim = write(own_place / ".pyenv/shims/shimmed", "#!/bin/sh\ncat ~/.pyenv/versions/x\n")
    shim.chmod(0o755)
    write(own_place / ".pyenv/versions/x", "from pyenv")
    write(own_place / "lib/x")  # so that the home looks like a prefix
    own = write(own_place / "bin/own", "#!/bin/sh\necho own\n")
    own.chmod(0o755)
    private = write(own_place / "diary")
    folders = [tmp_path / "venv/bin", tool.parent, shim.parent, own.parent]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    ended = confined.bash(
        f"python -c 'import sys; print(sys.prefix)'; tool; shimmed; own; cat {private}", environ={"PATH": path}
    )
    assert str(tmp_path / "venv") in ended.output
    assert [word in ended.output for word in ("from uv", "from pyenv", "own\n")] == [True, True, True]
    assert "content" not in ended.output


def test_an_environment_that_is_closed_to_the_user_stops_nothing(confined: Confined, tmp_path: Path) -> None:
    """A variable that another user's environment left behind, as `su` does."""
    closed, tool = tmp_path / "closed/pyenv", tmp_path / "closed/bin"
    closed.mkdir(parents=True)
    environ = {"PYENV_ROOT": str(closed), "PATH": f"{tool}:/usr/bin:/bin", "HOME": str(tmp_path / "closed/home")}
    mounts = len(mounted_paths(environ, confined))
    closed.parent.chmod(0)
    other = {**environ, "PATH": f"{environ['PATH']}:/usr/local/bin"}  # looked at anew
    seen = as_nobody(lambda: len(mounted_paths(other, confined)))
    closed.parent.chmod(0o700)
    assert seen is not None, "an error"
    assert seen < mounts
    assert confined.bash("echo going on", environ={"PYENV_ROOT": str(closed)}).output == "going on\n"


def test_git_of_worktrees_and_submodules_is_read(confined: Confined, tmp_path: Path) -> None:
    for name in ("main", "other"):
        (tmp_path / name).mkdir()
        git("init", "-q", ".", cwd=tmp_path / name)
        git("commit", "-q", "--allow-empty", "-m", f"of {name}", cwd=tmp_path / name)
    git("submodule", "add", "-q", str(tmp_path / "other"), "sub", cwd=tmp_path / "main")
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=tmp_path / "main")
    inside = tmp_path / "main/folder"
    inside.mkdir()
    said = {}
    for name, folder in {"worktree": tmp_path / "tree", "submodule": tmp_path / "main/sub", "folder": inside}.items():
        said[name] = confined.bash("git log --format=%s", Confinement(read=(str(folder),)), cwd=folder).output
    assert said == {"worktree": "of main\n", "submodule": "of other\n", "folder": "of main\n"}


def test_a_git_file_that_names_another_folder_opens_nothing(
    confined: Confined, tmp_path: Path, own_place: Path
) -> None:
    for place in (tmp_path / "other", own_place / "other-repository"):
        place.mkdir()
        git("init", "-q", ".", cwd=place)
        write(place / ".git/description", "secret content")
        write(confined.root / ".git", f"gitdir: {place}/.git\n")
        assert "secret" not in confined.bash(f"cat {place}/.git/description").output
    write(own_place / "letters/HEAD", "secret content")
    write(confined.root / ".git", f"gitdir: {own_place}/letters\n")
    assert "secret" not in confined.bash(f"cat {own_place}/letters/HEAD").output


def test_what_is_hidden_below_a_folder_that_is_read(confined: Confined, tmp_path: Path) -> None:
    root = confined.root
    hidden = [
        write(root / ".env", "hidden"),
        write(root / "keys/a/b.pem", "hidden"),
        write(root / "private/x", "hidden"),
    ]
    write(root / "keys/a/c.txt", "shown")
    (root / "link").symlink_to(".env")
    confinement = Confinement(
        read=(str(root),), hidden=(str(hidden[0]), str(root / "private")), hides=lambda path: path.endswith(".pem")
    )
    ended = confined.bash(
        "cat keys/a/c.txt; cat .env link keys/a/b.pem private/x; cat private/*; ls private; "
        "ln .env $TMPDIR/x; cat $TMPDIR/x; mv .env $TMPDIR/y; cat $TMPDIR/y; cp -r . $TMPDIR/z; cat $TMPDIR/z/.env",
        confinement,
    )
    assert "shown" in ended.output
    assert "hidden\n" not in ended.output.replace("cat: ", "")
    assert ended.output.count("ermission denied") >= 4, ended.output
    assert all(path.read_text("utf-8") == "hidden" for path in hidden)


def test_usual_places_of_secrets_are_hidden_although_the_home_is_read(confined: Confined, own_place: Path) -> None:
    for name in SECRETS:
        write(own_place / name, "secret content")
    write(own_place / "notes", "no secret")
    confinement = Confinement(read=(str(own_place),))
    ended = confined.bash(f"cat ~/notes; cd; cat {' '.join(SECRETS)}", confinement)
    assert "no secret" in ended.output
    assert "secret content" not in ended.output


def test_a_folder_in_such_a_place_is_read_by_who_works_there(confined: Confined, own_place: Path) -> None:
    folder = write(own_place / ".kube/charts/values", "mine").parent
    write(own_place / ".kube/config", "secret content")
    ended = confined.bash("cat values ../config", Confinement(read=(str(folder),)), cwd=folder)
    assert "mine" in ended.output
    assert "secret content" not in ended.output


def test_what_cannot_be_hidden_is_said(confined: Confined, tmp_path: Path) -> None:
    named = write(confined.root / "named", "hidden")
    (confined.root / "another").hardlink_to(named)
    confinement = Confinement(read=(str(confined.root),), hidden=(str(named),))
    assert "another name" in confined.sandbox.can_enforce(confinement)
    with pytest.raises(ConfinementError, match="another name"):
        confined.bash("cat another", confinement)
    many = tmp_path / "many"
    for folder in range(21):
        (many / str(folder)).mkdir(parents=True)
        for number in range(1_000):
            (many / str(folder) / str(number)).touch()
    pattern = Confinement(read=(str(many),), hides=lambda path: path.endswith(".pem"))
    assert "pattern" in confined.sandbox.can_enforce(pattern)
    assert confined.sandbox.can_enforce(Confinement(read=(str(many),), hidden=(str(many / "1"),))) == ""
    crowded = [str(many / "0" / str(number)) for number in range(300)]
    reason = confined.sandbox.can_enforce(Confinement(read=(str(many / "0"),), hidden=tuple(crowded)))
    assert ("300 places" in reason) == bool(confined.sandbox.bubblewrap)


def test_the_home_is_never_an_environment(own_place: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(own_place), "PATH": f"{own_place}/bin:/usr/bin", "CONDA_PREFIX": str(own_place.parent)}
    write(own_place / "lib/x")
    bounds = bounds_of(Confinement(), environ, str(tmp_path))
    assert not {str(own_place), str(own_place.parent), "/"} & {*bounds.read, *bounds.data}
    assert os.path.realpath(sys.base_prefix) in bounds.read


def test_packages_that_are_installed_in_place_are_found(confined: Confined, tmp_path: Path) -> None:
    own = write(tmp_path / "elsewhere/src/tide.py", "print('tide')").parent
    mapped = write(tmp_path / "mapped/moon/__init__.py", "print('moon')").parent
    environment = tmp_path / "environment"
    packages = environment / "lib/python3.12/site-packages"
    write(packages / "__editable__.tide.pth", f"# a comment\nimport x\n{own}\nrelative\n/\n{Path.home()}\n")
    write(packages / "__editable___moon_finder.py", f"MAPPING: dict[str, str] = {{'moon': {str(mapped)!r}}}\n")
    seen = f"cat {own}/tide.py {mapped}/__init__.py"
    ended = confined.bash(seen, environ={"VIRTUAL_ENV": str(environment)})
    assert ended.output.count("print") == 2
    assert confined.bash(seen).code
    # an environment that a project brings along opens nothing
    (confined.root / ".venv").symlink_to(environment)
    assert confined.bash(seen).code
    opened = bounds_of(Confinement(), {"VIRTUAL_ENV": str(environment)}, "/usr").read
    assert not {"/", str(Path.home())} & set(opened)


@pytest.mark.parametrize("settled", [False, True])
def test_what_tells_of_jupyter_and_pip_works(confined: Confined, own_place: Path, settled: bool) -> None:
    write(own_place / ".local/share/jupyter/kernels/moon/kernel.json", '{"argv": ["x"], "display_name": "Moon"}')
    write(own_place / ".local/share/jupyter/notebook_secret", "secret content")
    if settled:  # as Jupyter leaves it
        write(own_place / ".jupyter/migrated")
        write(own_place / ".ipython/profile_default/history.sqlite")
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(own_place)}
    ended = confined.bash("jupyter kernelspec list && jupyter --version && ipython -c 6*7", environ=environ)
    assert ended.code == 0, ended.output
    assert f"{own_place}/.local/share/jupyter/kernels/moon" in ended.output
    assert "42" in ended.output
    ended = confined.bash("pip list", environ=environ)
    assert ended.code == 0, ended.output
    assert "ipykernel" in ended.output
    assert "secret content" not in confined.bash(f"cat {own_place}/.local/share/jupyter/*", environ=environ).output


def test_a_link_to_another_repository_opens_nothing(confined: Confined, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    git("init", "-q", ".", cwd=tmp_path / "other")
    git("commit", "-q", "--allow-empty", "-m", "of the other", cwd=tmp_path / "other")
    (confined.root / ".git").symlink_to(tmp_path / "other/.git")
    ended = confined.bash("git log; cat .git/HEAD")
    assert ended.code
    assert "of the other" not in ended.output
    assert "refs/heads" not in ended.output


def may_write(root: Path) -> Confinement:
    return Confinement(write=(str(root),), protected=tuple(str(root / name) for name in PROTECTED))


def tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text("utf-8", "replace") if path.is_file() else ""
        for path in sorted(root.rglob("*"))
    }


def test_it_changes_what_is_not_protected(mounted: Confined) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=mounted.root, check=True)
    ended = mounted.bash(
        "set -e; echo x > a; cp -p a b; chmod +x b; touch -d 2020-01-01 a; mkdir -p d/e; mv b d/e; rm a; "
        "git add d; git status --short; ls -l d/e",
        may_write(mounted.root),
    )
    assert ended.code == 0, ended.output
    assert "A  d/e/b" in ended.output
    assert "-rwx" in ended.output
    assert sorted(path.name for path in mounted.root.iterdir()) == [".git", "d"], "placeholders are gone"


@for_each_row(
    "attempt",
    [
        "echo x > .mcp.json",
        "echo x > .bashrc",
        "mkdir -p .vscode/x",
        "mkdir -p .claude && echo x > .claude/settings.json",
        "echo x > .git/hooks/post-commit",
        "echo x >> .git/config",
        "git config core.fsmonitor ./x",
        "mv .git .other && mkdir -p .git/hooks && echo x > .git/hooks/post-commit",
        "rm -rf .git; mkdir -p .git/hooks && echo x > .git/hooks/post-commit",
        "mv folder other && mkdir folder && echo x > folder/.env",
        "ln -s /etc/hostname .mcp.json",
        "ln -sf $PWD/y .mcp.json && echo x > .mcp.json",
        "ln .git/config linked && echo x >> linked",
        "cp .git/config new && mv new .git/config",
        "rm -f .mcp.json && echo x > .mcp.json",
        "chmod 777 .git/config; echo x > ../outside",
        "python -c \"import ctypes; ctypes.CDLL(None).umount2(b'.git/config', 2)\"; echo x >> .git/config",
    ],
)
def test_what_is_protected_stays_as_it_was(attempt: str, mounted: Confined, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "folder").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    before = {name: text for name, text in tree(root).items() if name.startswith((".git/config", ".git/hooks"))}
    mounted.bash(attempt, may_write(root), cwd=root)
    after = tree(root)
    assert {name: after.get(name) for name in before} == before
    assert not {".mcp.json", ".bashrc", ".vscode", ".claude", "folder/.env", ".git/hooks/post-commit"} & set(after)
    assert not (tmp_path / "outside").exists()


def test_what_covers_others_cannot_be_replaced(mounted: Confined) -> None:
    """The folder of what is mounted over others may lie in one that may be written: who works in `/tmp` has that."""
    around = Path(mounted.private.path).parent
    secret = mounted.root / ".env"
    secret.write_text("hidden", "utf-8")
    confinement = Confinement(write=(str(around),), hidden=(str(secret),))
    cover = mounted.private.unreadable(folder=False)
    ended = mounted.bash(
        f"rm -f {cover}; ln -s {secret} {cover}; mv {mounted.private.path} {around}/moved; "
        "echo x > $TMPDIR/own && cat $TMPDIR/own",
        confinement,
    )
    assert ended.output.endswith("x\n")
    assert not Path(cover).is_symlink()
    assert "hidden\n" not in mounted.bash(f"cat {secret}", confinement).output


def test_what_somebody_else_changes_meanwhile_is_not_lost(mounted: Confined) -> None:
    """Changes that were staged are made at the end: into a file that is still what the command took it for."""
    own = mounted.root / "own.txt"
    own.write_text("old", "utf-8")
    bounds = Confinement(write=(str(mounted.root),), protects=lambda _: False)
    reader, writer = os.pipe()
    script = f"rm own.txt; touch new; echo ready; read -u {reader}; echo claude >> own.txt"
    with mounted.sandbox_process(["bash", "-c", script], bounds, inherited=[reader]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert tree(mounted.root) == {"own.txt": "old"}
        own.write_text("user's", "utf-8")
        os.write(writer, b"\n")
    os.close(reader)
    os.close(writer)
    assert tree(mounted.root) == {"own.txt": "user's"}


def test_a_placeholder_that_somebody_wrote_into_stays(mounted: Confined) -> None:
    root = mounted.root
    with mounted.sandbox_process(["sleep", "60"], may_write(root)) as process:
        assert (root / ".mcp.json").read_text("utf-8") == ""
        (root / ".mcp.json").write_text("{}", "utf-8")
        process.kill()
    assert tree(root) == {".mcp.json": "{}"}


def test_a_placeholder_is_shared_and_the_last_one_removes_it(mounted: Confined) -> None:
    root = mounted.root
    with mounted.sandbox_process(["sleep", "60"], may_write(root)) as process:
        assert "Read-only" in mounted.bash("echo x > .mcp.json", may_write(root)).output
        assert (root / ".mcp.json").exists()
        assert first_missing(str(root / ".mcp.json")) == str(root / ".mcp.json"), "it counts as missing"
        process.kill()
    assert tree(root) == {}


def test_landlock_alone_says_what_it_cannot_do(landlocked: Confined) -> None:
    root = str(landlocked.root)
    assert "bubblewrap" in landlocked.sandbox.can_enforce(may_write(landlocked.root))
    assert "bubblewrap" in landlocked.sandbox.can_enforce(Confinement(read=(root,), hosts=("example.org",)))
    assert landlocked.sandbox.can_enforce(Confinement(write=(root,))) == ""
    assert not landlocked.sandbox.abilities.protects
    ended = landlocked.bash("echo x > a && mv a b && mkdir d; chmod +x b", Confinement(write=(root,)))
    assert sorted(tree(landlocked.root)) == ["b", "d"]
    assert "not permitted" in ended.output, "a change of mode that is not made is not passed over"


def test_a_link_to_what_is_protected_is_said(confined: Confined) -> None:
    (confined.root / "real").mkdir()
    (confined.root / ".claude").symlink_to("real")
    confinement = Confinement(write=(str(confined.root),), protected=(str(confined.root / ".claude/settings.json"),))
    assert ".claude is a symbolic link" in confined.sandbox.can_enforce(confinement)


def test_a_pattern_protects_what_does_not_exist_only_where_changes_can_be_staged(confined: Confined) -> None:
    confinement = Confinement(write=(str(confined.root),), protects=lambda path: path.endswith(".lock"))
    assert "pattern" in replace(confined.sandbox, stages=False).can_enforce(confinement)
    assert bool(confined.sandbox.can_enforce(confinement)) is not confined.sandbox.stages
    around = Confinement(write=(tempfile.gettempdir(),), protects=confinement.protects)
    assert "temporary files" in confined.sandbox.can_enforce(around) or not confined.sandbox.stages
