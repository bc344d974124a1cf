"""No file of a project makes the bounds of a command wider: each kind that is read while they are made, made hostile.

A new reader fails `test_no_other_file_is_read` until its kind of file is in the table.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.agent.calls.approval import Confinement
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.sandbox.paths import below
from cellwright.sandbox.profile import INTERPRETER_PARTS
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError, bounds_of
from confined import Confined
from declared_tools import tool_named

ALL = SandboxAbilities(name="test", hides=True, protects=True, hosts=True, protects_patterns=True)

Kind = Callable[[Path, Path], None]


def write(path: Path, text: str = "content") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent.is_dir() and not os.path.lexists(path):
        path.write_text(text, "utf-8")
    return path


def file(name: str, text: str) -> Kind:
    """A file with this text, in which `{victim}` and `{project}` are filled in."""

    def make(project: Path, victim: Path) -> None:
        write(project / name, text.replace("{victim}", str(victim)).replace("{project}", str(project)))

    return make


def link(name: str, target: str = "") -> Kind:
    """A symbolic link to the victim, or to something in it."""

    def make(project: Path, victim: Path) -> None:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(project / name):
            (project / name).symlink_to(victim / target)

    return make


def pipe(name: str) -> Kind:
    """A named pipe, at which a reader waits forever."""

    def make(project: Path, _victim: Path) -> None:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(project / name):
            os.mkfifo(project / name)

    return make


def both(*kinds: Kind) -> Kind:
    def make(project: Path, victim: Path) -> None:
        for kind in kinds:
            kind(project, victim)

    return make


PACKAGES = "lib/python3.12/site-packages"
CONFIG = (
    '[include]\n path = {victim}/config\n[includeIf "gitdir:/"]\n path = {victim}/config\n[core]\n worktree = {victim}\n'
    " excludesfile = {victim}/x\n attributesfile = {victim}/x\n hooksPath = {victim}\n[mailmap]\n file = {victim}/x\n"
    '[remote "x"]\n url = {victim}\n[init]\n templateDir = {victim}\n'
)

ENVIRONMENTS: dict[str, Kind] = {
    f"{name}, {what}": kind
    for name in (".venv", "venv", "env", "nested/.venv")
    for what, kind in {
        "home below": file(f"{name}/pyvenv.cfg", "home = {victim}/x\n"),
        "home": file(
            f"{name}/pyvenv.cfg", "include-system-site-packages = true\r\nhome = {victim}/bin \r\nversion = 3\r\n"
        ),
        "home the other way": file(f"{name}/pyvenv.cfg", "home = {project}/../x/../../x\n"),
        "home relative": file(f"{name}/pyvenv.cfg", "home = ../x\n"),
        "home by a link": both(
            link(f"{name}/there"), file(f"{name}/pyvenv.cfg", f"home = {{project}}/{name}/there/x\n")
        ),
        "a link as file": link(f"{name}/pyvenv.cfg", "pyvenv.cfg"),
        "a link": link(name),
        "a pipe": pipe(f"{name}/pyvenv.cfg"),
        "packages": file(f"{name}/{PACKAGES}/x.pth", "{victim}\n"),
        "an egg": file(f"{name}/{PACKAGES}/x.egg-link", "{victim}\n.\n"),
        "a finder": file(
            f"{name}/{PACKAGES}/__editable___x_finder.py", "MAPPING = {'x': '{victim}/x', 'y': '{victim}'}\n"
        ),
        "a pipe of packages": pipe(f"{name}/{PACKAGES}/x.pth"),
        "packages by a link": link(f"{name}/{PACKAGES}", PACKAGES),
        "lib by a link": both(link(f"{name}/lib", "lib"), file(f"{name}/pyvenv.cfg", "home = {victim}/bin\n")),
        "programs by a link": link(f"{name}/bin", "bin"),
    }.items()
    if name == ".venv" or what in ("home below", "a link", "packages")
}

REPOSITORIES: dict[str, Kind] = {
    "a .git file to a repository": file(".git", "gitdir: {victim}/.git\n"),
    "a .git file to a folder": file(".git", "gitdir: {victim}\n"),
    "a .git file that is relative": file(".git", "gitdir: ../..\n"),
    "a .git file to a work tree": file(".git", "gitdir: {victim}/.git/worktrees/tree\n"),
    "a .git link": link(".git", ".git"),
    "a .git link to a file": link(".git", "tree-file"),
    "a .git pipe": pipe(".git"),
    "a work tree of its own": both(
        file(".git", "gitdir: {project}/made/worktrees/x\n"),
        file("made/worktrees/x/HEAD", "ref: refs/heads/x\n"),
        file("made/worktrees/x/gitdir", "{project}/.git\n"),
        file("made/worktrees/x/commondir", "{victim}/.git\n"),
        file("made/HEAD", "ref: refs/heads/x\n"),
    ),
    "a work tree of its own above": both(
        file(".git", "gitdir: {project}/made\n"),
        file("made/HEAD", "ref: refs/heads/x\n"),
        file("made/gitdir", "{project}/.git\n"),
        file("made/commondir", "../..\n"),
    ),
    "a work tree by a link": both(
        file(".git", "gitdir: {project}/made/worktrees/x\n"),
        link("made", ".git"),
    ),
    "a submodule of its own": both(
        file(".git", "gitdir: {project}/made\n"),
        file("made/HEAD", "ref: refs/heads/x\n"),
        file("made/config", "[core]\n worktree = ..\n" + CONFIG),
    ),
    "a repository": both(
        file(".git/HEAD", "ref: refs/heads/x\n"),
        file(".git/config", CONFIG),
        file(".git/config.worktree", CONFIG),
        file(".git/commondir", "{victim}/.git\n"),
        file(".git/gitdir", "{victim}/.git\n"),
        file(".git/objects/info/alternates", "{victim}/.git/objects\n"),
        file(".git/worktrees/x/gitdir", "{victim}/.git\n"),
        file(".git/modules/x/config", "[core]\n worktree = {victim}\n"),
        file(".gitmodules", '[submodule "x"]\n path = x\n url = {victim}\n'),
        link(".git/refs"),
    ),
    "pipes in a repository": both(
        file(".git", "gitdir: {project}/made\n"),
        file("made/HEAD", "ref: refs/heads/x\n"),
        pipe("made/gitdir"),
        pipe("made/commondir"),
        pipe("made/config"),
    ),
}

NAMED_BY_VARIABLES: dict[str, Kind] = {
    "programs": link("bin", "bin"),
    "libraries": link("lib", "lib"),
    "programs of node": link("node_modules/.bin", "bin"),
    "a jdk": link("jdk"),
    "a certificate": link("cert.pem", "letter"),
    "an environment": file("environment/pyvenv.cfg", "home = {victim}/x\n"),
    "an environment's packages": file(f"environment/{PACKAGES}/x.pth", "{victim}\n"),
    "an environment by a link": link("environment"),
    "git's configuration": file("xdg/git/config", CONFIG),
    "git's files": both(link("xdg/git/ignore", "letter"), link("xdg/git/attributes", "letter")),
    "git's folder": link("xdg/git", ".config/git"),
    "git's own file": file("gitconfig", CONFIG),
    "git's own file by a link": link("gitconfig", "config"),
    "kernels": link("jupyter/kernels"),
    "kernels' folder": link("jupyter"),
    "interpreters": link("pyenv/versions"),
    "interpreters' folder": link("pyenv"),
    "a cache": link("cache"),
    "a temporary folder": link("tmp"),
    "a folder": link("sub"),
    **{
        f"{name or 'the project'} as an environment": file(f"{name}/pyvenv.cfg".lstrip("/"), "home = {victim}/x\n")
        for name in ("", "jdk", "lib", "node_modules", "pyenv")
    },
}

READ_BY_OTHERS = both(
    *(
        file(name, text)
        for name, text in {
            **dict.fromkeys((".envrc", ".env"), "export JAVA_HOME={victim} VIRTUAL_ENV={victim} PATH={victim}:$PATH\n"),
            **dict.fromkeys(("package.json", "package-lock.json"), '{"dependencies": {"x": "file:{victim}"}}'),
            **dict.fromkeys(
                ("uv.lock", "poetry.lock", "pdm.lock", "pixi.toml"), 'source = { editable = "{victim}" }\n'
            ),
            **dict.fromkeys((".python-version", ".tool-versions", "mise.toml", ".nvmrc"), "{victim}\n"),
            **dict.fromkeys(
                ("pyproject.toml", "setup.cfg", "tox.ini", "pip.conf", ".npmrc", "Cargo.toml"), 'path = "{victim}"\n'
            ),
            **dict.fromkeys(
                (".vscode/settings.json", ".zed/settings.json"), '{"python.defaultInterpreterPath": "{victim}/bin"}'
            ),
            **dict.fromkeys(
                (".idea/misc.xml", "environment.yml", ".editorconfig", "requirements.txt"), "-e {victim}\n"
            ),
            ".mcp.json": '{"mcpServers": {"x": {"command": "x", "env": {"PATH": "{victim}"}}}}',
            ".claude/settings.json": '{"sandbox": {"filesystem": {"allowRead": ["{victim}"]}}}',
            ".claude/settings.local.json": '{"permissions": {"additionalDirectories": ["{victim}"]}}',
        }.items()
    )
)

KINDS = {**ENVIRONMENTS, **REPOSITORIES, **NAMED_BY_VARIABLES, "files of other programs": READ_BY_OTHERS}


def variables(project: Path, home: Path) -> dict[str, dict[str, str]]:
    """The variables of a session, by what its user has done."""
    usual = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    inside = {
        name: str(project / place)
        for name, place in {
            **{"VIRTUAL_ENV": "environment", "CONDA_PREFIX": "environment", "JAVA_HOME": "jdk", "PYENV_ROOT": "pyenv"},
            **{"PYTHONPATH": "lib", "NODE_PATH": "node_modules", "R_LIBS": "lib", "SSL_CERT_FILE": "cert.pem"},
            **{"XDG_CONFIG_HOME": "xdg", "JUPYTER_DATA_DIR": "jupyter", "UV_PYTHON_INSTALL_DIR": "pyenv"},
        }.items()
    }
    programs = (".venv/bin", "venv/bin", "environment/bin", "bin", "node_modules/.bin", "pyenv/shims", "jdk/bin", ".")
    path = os.pathsep.join([*(f"{project}/{place}" for place in programs), usual["PATH"]])
    return {
        "usual": usual,
        "an activated environment": {
            **usual,
            "VIRTUAL_ENV": f"{project}/.venv",
            "PATH": f"{project}/.venv/bin:{usual['PATH']}",
        },
        "all in the project": {**usual, **inside, "PATH": path},
        "git's file in the project": {**usual, "GIT_CONFIG_GLOBAL": f"{project}/gitconfig", "PATH": path},
    }


def confinements(project: Path) -> Iterator[tuple[str, Confinement, str]]:
    """What the policy makes of commands, and what settings add; with the folder that the command runs in."""
    folder, sub = str(project), str(project / "sub")
    yield "reads", Confinement(read=(folder,)), folder
    yield "reads, in a folder", Confinement(read=(folder,)), sub
    yield "writes", Confinement(read=(folder,), write=(folder,)), folder
    yield "writes two folders", Confinement(read=(folder, sub), write=(folder, sub)), folder
    yield (
        "a setting names a folder",
        Confinement(read=(folder, f"{folder}/cache"), write=(folder, f"{folder}/tmp")),
        folder,
    )
    for enabled, mode, command in (
        (False, "default", "git log"),
        (False, "acceptEdits", "tar xf x"),
        (True, "default", "make"),
    ):
        allow_write = (f"{folder}/tmp",) if enabled else ()
        rules = SandboxRules(means=ALL, enabled=enabled, allow_write=allow_write)
        policy = PermissionPolicy(mode=mode, roots=[project], cwd=project, sandbox=rules)
        decision = policy.decide(tool_named("Bash"), {"command": command})
        # what somebody says yes to has other bounds
        if decision.behavior == "allow" and decision.confinement:
            yield f"{command}, {mode}{', for all' if enabled else ''}", decision.confinement, folder


def cases(project: Path, home: Path) -> Iterator[tuple[str, Mapping[str, str], Confinement, str]]:
    """Every bounds that are made, each kind of variables with the confinements of plain sessions."""
    found = list(confinements(project))
    for name, environ in variables(project, home).items():
        for what, confinement, cwd in found if name == "usual" else found[:1]:
            yield f"{name}, {what}", environ, confinement, cwd


def outside(bounds: Bounds, project: Path) -> dict[str, set[str]]:
    """The places that may be written and those that may be read, less the project's."""
    written = {*bounds.write, *bounds.temporary}
    read = {*bounds.read, *bounds.data, *written}
    return {
        kind: {path for path in paths if not below(path, str(project))}
        for kind, paths in {"write": written, "read": read}.items()
    }


Allowed = Mapping[str, Mapping[str, set[str]]]


def allowed(project: Path, home: Path) -> Allowed:
    """All that commands in `project` may do outside of it, by case. What is not started does nothing."""
    found = {}
    for name, environ, confinement, cwd in cases(project, home):
        try:
            found[name] = outside(bounds_of(confinement, environ, cwd), project)
        except ConfinementError:
            continue
    return found


def wider(more: Allowed, less: Allowed) -> list[str]:
    """What `more` allows and `less` does not."""
    return [
        f"{name}: {kind} {path}"
        for name, kinds in more.items()
        for kind, paths in kinds.items()
        for path in sorted(paths)
        if name not in less or not any(below(path, other) for other in less[name][kind])
    ]


def plain(folder: Path) -> Path:
    """A project without any of the kinds."""
    write(folder / "notes.txt")
    return folder


@pytest.fixture
def victims(own_place: Path, tmp_path: Path) -> dict[str, Path]:
    """Folders that a project could be after, each made to look like what it could be taken for."""
    found = {"home": own_place, "documents": own_place / "documents", "elsewhere": tmp_path / "elsewhere/data"}
    for folder in found.values():
        for name in (
            "letter",
            "config",
            "HEAD",
            ".git/HEAD",
            "x/letter",
            ".config/git/config",
            "kernels/x/kernel.json",
        ):
            write(folder / name)
        (folder / ".git/objects").mkdir()
        write(folder / ".git/worktrees/tree/HEAD", "ref: refs/heads/x\n")
        write(folder / ".git/worktrees/tree/gitdir", f"{folder}/tree-file\n")
        write(folder / ".git/worktrees/tree/commondir", "../..\n")
        write(folder / "tree-file", f"gitdir: {folder}/.git/worktrees/tree\n")
    for folder in (own_place, own_place / "documents"):  # in a home, an interpreter's shape is not enough
        write(folder / "bin/python3").chmod(0o755)
        write(folder / f"{PACKAGES}/x.pth", f"{folder}\n")
    return found


def test_no_kind_of_file_makes_bounds_wider(victims: Mapping[str, Path], own_place: Path, tmp_path: Path) -> None:
    wrong = []
    less = allowed(plain(tmp_path / "plain"), own_place)
    for (number, (name, kind)), (target, victim) in itertools.product(enumerate(KINDS.items()), victims.items()):
        project = plain(tmp_path / f"{number}-{target}")
        kind(project, victim)
        wrong += [f"{name}, {target}: {each}" for each in wider(allowed(project, own_place), less)]
    assert wrong == []


@given(
    names=st.sets(st.sampled_from(sorted(KINDS)), min_size=2),
    target=st.sampled_from(["home", "documents", "elsewhere"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_no_mixture_of_them_does(
    victims: Mapping[str, Path], own_place: Path, tmp_path_factory: pytest.TempPathFactory, names: set[str], target: str
) -> None:
    top = tmp_path_factory.mktemp("mixture")
    for folder in (top / "project", top / "plain"):
        plain(folder)
    for name in sorted(names):
        # another one may have made a file of what is a folder here
        with contextlib.suppress(OSError):
            KINDS[name](top / "project", victims[target])
    assert wider(allowed(top / "project", own_place), allowed(top / "plain", own_place)) == []


def test_a_project_in_the_home_and_in_another_repository(own_place: Path, victims: Mapping[str, Path]) -> None:
    wrong = []
    # that of the folder above counts if a project has none
    write(own_place / "work/.git/HEAD")
    less = allowed(plain(own_place / "work/plain"), own_place)
    for number, (name, kind) in enumerate(KINDS.items()):
        project = plain(own_place / f"work/{number}")
        kind(project, victims["documents"])
        wrong += [f"{name}: {each}" for each in wider(allowed(project, own_place), less)]
    assert wrong == []


_heard: list[str] | None = None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if (
        _heard is not None
        and event in ("open", "os.listdir", "os.scandir")
        and isinstance(arguments[0], str | os.PathLike)
    ):
        _heard.append(os.fspath(arguments[0]))


@contextlib.contextmanager
def hearing() -> Iterator[list[str]]:
    """The names of all that is opened or listed meanwhile."""
    global _heard
    if not _installed:
        sys.addaudithook(_hear)
        _installed.append(True)
    _heard = heard = []
    try:
        yield heard
    finally:
        _heard = None


_installed: list[bool] = []


def test_no_other_file_is_read(victims: Mapping[str, Path], own_place: Path, tmp_path: Path) -> None:
    """What is opened or listed in the project while bounds are made is hostile in the table, or on the way to that."""
    heard: set[str] = set()
    made: set[str] = set()
    for number, kind in enumerate(KINDS.values()):
        project = plain(tmp_path / str(number))
        before = {"notes.txt"}
        kind(project, victims["documents"])
        for here, folders, files in os.walk(project):
            made |= {os.path.relpath(Path(here, name), project) for name in (*folders, *files)} - before
        made_for = list(cases(project, own_place))
        with hearing() as names:
            for _, environ, confinement, cwd in made_for:
                with contextlib.suppress(ConfinementError):
                    bounds_of(confinement, environ, cwd)
        heard |= {os.path.relpath(name, project) for name in names if below(name, str(project))}
    assert ".git" in heard, "nothing was heard"
    assert ".venv/pyvenv.cfg" in heard
    assert sorted(heard - made) == []


def interpreter(folder: Path) -> Path:
    write(folder / "bin/python3.12").chmod(0o755)
    write(folder / "lib/python3.12/os.py")
    write(folder / "diary")
    return folder


INSTALLED = (
    *(
        ".local/share/uv/python/cpython-3.12",
        ".pyenv/versions/3.12.1",
        "miniconda3",
        "miniforge3/envs/x",
        ".conda/envs/x",
    ),
    *(".asdf/installs/python/3.12", ".local/share/mise/installs/python/3.12"),
)


def test_the_interpreter_of_a_projects_environment_is_read(confined: Confined, own_place: Path, tmp_path: Path) -> None:
    """It lies where interpreters are installed, or outside of every home; and nothing beside it is read."""
    wrong = []
    for base in (*(interpreter(own_place / place) for place in INSTALLED), interpreter(tmp_path / "shared/python")):
        for name in (".venv", "venv", "env"):
            project = tmp_path / f"{str(base).replace('/', '-')}{name}"
            write(project / f"{name}/pyvenv.cfg", f"home = {base}/bin\nversion = 3.12\n")
            ended = confined.bash(
                f"cat {base}/lib/python3.12/os.py && cat {base}/diary", Confinement(read=(str(project),)), cwd=project
            )
            if ended.output.count("content") != 1:
                wrong.append((base, name, ended))
    assert wrong == []


def test_what_is_no_installed_interpreter_is_not(own_place: Path, tmp_path: Path) -> None:
    bases = {
        "in the home": interpreter(own_place / "tools/python"),
        "the home": interpreter(own_place),
        "beside the places": interpreter(own_place / ".pyenv/other"),
        "deeper": interpreter(own_place / ".pyenv/versions/a/b"),
        "an environment": interpreter(tmp_path / "made"),
        "around the project": interpreter(tmp_path / "around"),
    }
    write(tmp_path / "made/pyvenv.cfg", "home = /usr/bin\n")
    bases["without a library"] = write(tmp_path / "half/bin/python3").parent.parent
    bases["without a program"] = write(tmp_path / "other-half/lib/python3.12/os.py").parents[2]
    for name, base in bases.items():
        project = tmp_path / f"around/{name}"
        write(project / ".venv/pyvenv.cfg", f"home = {base}/bin\n")
        bounds = bounds_of(Confinement(read=(str(project),)), {"HOME": str(own_place)}, str(project))
        opened = [
            path
            for path in (*bounds.read, *bounds.data)
            if any(below(path, f"{base}/{part}") for part in INTERPRETER_PARTS)
        ]
        assert opened == [], name
        assert str(base) not in bounds.read, name


def test_an_environment_of_the_users_own_is_believed(confined: Confined, own_place: Path, tmp_path: Path) -> None:
    base = interpreter(own_place / "built/python")
    package = write(own_place / "code/tide/tide.py").parent
    environment = own_place / "environments/tide"
    write(environment / "pyvenv.cfg", f"home = {base}/bin\n")
    write(environment / f"{PACKAGES}/__editable__.tide.pth", f"{package}\n")
    (environment / "bin").mkdir()
    seen = f"cat {base}/lib/python3.12/os.py {package}/tide.py"
    for environ in ({"VIRTUAL_ENV": str(environment)}, {"PATH": f"{environment}/bin:/usr/bin:/bin"}):
        assert confined.bash(seen, environ=environ).output == "contentcontent"
    assert confined.bash(seen).code


def test_variables_that_a_command_sets_open_nothing(own_place: Path, root: Path, confined: Confined) -> None:
    write(own_place / "documents/letter", "Dear diary")
    for name in ("JAVA_HOME", "PATH", "VIRTUAL_ENV", "PYTHONPATH", "SSL_CERT_FILE", "XDG_CONFIG_HOME", "HOME"):
        seen = ["/bin/cat", f"{own_place}/documents/letter"]
        ended = confined.run(seen, own_variables={name: f"{own_place}/documents"})
        assert "diary" not in ended.output, name
    ended = confined.bash("echo $JAVA_HOME", own_variables={"JAVA_HOME": "/x"})
    assert ended.output == "/x\n"


def test_a_link_that_replaces_the_folder_of_temporary_files_stops_commands(
    own_place: Path, root: Path, tmp_path: Path
) -> None:
    (root / "tmp").symlink_to(own_place)
    with pytest.raises(ConfinementError, match="link"):
        bounds_of(
            Confinement(read=(str(root),), write=(str(root),)), {"HOME": str(own_place)}, str(root), [f"{root}/tmp"]
        )
