"""How each installation is upgraded, told by what its installer left behind."""

from __future__ import annotations

from pathlib import Path

from cellwright.commands.installation import find_upgrade
from row_tables import for_each_row


@for_each_row(
    "left, installer, command",
    [
        ("pipx_metadata.json", "pipx", "pipx upgrade cellwright"),
        ("uv-receipt.toml", "uv tool", "uv tool upgrade cellwright"),
        ("conda-meta/cellwright-1.0-py_0.json", "conda", "conda update --prefix"),
        ("conda-meta/python-3.12.json", "pip", "-m pip install --upgrade cellwright"),
        ("pyvenv.cfg", "pip", "-m pip install --upgrade cellwright"),
    ],
)
def test_the_program_that_installed_it_upgrades_it(tmp_path: Path, left: str, installer: str, command: str) -> None:
    (tmp_path / left).parent.mkdir(exist_ok=True)
    (tmp_path / left).write_text("{}")
    found = find_upgrade(tmp_path, "/opt/my python", metadata=lambda name: "pip\n" if name == "INSTALLER" else "")
    assert found.installer == installer
    assert command in found.command
    assert ("'/opt/my python'" in found.command) == (installer == "pip")


def test_uv_and_a_checkout_are_told_by_the_packages_own_files(tmp_path: Path) -> None:
    def uv(name: str) -> str:
        return "uv" if name == "INSTALLER" else ""

    def checkout(name: str) -> str:
        return (
            '{"url": "file:///src/cellwright", "dir_info": {"editable": true}}' if name == "direct_url.json" else "pip"
        )

    assert find_upgrade(tmp_path, "/py", metadata=uv).command.split()[:5] == ["uv", "pip", "install", "--python", "/py"]
    found = find_upgrade(tmp_path, "/py", metadata=checkout)
    assert (found.command, "/src/cellwright" in found.note) == ("", True)
