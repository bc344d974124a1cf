"""Unpacking images: what programs save, and what somebody means harm with."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.sandbox.containers.image_files import unpack
from cellwright.sandbox.resolved_bounds import ConfinementError


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
