"""What a container is made of: a Dockerfile, what is run in it once, and images that are not there."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Confinement, Container
from cellwright.sandbox.containers.images import unpack
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.tools.process.child_processes import ChildProcesses, Command
from cellwright.tools.process.runner import OutputHead, RunningProgram, child_environment
from confined import sandbox_by, staging_sandbox
from eventual import eventually
from processes.container_images import IMAGE, archive
from processes.containers_at_work import bounds, engine_of, ours, run
from processes.marked_processes import wait_until_gone

BUILD_SECONDS = 600 + os.getpid()
"""Of a build that never comes to its end: a number that no other process sleeps."""

pytestmark = pytest.mark.containers


def made_of(confinement: Confinement, **more: object) -> Confinement:
    assert confinement.container is not None
    container = dataclasses.replace(confinement.container, **more)  # type: ignore[arg-type]
    return dataclasses.replace(confinement, container=container)


def test_a_dockerfile_is_built_and_built_again_when_it_changes(
    engine_kind: str, root: Path, children: ChildProcesses
) -> None:
    file = root / "Dockerfile"
    file.write_text(f"FROM {IMAGE}\nARG WORD\nENV SAYS=$WORD\n")
    inside = made_of(
        bounds(root, engine_kind), image="", dockerfile=str(file), context=str(root), build_arguments=(("WORD", "one"),)
    )
    assert run("echo $SAYS", root, children, inside) == (0, "one\n")
    children.stop()
    file.write_text(f"FROM {IMAGE}\nENV SAYS=two\n")
    assert run("echo $SAYS", root, children, inside) == (0, "two\n")


def test_what_is_run_once_is_there_for_all_commands(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    inside = made_of(
        bounds(root, engine_kind),
        after_making=(("/bin/sh", "-c", "echo made >> /usr/local/thing; echo ran >> ran"),),
        workspace="/workspaces/project",
        variables=(("NAME", "value"),),
    )
    script = "cat /usr/local/thing /workspaces/project/ran; echo $NAME"
    assert run(script, root, children, inside) == (0, "made\nran\nvalue\n")
    reads = dataclasses.replace(inside, write=(), keeps_installed=False)
    assert run(script, root, children, reads) == (0, "made\nran\nvalue\n")
    children.stop()
    listed = engine_of(engine_kind).ask("images", "--filter", "label=cellwright.owner", "--format", "{{.ID}}")
    assert listed.split() == []


def test_agents_share_one_or_have_their_own(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    inside = bounds(root, engine_kind)
    for agent in ("", "one", "two"):
        run("true", root, children, made_of(inside, agent=agent))
    assert len(ours(engine_kind, root)) == 3
    run("true", root, children, made_of(inside, agent="one"))
    assert len(ours(engine_kind, root)) == 3


def test_an_image_that_is_not_there_says_so(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    with pytest.raises(
        OSError, match=r"not-there:1 .* could not be fetched \(`(podman|docker) pull`: .* load --input FILE`"
    ):
        run("true", root, children, made_of(bounds(root, engine_kind), image="localhost/not-there:1"))
    assert ours(engine_kind, root) == []


def test_an_image_that_would_be_an_option_is_not_tried(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    with pytest.raises(OSError, match="is not the name of an image"):
        run("true", root, children, made_of(bounds(root, engine_kind), image="--privileged"))


def test_a_build_is_shown_and_an_interrupt_ends_it(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    file = root / "Dockerfile"
    file.write_text(f"FROM {IMAGE}\nRUN echo it is built here; sleep {BUILD_SECONDS}\n")
    inside = made_of(bounds(root, engine_kind), image="", dockerfile=str(file), context=str(root))

    async def play() -> None:
        said: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        command = Command(
            arguments=["/usr/bin/bash", "-c", "true"],
            cwd=root,
            environ=child_environment(os.environ),
            confinement=inside,
            says=lambda line: loop.call_soon_threadsafe(said.put_nowait, line),
        )
        output = OutputHead(1_000)

        def start() -> asyncio.Task[RunningProgram]:
            return asyncio.create_task(RunningProgram.started(command, output=output.take, children=children))

        building = start()
        while "it is built here" not in (line := await said.get()) or "STEP" in line:
            assert line.startswith(f"{engine_kind} build: ")
        waiting = start()  # for the one that builds
        for task in (waiting, building):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(play(), 120))
    assert ours(engine_kind, root) == []
    assert run("true", root, children, bounds(root, engine_kind))[0] == 0, "another command can run"
    eventually(_sleeping, lambda found: not found)


def _sleeping() -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes() == b"sleep\0%d\0" % BUILD_SECONDS:
                found.append(file.parent.name)
    return found


def member(name: str, content: bytes = b"", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        for info, content in members:
            packed.addfile(info, io.BytesIO(content))
    return file.getvalue()


LOWER = tar(
    member("etc/", type=tarfile.DIRTYPE, mode=0o755),
    member("etc/a", b"lower"),
    member("etc/gone", b"x"),
    member("opt/old/x", b"x"),
    member("lib", type=tarfile.SYMTYPE, linkname="usr/lib"),
    member("usr/lib/", type=tarfile.DIRTYPE, mode=0o755),
    member("usr/bin/su", b"x", mode=0o4755),
)
UPPER = tar(
    member("etc/a", b"upper"),
    member("etc/.wh.gone"),
    member("opt/old/.wh..wh..opq"),
    member("opt/old/y", b"y"),
    member("lib/b", b"through the link"),
    member("etc/c", type=tarfile.LNKTYPE, linkname="etc/a"),
)
CONFIG = json.dumps({"config": {"Env": ["PATH=/opt/bin:/bin", "X=1"]}}).encode()


def blob(content: bytes) -> tuple[str, bytes]:
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content


def docker_archive(path: Path) -> Path:
    manifest = json.dumps([{"Config": "config.json", "Layers": ["1/layer.tar", "2/layer.tar"]}]).encode()
    files = {"manifest.json": manifest, "config.json": CONFIG, "1/layer.tar": LOWER, "2/layer.tar": UPPER}
    path.write_bytes(tar(*(member(name, content) for name, content in files.items())))
    return path


def oci_layout(path: Path, damage: bool = False) -> Path:
    layers, config = [blob(LOWER), blob(UPPER)], blob(CONFIG)
    digest = lambda name: f"sha256:{name.rpartition('/')[2]}"  # noqa: E731
    manifest = blob(
        json.dumps(
            {"config": {"digest": digest(config[0])}, "layers": [{"digest": digest(name)} for name, _ in layers]}
        ).encode()
    )
    index = json.dumps({"manifests": [{"digest": digest(manifest[0])}]}).encode()
    for name, content in [("oci-layout", b"{}"), ("index.json", index), manifest, config, *layers]:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content + b"!" if damage and name == layers[1][0] else content)
    return path


@pytest.mark.parametrize("made", [lambda to: docker_archive(to / "image.tar"), lambda to: oci_layout(to / "layout")])
def test_layers_lie_over_each_other(made: Callable[[Path], Path], tmp_path: Path) -> None:
    image = unpack(made(tmp_path), tmp_path / "unpacked")
    files = Path(image.folder)
    found = {str(path.relative_to(files)): path.read_text() for path in files.rglob("*") if path.is_file()}
    assert found == {
        "etc/a": "upper",
        "etc/c": "upper",
        "opt/old/y": "y",
        "usr/lib/b": "through the link",
        "usr/bin/su": "x",
    }
    assert (files / "usr/bin/su").stat().st_mode & 0o7777 == 0o755
    assert image.variables == (("PATH", "/opt/bin:/bin"), ("X", "1"))


@pytest.mark.parametrize(
    "members",
    [
        [member("../outside", b"x")],
        [member("/etc/../../outside", b"x")],
        [member("a", type=tarfile.SYMTYPE, linkname="/"), member("a/TOP/outside", b"x")],
        [member("a", type=tarfile.SYMTYPE, linkname="../../.."), member("a/outside", b"x")],
        [member("a", type=tarfile.SYMTYPE, linkname="TOP/outside"), member("a", b"x")],
        [member("a", type=tarfile.LNKTYPE, linkname="../../secret"), member("a", b"x")],
        [member("a", type=tarfile.SYMTYPE, linkname="TOP/secret"), member("b", type=tarfile.LNKTYPE, linkname="a")],
        [member("dev/sda", type=tarfile.BLKTYPE)],
        [member("fifo", type=tarfile.FIFOTYPE)],
    ],
)
def test_nothing_is_made_or_changed_outside(members: list[tuple[tarfile.TarInfo, bytes]], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for info, _ in members:
        info.name = info.name.replace("TOP", str(tmp_path).lstrip("/"))
        info.linkname = info.linkname.replace("TOP", str(tmp_path))
    (tmp_path / "image.tar").write_bytes(tar(*members))
    try:
        unpack(tmp_path / "image.tar", tmp_path / "unpacked")
    except ConfinementError:
        assert not (tmp_path / "unpacked").exists()
    outside = {path.name for path in tmp_path.iterdir()} - {"unpacked"}
    assert outside == {"secret", "image.tar"}
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "secret").stat().st_nlink == 1
    for path in (tmp_path / "unpacked").rglob("*"):
        assert path.is_symlink() or path.is_dir() or path.is_file()


def test_a_damaged_layer_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(ConfinementError, match="has another digest"):
        unpack(oci_layout(tmp_path / "layout", damage=True), tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00broken"])
def test_what_is_no_archive_says_so(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(ConfinementError, match="cannot be unpacked"):
        unpack(tmp_path / "image.tar", tmp_path / "unpacked")


@pytest.fixture
def children() -> Iterator[ChildProcesses]:
    sandbox = sandbox_by("bubblewrap")
    processes = ChildProcesses(lambda: sandbox)
    yield processes
    processes.stop()


def root_bounds(root: Path, files: Path, *, writes: bool = True, **more: object) -> Confinement:
    container = Container(files=str(files), program="bubblewrap", project=str(root), **more)  # type: ignore[arg-type]
    return Confinement(
        read=(str(root),), write=(str(root),) if writes else (), container=container, keeps_installed=writes
    )


def test_a_command_sees_the_files_and_the_project(image_files: Path, root: Path, children: ChildProcesses) -> None:
    (root / "a.txt").write_text("of the project\n")
    outside = root.parent / "outside.txt"
    outside.write_text("of this machine\n")
    code, output = run(
        f'cat /etc/image a.txt; cat {outside} 2> /dev/null; echo "[$OF_THIS_MACHINE]"; echo made > b.txt; exit 7',
        root,
        children,
        root_bounds(root, image_files),
        memory_mb=4096,
    )
    assert (code, output) == (7, "the image of the tests\nof the project\n[]\n")
    assert (root / "b.txt").read_text() == "made\n"


@pytest.mark.parametrize(
    ("memory", "of_the_command", "holds"), [("100m", 4096, 100), ("4g", 64, 64), ("200m", None, 200)]
)
def test_memory_holds_for_each_process(
    image_files: Path, root: Path, children: ChildProcesses, memory: str, of_the_command: int | None, holds: int
) -> None:
    inside = root_bounds(root, image_files, memory=memory)
    for script in ("ulimit -d", "/usr/bin/bash -c 'ulimit -d'"):
        assert run(script, root, children, inside, memory_mb=of_the_command) == (0, f"{holds * 1024}\n")
    code, output = run("x=$(seq 100000000 130000000)", root, children, inside, memory_mb=of_the_command)
    assert (code != 0, "cannot allocate" in output) == (True, True)


def test_a_folder_of_files_is_never_changed(image_files: Path, root: Path, children: ChildProcesses) -> None:
    before = sorted(str(path) for path in image_files.rglob("*"))
    _, output = run("echo x > /usr/bin/x; echo x > /etc/x", root, children, root_bounds(root, image_files))
    assert output.count("Read-only file") == 2
    assert sorted(str(path) for path in image_files.rglob("*")) == before


def test_an_archive_is_unpacked_once_and_keeps_what_was_installed(
    image_files: Path, root: Path, tmp_path: Path, children: ChildProcesses
) -> None:
    inside = root_bounds(root, archive(image_files, tmp_path / "image.tar"))
    cell = run("echo installed > /usr/local/bin/thing", root, children, inside)
    assert cell == (0, "")
    cell = run("cat /usr/local/bin/thing", root, children, inside)
    assert cell == (0, "installed\n")
    reads = root_bounds(root, tmp_path / "image.tar", writes=False)
    cell = run("cat /usr/local/bin/thing", root, children, reads)
    assert cell == (0, "installed\n")
    _, output = run("echo x > /usr/local/bin/thing; echo x > b", root, children, reads)
    assert output.count("Read-only file") == 2


def test_there_is_no_network(image_files: Path, root: Path, children: ChildProcesses) -> None:
    _, output = run("(echo > /dev/tcp/1.1.1.1/80)", root, children, root_bounds(root, image_files))
    assert "Network is unreachable" in output or "Operation not permitted" in output


def test_a_workspace_is_another_name_of_the_project(image_files: Path, root: Path, children: ChildProcesses) -> None:
    (root / "a.txt").write_text("of the project\n")
    inside = root_bounds(root, image_files, workspace="/workspaces/project", variables=(("NAME", "value"),))
    assert run("cat /workspaces/project/a.txt; echo $NAME", root, children, inside) == (0, "of the project\nvalue\n")


def test_changes_are_judged_before_they_are_made(image_files: Path, root: Path) -> None:
    sandbox = staging_sandbox()
    children = ChildProcesses(lambda: sandbox)
    container = Container(files=str(image_files), program="bubblewrap", project=str(root))
    confinement = Confinement(
        read=(str(root),), write=(str(root),), protects=lambda path: path.endswith("/kept"), container=container
    )
    assert run("echo x > made", root, children, confinement)[0] == 0
    cell = run("echo x > other; echo x > kept", root, children, confinement)
    assert cell[0] == 2
    assert sorted(file.name for file in root.iterdir()) == ["made"]
    children.stop()


def test_a_command_whose_time_is_over_ends_inside(image_files: Path, root: Path, children: ChildProcesses) -> None:
    mark = f"4321.{os.getpid()}"
    run(f"(sleep {mark} & wait)", root, children, root_bounds(root, image_files), seconds=1)
    wait_until_gone(mark)
