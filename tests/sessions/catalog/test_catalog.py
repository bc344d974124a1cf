"""The list and the search: what is found, in which order, and that they follow the transcripts whatever happens."""

from __future__ import annotations

import os
import sqlite3
import stat
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sessions.catalog.conftest import Held, append, begun, say

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.catalog.catalog import Catalog
from cellwright.sessions.catalog.index import catch_up, with_database
from cellwright.sessions.catalog.metadata import about_path, read_about, write_tags, write_title
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import encode_line
from cellwright.sessions.transcripts.transcript_file import Line
from row_tables import for_each_row


def titles(catalog: Catalog, *args: object, **options: object) -> list[str]:
    return [entry.title for entry in catalog.entries(*args, **options)]  # type: ignore[arg-type]


def found(catalog: Catalog, query: str) -> list[str]:
    return [entry.title for entry in catalog.search(query)]


def test_the_list_tells_of_a_session_what_its_transcript_holds(held: Held, catalog: Catalog, project: Path) -> None:
    path = held("Count the bees\nplease", "And the hives")
    (entry,) = catalog.entries()
    assert (entry.id, entry.path, entry.title, entry.title_by) == (path.stem, path, "Count the bees", "")
    assert (entry.turns, entry.cost_usd, entry.model, entry.cwd) == (2, 1.0, "claude-opus-5-5", str(project))
    assert (entry.size, entry.in_use, entry.damaged, entry.snippet) == (path.stat().st_size, False, False, "")
    assert entry.created <= entry.updated
    assert set(entry.to_json()) == {
        "id", "title", "tags", "cwd", "created", "updated", "turns", "cost_usd", "model", "size", "in_use", "snippet",
        "forked_from", "depth",
    }  # fmt: skip


def test_a_price_that_is_not_known_is_no_zero(held: Held, catalog: Catalog) -> None:
    held("one", cost=None)
    assert catalog.entries()[0].cost_usd is None


def test_newest_first_page_by_page_and_by_folder(held: Held, catalog: Catalog, tmp_path: Path, project: Path) -> None:
    other = tmp_path / "ants"
    paths = [held(f"prompt {number}", cwd=other if number == 3 else project) for number in range(6)]
    gone_on = Session.load(paths[1])
    say(gone_on, "more")
    assert titles(catalog) == [f"prompt {number}" for number in (1, 5, 4, 3, 2, 0)]
    assert titles(catalog, limit=2, offset=1) == ["prompt 5", "prompt 4"]
    assert titles(catalog, project, limit=3, offset=2) == ["prompt 4", "prompt 2", "prompt 0"]
    assert titles(catalog, other) == ["prompt 3"]
    assert titles(catalog, tmp_path / "nobody") == []
    assert [entry.in_use for entry in catalog.entries(limit=2)] == [True, False]


def test_words_of_both_sides_are_found_and_nothing_else(held: Held, catalog: Catalog) -> None:
    held("Wie groß ist die Überschwemmung?", answer="The parser counts tides.")
    held("Something else")
    for query in ("parser", "PARSER tide", "uberschwemmung", "Überschwemmung", "groß tides", '"counts tides"', "pars"):
        assert found(catalog, query) == ["Wie groß ist die Überschwemmung?"], query
    for query in ("resultword", "thoughtword", "toldword", "secretfile", '"tides counts"', "parser else", "arser"):
        assert found(catalog, query) == [], query


def test_a_snippet_shows_where_with_the_hits_marked(held: Held, catalog: Catalog) -> None:
    held("First", "What about ⟪this⟫?\nAnd\tthe tides there", answer="Sure.")
    (entry,) = catalog.search("tide")
    assert entry.snippet == "What about «this»? And the ⟪tides⟫ there"


def test_chinese_and_japanese_are_found_by_their_characters(held: Held, catalog: Catalog) -> None:
    held("请问明天的天气预报是什么")
    held("今日の天気はどうですか")
    assert found(catalog, "天气预报") == ["请问明天的天气预报是什么"]
    assert found(catalog, "天気") == ["今日の天気はどうですか"]
    assert found(catalog, "报预") == []
    assert catalog.search("天气")[0].snippet == "请问明天的⟪天气⟫预报是什么"


def test_the_session_whose_title_or_one_message_holds_all_words_comes_first(held: Held, catalog: Catalog) -> None:
    held("bees " + "and many other words that say nothing of it " * 20, "hives")
    held("The bees left their hives")
    named = held("Something else")
    assert found(catalog, "bees hives")[0] == "The bees left their hives"
    write_title(named, "Bees and hives")
    assert found(catalog, "bees hives")[:2] == ["Bees and hives", "The bees left their hives"]


def test_tags_and_titles_are_found_and_outlive_the_catalog(held: Held, catalog: Catalog) -> None:
    path = held("Count")
    assert catalog.rename(path.stem, "  Bees \n of Brest ").title == "Bees of Brest"
    assert catalog.tag(path.stem, ["#thesis", "keep", "thesis"]).tags == ("thesis", "keep")
    catalog.path.unlink()
    (entry,) = catalog.search("thesis brest")
    assert (entry.title, entry.title_by, entry.tags) == ("Bees of Brest", "user", ("thesis", "keep"))
    assert found(catalog, "#keep") == ["Bees of Brest"]
    assert stat.S_IMODE(about_path(path).stat().st_mode) == 0o600
    assert catalog.rename(path.stem[:18], "").title == "Count"
    assert found(catalog, "brest") == []


def test_the_users_title_goes_before_the_models(held: Held, catalog: Catalog) -> None:
    path = held("Count")
    write_title(path, "By the model", "model")
    assert (catalog.entries()[0].title, catalog.entries()[0].title_by) == ("By the model", "model")
    write_title(path, "By me")
    write_title(path, "By the model again", "model")
    assert catalog.entries()[0].title == "By me"
    write_title(path, "")
    assert catalog.entries()[0].title == "By the model again"


@for_each_row("tag", ["two words", "-x", "x" * 41, "#", "<b>", "a\0b"])
def test_what_cannot_be_a_tag_changes_nothing(tag: str, held: Held, catalog: Catalog) -> None:
    path = held("Count")
    write_tags(path, ["one"])
    with pytest.raises(CellwrightError) as caught:
        write_tags(path, ["two", tag])
    assert caught.value.code == ErrorCode.INVALID_PARAMETERS
    assert catalog.entries()[0].tags == ("one",)


def test_a_line_that_was_cut_off_spoils_no_other(held: Held) -> None:
    path = held("Count")
    write_title(path, "One")
    with about_path(path).open("ab") as file:
        file.write(b'\n{"at": 1, "tags": ["lo')
    write_tags(path, ["two"])
    about_path(path).write_bytes(b"\xff\n[1]\n" + b"[" * 100_000 + b"\n" + about_path(path).read_bytes())
    assert (read_about(path).title, read_about(path).tags) == ("One", ("two",))


def test_a_session_that_is_being_written_is_followed_by_its_new_lines_alone(catalog: Catalog, project: Path) -> None:
    session = begun(project)
    say(session, "Count the bees")
    assert catalog.entries()[0].turns == 1
    assert session.path is not None
    before = session.path.stat().st_size
    say(session, "And the wasps", "Buzz.")
    with session.path.open("ab") as file:
        file.write(b'{"bytes":12,"crc32":1,"se')  # a line that is being written
    assert found(catalog, "wasps buzz") == ["Count the bees"]
    assert (catalog.entries()[0].turns, catalog.entries()[0].cost_usd) == (2, 1.0)
    row = sqlite3.connect(catalog.path).execute("SELECT read_size, (SELECT count(*) FROM said) FROM session").fetchone()
    assert row[0] > before
    assert row[1] == 4


def test_turns_that_were_taken_back_are_not_found(catalog: Catalog, project: Path) -> None:
    session = begun(project)
    say(session, "Count the bees")
    seq = session.next_seq
    say(session, "And the wasps")
    assert found(catalog, "wasps")
    session.return_to(seq)
    assert found(catalog, "wasps") == []
    assert (catalog.entries()[0].turns, catalog.entries()[0].cost_usd) == (1, 1.0)
    say(session, "Rather hornets")
    assert found(catalog, "hornets") == ["Count the bees"]
    assert catalog.entries()[0].turns == 2


def test_a_session_without_a_prompt_that_counts_is_not_listed(catalog: Catalog, project: Path) -> None:
    session = begun(project)
    session.append({"role": "user", "content": "refused"})
    session.take_back()
    assert catalog.entries() == []


def test_what_was_deleted_by_hand_is_gone_from_the_catalog_and_its_file(held: Held, catalog: Catalog) -> None:
    path = held("zanzibarprompt")
    held("other")
    assert found(catalog, "zanzibarprompt")
    path.unlink()
    assert titles(catalog) == ["other"]
    assert found(catalog, "zanzibarprompt") == []
    files = [file for file in catalog.path.parent.iterdir() if file.name.startswith("catalog")]
    assert not any(b"zanzibar" in file.read_bytes() for file in files)


def test_the_catalog_never_writes_to_a_transcript(held: Held, catalog: Catalog) -> None:
    path = held("Count")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    path.chmod(0o400)
    catalog.search("count")
    catalog.rename(path.stem, "New")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_damaged_session_is_listed_with_what_can_be_read(held: Held, catalog: Catalog) -> None:
    half, headless = held("Count the bees", "and the wasps"), held("Never seen")
    lines = half.read_bytes().split(b"\n")
    lines[5] = lines[5].replace(b"wasps", b"hornets")
    half.write_bytes(b"\n".join(lines))
    headless.write_bytes(b"#" + headless.read_bytes())
    entries = {entry.path: entry for entry in catalog.entries()}
    assert (entries[half].title, entries[half].damaged, entries[half].turns) == ("Count the bees", True, 1)
    assert (entries[headless].title, entries[headless].damaged) == ("(cannot be read)", True)
    half.write_bytes(half.read_bytes().replace(b"hornets", b"wasps"))  # restored
    assert catalog.search("wasps")[0].damaged is False


def test_a_transcript_of_another_program_hides_no_other(held: Held, catalog: Catalog, project: Path) -> None:
    good = held("Count the bees")
    strange: list[Path] = []
    for message in (b"no json", b"[]", b'{"role":"user"}', b'{"role":"user","content":[{"type":"text"}]}'):
        session = begun(project)
        append(session, {"role": "user", "content": "wasps"})
        session.close()
        assert session.path is not None
        line = encode_line(Line({"seq": 9, "at": 9.0, "epoch": 1}, message))
        session.path.write_bytes(session.path.read_bytes() + line)
        strange.append(session.path)
    entries = {entry.path: entry for entry in catalog.entries()}
    assert (entries[good].title, entries[good].damaged) == ("Count the bees", False)
    assert {entries[path].damaged for path in strange} == {True}
    assert [entry.path for entry in catalog.search("bees")] == [good]


def spoil_header(path: Path) -> None:
    path.write_bytes(b"this is no database, and never was" * 100)


def spoil_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data)):
        data[at] = at * 31 % 256
    path.write_bytes(data)


def spoil_tables(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE said")


def spoil_schema(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TABLE session; CREATE TABLE session(x); PRAGMA user_version = 999")


def spoil_with_another_table(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TABLE session; CREATE TABLE session(x)")


@pytest.mark.parametrize(
    "spoil", [spoil_header, spoil_pages, spoil_tables, spoil_schema, spoil_with_another_table, Path.unlink]
)
def test_a_catalog_that_is_damaged_missing_or_of_another_version_is_made_anew(
    spoil: object, held: Held, catalog: Catalog
) -> None:
    held("Count the bees")
    assert titles(catalog) == ["Count the bees"]
    spoil(catalog.path)  # type: ignore[operator]
    assert found(catalog, "bees") == ["Count the bees"]
    assert titles(Catalog()) == ["Count the bees"]
    assert sqlite3.connect(catalog.path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_file_is_for_the_user_alone(held: Held, catalog: Catalog) -> None:
    held("Count")
    catalog.entries()
    keep_open = sqlite3.connect(catalog.path)
    keep_open.execute("SELECT count(*) FROM sqlite_master").fetchone()
    files = [file for file in catalog.path.parent.iterdir() if file.name.startswith("catalog.sqlite3")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(catalog.path.parent.stat().st_mode) == 0o700
    keep_open.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_where_nothing_can_be_written_the_list_still_comes(held: Held, catalog: Catalog) -> None:
    held("Count the bees")
    catalog.path.parent.chmod(0o500)
    try:
        assert found(catalog, "bees") == ["Count the bees"]
    finally:
        catalog.path.parent.chmod(0o700)


def test_a_folder_in_the_files_place_is_no_reason_to_fail(held: Held, catalog: Catalog) -> None:
    held("Count the bees")
    catalog.path.mkdir()
    assert found(catalog, "bees") == ["Count the bees"]


def test_what_another_process_did_meanwhile_is_not_undone(held: Held, catalog: Catalog) -> None:
    path = held("Count the bees")

    def work(connection: sqlite3.Connection) -> int:
        first = catch_up(connection, catalog.sessions, None)
        session = Session.load(path)
        say(session, "more")
        other = Catalog()
        assert titles(other) == ["Count the bees"]
        return first + catch_up(connection, catalog.sessions, None)

    assert with_database(catalog.path, work) == 1, "the second had nothing left to read"
    assert catalog.entries()[0].turns == 2


@pytest.mark.parametrize("query", ["", " ", "\n"])
def test_no_query_is_the_list(query: str, held: Held, catalog: Catalog) -> None:
    held("Count")
    assert found(catalog, query) == ["Count"]


@for_each_row("query", ['"', "*", "()", "-", "^", "NEAR(", "?!", "\0", '""', "{}", ":", "\u200b"])
def test_signs_alone_find_nothing(query: str, held: Held, catalog: Catalog) -> None:
    held("Count")
    assert found(catalog, query) == []


def test_words_of_the_query_language_are_words(held: Held, catalog: Catalog) -> None:
    held("this AND that OR NOT NEAR text:x")
    for query in ("AND", "OR NOT", "NEAR(text", "text:x", "this AND", "-that", "^this", "th*"):
        assert len(found(catalog, query)) == 1, query


@pytest.fixture(scope="module")
def held_once(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog(tmp_path_factory.mktemp("state"))


@given(
    query=st.text(
        alphabet=st.one_of(st.sampled_from("\"'*^:()-+{}[]<>,;%_\\ ANDORNT#\0é天\u200b"), st.characters()), max_size=60
    )
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_is_a_syntax_error(query: str, held_once: Catalog) -> None:
    assert held_once.search(query) == []


@given(prompts=st.lists(st.text(string.ascii_letters + "äöüßé天気 \n\"'*()-", min_size=1), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_said_is_found_by_its_own_words(prompts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    state = tmp_path_factory.mktemp("state")
    session = Session.create(state, state / "sessions" / "p")
    session.begin(model="claude-opus-5-5", system=[], tools=[])
    for prompt in prompts:
        session.append({"role": "user", "content": prompt})
        session.append({"role": "assistant", "content": [{"type": "text", "text": "ok"}]})
    session.close()
    catalog = Catalog(state)
    for prompt in prompts:
        for word in prompt.replace('"', " ").split():
            if any(letter.isalnum() for letter in word):
                assert len(catalog.search(word)) == 1, word
