"""A command that may write in a folder, but for what is protected there, whether that exists yet or not."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from msgspec.structs import replace

from cellwright.agent.calls.confinement import Confinement
from cellwright.sandbox.bubblewrap import first_missing
from confined import Confined
from row_tables import for_each_row

PROTECTED = (".git/hooks", ".git/config", ".claude/settings.json", ".mcp.json", ".bashrc", ".vscode", "folder/.env")


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
