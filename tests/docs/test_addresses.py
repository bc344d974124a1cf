"""The one place of addresses, what is made from it, and the documentation that ships."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves it out

from cellwright.errors import CellwrightError
from cellwright.terminal.main import main
from cellwright.terminal.subcommands.docs import docs, pages_folder, read_pages, search
from cellwright.version import VERSION, documented
from users_words import USERS_WORDS

ROOT = Path(__file__).parents[2]
HOME = {"repository": "https://code.example/o/n/", "documentation": "https://docs.example/en/", "email": "a@b.example"}


def release_module(name: str) -> Any:
    """A module of the folder `release`, which is no package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "release" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


addresses = release_module("addresses")


def home(**filled: str) -> Any:
    return addresses.Home({"version": "1.2.3", "authors": [{"name": "Us"}]}, filled)


def test_nothing_is_said_until_it_is_filled() -> None:
    assert home().urls() == {}
    assert home().authors() == [{"name": "Us"}]
    page = home().index_page((ROOT / "README.md").read_text("utf-8"))
    assert "](" not in page.replace("](http", "")
    assert "make demo" not in page, "commands of a clone"
    assert "<picture>" not in page


def test_all_addresses_are_made_from_it() -> None:
    filled = home(**HOME)
    assert filled.urls() == {
        "Homepage": "https://code.example/o/n",
        "Documentation": "https://docs.example/en/index.html",
        "Source": "https://code.example/o/n",
        "Issues": "https://code.example/o/n/issues",
        "Changelog": "https://code.example/o/n/blob/v1.2.3/CHANGELOG.md",
    }
    assert filled.authors() == [{"name": "Us", "email": "a@b.example"}]


def test_an_index_keeps_every_picture_and_link_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    page = home(**HOME).index_page(readme)
    assert page.count("](") == readme.count("](")
    assert "](" not in page.replace("](https://", "")
    assert "](https://code.example/o/n/raw/v1.2.3/docs/images/proposals.png)" in page
    assert page.count('="https://code.example/o/n/raw/v1.2.3/docs/images/error-fix-run-') == 4
    assert "](https://docs.example/en/permissions.html)" in page
    assert "](https://code.example/o/n/blob/v1.2.3/docs/decisions/README.md)" in page
    for path in re.findall(r"/(?:raw|blob)/v1\.2\.3/([^)#\"]*)", page):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    "wrong",
    [{"repository": "code.example"}, {"email": "nobody"}, {"site": "https://a.example"}],
    ids=lambda each: str(each),
)
def test_what_cannot_be_an_address_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"tool\.cellwright\.home"):
        home(**wrong)


def test_what_repeats_the_version_and_the_addresses_is_written_from_them() -> None:
    for path, text in release_module("release").written_files(ROOT).items():
        assert path.read_text("utf-8") == text, f"{path.name}: run `make written`"


def test_publishing_is_off_until_the_maintainer_switches_it_on() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text("utf-8"))
    assert [*workflow[True]] == ["workflow_dispatch"], "YAML reads `on` as true"
    assert workflow["permissions"] == {}
    assert workflow["jobs"]["build"]["if"] == "vars.PUBLISHING == 'on'"
    assert workflow["jobs"]["publish"]["needs"] == "build"


def test_messages_name_the_pages_that_ship(monkeypatch: pytest.MonkeyPatch) -> None:
    if addresses.read_home(ROOT).pages:
        assert documented("settings").startswith("https://")
    else:
        assert documented("settings") == "`cellwright docs settings`"
        assert documented() == "`cellwright docs`"


def test_messages_name_the_address_that_the_package_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / f"cellwright-{VERSION}.dist-info"
    info.mkdir()
    for first, page in (
        ("https://docs.example/en/index.html", "https://docs.example/en/hooks.html"),
        ("https://code.example/o/n/blob/v1/docs/index.md", "https://code.example/o/n/blob/v1/docs/hooks.md"),
    ):
        metadata = f"Metadata-Version: 2.4\nName: cellwright\nVersion: 1\nProject-URL: Documentation, {first}\n"
        (info / "METADATA").write_text(metadata)
        monkeypatch.syspath_prepend(str(tmp_path))
        assert documented("hooks") == page


def test_every_page_that_messages_name_is_there() -> None:
    pages = read_pages(pages_folder())
    named = {
        name
        for path in (ROOT / "src" / "cellwright").rglob("*.py")
        for text in [path.read_text("utf-8")]
        for name in [
            *re.findall(r"documented\(['\"]([\w/-]+)", text),
            *re.findall(r"`cellwright docs ([a-z/-]+)`", text),
        ]
    }
    assert {"settings", "mcp", "troubleshooting"} <= named
    assert named - {"PAGE"} <= set(pages)


def test_it_prints_a_page_and_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "permissions"]) == 0
    assert capsys.readouterr().out.startswith("# Permissions")
    assert main(["docs"]) == 0
    assert "guides/fix-a-failing-test" in capsys.readouterr().out
    assert main(["docs", "permisions"]) == 2
    assert "Unknown page" in capsys.readouterr().err


def test_it_opens_a_page_without_a_network(own_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setenv("CELLWRIGHT_HOME", str(own_place / "state"))

    def browser(address: str) -> bool:
        opened.append(address)
        return True

    assert docs(["permissions", "--open"], open_browser=browser) == 0
    (address,) = opened
    if address.startswith("file:"):
        file = Path(address.removeprefix("file://"))
        links = [link for link in re.findall(r'href="([^"#]*)', file.read_text("utf-8")) if ".html" in link]
        missing = [link for link in links if "reference/" not in link and not (file.parent / link).is_file()]
        assert links
        assert [link for link in missing if "decisions/" not in link and "protocol/" not in link] == []
    with pytest.raises(CellwrightError):
        docs(["no-such-page", "--open"], open_browser=browser)


def test_users_words_find_the_page_that_answers() -> None:
    pages = read_pages(pages_folder())
    found = {words: [page for page, _ in search(pages, [words])][:3] for words in USERS_WORDS}
    assert {words: found[words] for words, page in USERS_WORDS.items() if page not in found[words]} == {}
