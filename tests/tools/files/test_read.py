from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
import threading
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.encodings import UTF_8, UTF_16_LE
from cellwright.tools.files.text import Lines, PageBounds
from row_tables import for_each_row


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes((width + 1) * height))) + chunk(b"IEND", b"")
    )


def test_lines_are_numbered_six_wide(tools):
    (tools.cwd / "a.py").write_text("import os\n\n\tx = 1\n")
    assert tools.text("Read", file_path="a.py") == "     1\timport os\n     2\t\n     3\t\tx = 1"


def test_an_absolute_path_is_the_same_file(tools):
    (tools.cwd / "a.py").write_text("x")
    assert tools.text("Read", file_path=str(tools.cwd / "a.py")) == "     1\tx"


@for_each_row(
    ("data", "shown"),
    [
        ("é\n".encode(), "     1\té"),
        (b"\xef\xbb\xbf" + "é\n".encode(), "     1\té"),
        ("é€\n".encode("utf-16"), "     1\té€"),
        (b"\xfe\xff" + "é€\n".encode("utf-16-be"), "     1\té€"),
        (b"\xff\xfe\x00\x00" + "é\n".encode("utf-32-le"), "     1\té"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb"),
        (b"a\rb\n", "     1\ta\rb"),
        ("a\u2028b\x0cc\n".encode(), "     1\ta\u2028b\x0cc"),
        (b"no end", "     1\tno end"),
        (b"\n", "     1\t"),
    ],
)
def test_encodings_and_line_ends(tools, data, shown):
    (tools.cwd / "a.txt").write_bytes(data)
    assert tools.text("Read", file_path="a.txt") == shown


def test_latin_1_is_the_last_resort_and_is_said(tools):
    (tools.cwd / "a.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    lines = tools.text("Read", file_path="a.txt").split("\n")
    assert lines[0] == "     1\tcafé"
    assert "Latin-1" in lines[1]


@pytest.mark.parametrize(
    ("data", "shown", "note"),
    [
        ("größe\n".encode("utf-16-le"), "größe", None),
        ("a\n\tb €\n".encode("utf-16-be"), "a\n     2\t\tb €", None),
        (b"\x93quoted\x94 \x80\n", "“quoted” €", "Windows-1252"),
        (b"\x81 \x9d\xff\n", "\x81 \x9dÿ", "Latin-1"),
    ],
)
def test_encodings_without_a_mark_are_told_by_their_bytes_and_kept(tools, data, shown, note):
    path = tools.cwd / "a.txt"
    path.write_bytes(data)
    text = tools.text("Read", file_path="a.txt")
    assert text.split("\n[")[0] == f"     1\t{shown}"
    assert (note is None and "not UTF-8" not in text) or f"taken as {note}" in text
    end = shown[-1]
    tools.result("Edit", file_path="a.txt", old_string=end, new_string=f"{end}x")
    codec = {None: "utf-16-le" if data[1:2] == b"\0" else "utf-16-be", "Windows-1252": "cp1252", "Latin-1": "latin-1"}
    assert path.read_bytes() == data[: -len("\n".encode(codec[note]))] + "x\n".encode(codec[note])


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("# -*- coding: koi8-r -*-\nx = 'привет'\n", "koi8-r"),
        ('<?xml version="1.0" encoding="Shift_JIS"?>\n<a>日本語表</a>\n', "shift_jis"),
        ('<html><meta charset="gbk">\n中文\n', "gbk"),
    ],
)
def test_a_file_that_says_its_encoding_is_believed_if_it_can_be(tools, text, encoding):
    path = tools.cwd / "a.txt"
    path.write_bytes(text.encode(encoding))
    shown = tools.text("Read", file_path="a.txt")
    assert text.split("\n")[1] in shown
    assert f"shown as {encoding}, as it says itself" in shown
    old, new = text.split("\n")[1], text.split("\n")[1][::-1]
    tools.result("Edit", file_path="a.txt", old_string=old, new_string=new)
    assert path.read_bytes() == text.replace(old, new).encode(encoding)


@for_each_row("name", ["utf-8", "nonsense", "rot13", "zlib", "utf-16", "idna", "unicode_escape", "cp037"])
def test_a_file_that_says_what_cannot_be_is_not_believed(tools, name):
    data = f"# coding: {name}\ncaf".encode() + b"\xe9\n"
    path = tools.cwd / "a.txt"
    path.write_bytes(data)
    assert "\tcafé\n[" in tools.text("Read", file_path="a.txt")
    assert "Latin-1" in tools.text("Read", file_path="a.txt")
    tools.result("Edit", file_path="a.txt", old_string="coding", new_string="Coding")
    assert path.read_bytes() == data.replace(b"coding", b"Coding")


def test_a_character_between_two_blocks_of_what_is_not_shown_does_not_matter(tools):
    (tools.cwd / "a.txt").write_bytes(b"caf\xc3\xa9\n" + b"x" * ((1 << 20) - 7) + "é\n".encode())
    assert tools.text("Read", file_path="a.txt", limit=1).lstrip().startswith("1\tcafé\n[PARTIAL: lines")
    assert "Latin-1" not in tools.text("Read", file_path="a.txt")


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(st.sampled_from("ab\n\r\té漢\U0001f600\u2028"), max_size=60),
    skip=st.integers(0, 5),
    limit=st.none() | st.integers(1, 5),
    line_chars=st.sampled_from([2, 1000]),
    block=st.integers(1, 9),
    encoding=st.sampled_from([UTF_8, UTF_16_LE]),
)
def test_however_the_bytes_come_the_lines_are_the_same(text, skip, limit, line_chars, block, encoding):
    lines = Lines(skip, PageBounds(100_000, line_chars, limit), encoding, "strict")
    data = text.encode(encoding.name)
    for start in range(0, len(data), block):
        lines.feed(data[start : start + block])
    lines.end()
    whole = text.removesuffix("\n").split("\n") if text else []
    wanted = whole[skip:][:limit]
    shown = [line[:line_chars] if len(line) > line_chars else line.removesuffix("\r") for line in wanted]
    assert lines.kept == shown
    assert set(lines.cut) == {index for index, line in enumerate(wanted) if len(line) > line_chars}
    assert lines.line_feeds + lines.unfinished == len(whole)


def test_a_file_that_turns_out_to_be_no_utf_8_is_shown_as_edit_has_it(tools):
    path = tools.cwd / "a.txt"
    path.write_bytes(b"a" * (1 << 20) + b"\ncaf\xe9\n")
    assert "     2\tcafé" in tools.text("Read", file_path="a.txt", offset=2)
    tools.result("Edit", file_path="a.txt", old_string="café", new_string="thé")
    assert path.read_bytes().endswith(b"\nth\xe9\n")


@pytest.mark.parametrize(
    "data",
    [bytes(range(1, 256)) * 4, b"\0a\0\x01" * 9, struct.pack("<40i", *range(40)), b"\x80\x04\x95\x10\x01\x02\x03\xff"],
)
def test_what_is_no_text_is_not_shown_as_some(tools, data):
    (tools.cwd / "a").write_bytes(data)
    assert "Read shows text" in tools.error("Read", file_path="a").message


def lines(tools: Any, **more: Any) -> list[str]:
    return tools.text("Read", file_path="a.txt", **more).split("\n")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_negative_offset_counts_from_the_end(tools, encoding):
    (tools.cwd / "a.txt").write_bytes("".join(f"line {n}\n" for n in range(1, 11)).encode(encoding))
    assert lines(tools, offset=-2) == ["     9\tline 9", "    10\tline 10"]
    assert (lines(tools, offset=-4, limit=1)[0], "offset=8" in lines(tools, offset=-4, limit=1)[1]) == (
        "     7\tline 7",
        True,
    )
    assert lines(tools, offset=-99)[0] == "     1\tline 1"
    assert "a.txt, 1" in tools.title("Read", file_path="a.txt", offset=-4, limit=1)
    assert "last 4" in tools.title("Read", file_path="a.txt", offset=-4, limit=1)


def test_a_negative_offset_in_an_empty_file(tools):
    (tools.cwd / "a.txt").write_bytes(b"")
    assert tools.text("Read", file_path="a.txt", offset=-2) == "[a.txt is empty.]"


def test_who_asks_for_more_lines_than_fit_is_told_how_many_do(tools):
    (tools.cwd / "a.txt").write_text(f"{'x' * 93}\n" * 3000)
    error = tools.error("Read", file_path="a.txt", offset=11, limit=1500)
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert "25,000 tokens" in error.message
    assert "960 lines" in error.message
    assert "allow_large" in error.message
    assert len(lines(tools, offset=11, limit=960)) == 961
    assert len(lines(tools, offset=11, limit=1500, allow_large=True)) == 1501
    assert len(lines(tools, allow_large=True)) == 3000


def test_the_environment_sets_how_much_a_result_holds(tools, monkeypatch):
    (tools.cwd / "a.txt").write_text(f"{'x' * 93}\n" * 300)
    monkeypatch.setenv("CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "250")
    assert "[PARTIAL: lines 1-9" in lines(tools)[-1]
    assert "offset=10.]" in lines(tools)[-1]
    monkeypatch.setenv("CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "many")
    assert len(lines(tools)) == 300


def test_what_is_not_ascii_counts_for_what_it_costs(tools):
    (tools.cwd / "a.txt").write_text(f"{'漢' * 100}\n" * 1000, encoding="utf-8")
    assert len(lines(tools)) == 96_000 // 307 + 1


def test_long_lines_are_cut_and_named_and_then_not_known(tools):
    (tools.cwd / "a.txt").write_text(f"a\n{'y' * 20_000}\nc\n")
    shown = lines(tools)
    assert [len(line) for line in shown[:3]] == [8, 10_007, 8]
    assert "line 2 is longer" in shown[3]
    assert "Only a part" in tools.error("Write", file_path="a.txt", content="").message
    tools.result("Edit", file_path="a.txt", old_string="c", new_string="d")
    assert len(lines(tools, allow_large=True)[1]) == 20_007


def test_offset_and_limit_and_how_to_go_on(tools):
    (tools.cwd / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    text = tools.text("Read", file_path="a.txt", offset=3, limit=2)
    assert "\tline 3\n     4\tline 4\n[PARTIAL:" in text
    assert "offset=5.]" in text
    assert "PARTIAL" not in tools.text("Read", file_path="a.txt", offset=9)
    assert "PARTIAL" not in tools.text("Read", file_path="a.txt", offset=9, limit=2)


def test_what_is_too_long_ends_with_how_to_go_on_and_the_pages_join(tools):
    lines = [f"{n} {'x' * 90}" for n in range(1, 3001)]
    (tools.cwd / "a.txt").write_text("\n".join(lines) + "\n")
    seen: list[str] = []
    while len(seen) < 3000:
        *page, last = tools.text("Read", file_path="a.txt", offset=len(seen) + 1).split("\n")
        assert len("\n".join(page)) <= 100_000
        if not last.startswith("[PARTIAL"):
            page.append(last)
        seen += [line[7:] for line in page]
        assert last.endswith(f"offset={len(seen) + 1}.]") or len(seen) == 3000
    assert seen == lines


def test_a_line_longer_than_a_page_is_cut_and_said(tools):
    (tools.cwd / "a.txt").write_text("y" * 200_000 + "\nb\n")
    text = tools.text("Read", file_path="a.txt")
    assert len(text) < 100_000
    assert "line 1 is longer" in text


def test_empty_file_and_offset_past_the_end(tools):
    (tools.cwd / "empty").write_bytes(b"")
    (tools.cwd / "short").write_text("a\nb\n")
    assert tools.text("Read", file_path="empty") == "[empty is empty.]"
    assert "past the end" in tools.text("Read", file_path="short", offset=9)
    assert "short" in tools.text("Read", file_path="short", offset=9)


@pytest.mark.parametrize("target", ["gone", "link"])
def test_a_link_that_leads_nowhere_is_not_proposed_for_itself(tools, target):
    (tools.cwd / "link").symlink_to(target)
    error = tools.error("Edit", file_path="link", old_string="a", new_string="b")
    assert error.code == ErrorCode.FILE_NOT_FOUND
    assert "symbolic link" in error.message


def test_a_missing_file_is_answered_with_the_nearest_names(tools):
    (tools.cwd / "settings.py").write_text("")
    (tools.cwd / "README.md").write_text("")
    error = tools.error("Read", file_path="setings.py")
    assert error.code == ErrorCode.FILE_NOT_FOUND
    assert "settings.py" in error.message
    assert "README.md" in tools.error("Read", file_path="readme.txt").message
    assert str(tools.cwd) in tools.error("Read", file_path="no/such/x.py").message


@pytest.mark.parametrize("path", ["~/x", "~", "a\0b"])
def test_paths_that_are_not_understood_are_refused(tools, path):
    assert tools.error("Read", file_path=path).code == ErrorCode.FILE_PATH_INVALID


def test_directories_pipes_and_devices_are_refused(tools):
    (tools.cwd / "folder").mkdir()
    os.mkfifo(tools.cwd / "pipe")
    error = tools.error("Read", file_path="folder")
    assert error.code == ErrorCode.FILE_PATH_INVALID
    assert "LS" in error.message
    assert tools.error("Read", file_path="pipe").code == ErrorCode.FILE_PATH_INVALID
    assert tools.error("Read", file_path="/dev/zero").code == ErrorCode.FILE_PATH_INVALID
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tools.cwd / "socket"))
    listening.close()
    assert "not a regular file" in tools.error("Read", file_path="socket").message
    (tools.cwd / "loop").symlink_to("loop")
    assert tools.error("Read", file_path="loop").code == ErrorCode.FILE_PATH_INVALID


def test_a_link_is_read_where_it_leads(tools):
    (tools.cwd / "folder").mkdir()
    (tools.cwd / "folder" / "a.ipynb").write_text(notebook([code_cell("x", [])]))
    (tools.cwd / "link").symlink_to("folder/a.ipynb")
    assert tools.result("Read", file_path="link").content[0]["text"].startswith("<cell ")


@pytest.mark.parametrize(
    ("data", "hint"),
    [(b"ab\0cd", "xxd"), (b"PAR1\0\0", "read_parquet"), (b"PK\x03\x04\0", "unzip")],
)
def test_binary_files_are_refused_with_what_to_use(tools, data, hint):
    (tools.cwd / "a.bin").write_bytes(data)
    error = tools.error("Read", file_path="a.bin")
    assert error.code == ErrorCode.FILE_ACCESS_ERROR
    assert hint in error.message


def test_files_that_the_system_makes_up_do_not_hang(tools):
    assert tools.text("Read", file_path="/proc/self/stat").startswith("     1\t")
    for path in ("/proc/self/mem", "/proc/self/pagemap", "/proc/self/environ", "/dev/tty", "/dev/stdin"):
        if Path(path).exists():
            with pytest.raises((ToolError, AssertionError)):
                tools.result("Read", file_path=path)


def test_broken_utf_16_is_no_text_for_edit(tools):
    (tools.cwd / "a.txt").write_bytes(b"\xff\xfea\x00\x00\xd8")
    tools.result("Read", file_path="a.txt")
    assert "binary" in tools.error("Edit", file_path="a.txt", old_string="a", new_string="b").message


def test_a_huge_file_is_read_in_bounded_memory(tools):
    path = tools.cwd / "huge.log"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.seek(300 * 2**20)
        file.write(b"\nlast\n")
    # one line of 300 MB of zero bytes would be binary; make it text where it is looked at
    with path.open("r+b") as file:
        file.seek(6)
        file.write(b"x" * 2**21)
    tracemalloc.start()
    text = tools.text("Read", file_path="huge.log", limit=1)
    peak = tracemalloc.get_traced_memory()[1]
    last = tools.text("Read", file_path="huge.log", offset=3)
    peak_of_last = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "first\n[PARTIAL: lines 1-1." in text
    assert "offset=2.]" in text
    assert last == "     3\tlast"
    assert max(peak, peak_of_last) < 20 * 2**20


def test_a_cancelled_read_of_a_huge_file_ends_its_thread(tools):

    path = tools.cwd / "huge.log"
    with path.open("wb") as file:
        file.write(b"x" * 2**20)
        file.truncate(50 * 2**30)

    async def scene() -> None:
        task = asyncio.create_task(tools.run("Read", {"file_path": "huge.log", "offset": 10}))
        while not any("asyncio" in thread.name for thread in threading.enumerate()):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # asyncio.run waits for its threads: it would take a minute to read 50 GB
    asyncio.run(asyncio.wait_for(scene(), 60))


def notebook(cells: list[dict[str, object]], minor: int = 5) -> str:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": minor}, indent=1)


def code_cell(source: str, outputs: list[dict[str, object]], **more: object) -> dict[str, object]:
    cell = {"cell_type": "code", "metadata": {}, "source": source.splitlines(keepends=True), "outputs": outputs}
    return {**cell, "execution_count": 7, **more}


def test_a_notebook_is_shown_as_cells_with_ids_and_outputs(tools):
    picture = base64.b64encode(png(3, 2)).decode()
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["hello\n", "world\n"]},
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": picture, "text/plain": ["<Figure>"]}},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mE\x1b[0m: v"]},
        {"output_type": "execute_result", "data": {"text/html": "<b>1</b>", "text/plain": "1"}, "metadata": {}},
    ]
    markdown = {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": "# Title"}
    (tools.cwd / "n.ipynb").write_text(notebook([markdown, code_cell("x = 1\nx", outputs)]))
    before, image, after = tools.result("Read", file_path="n.ipynb").content
    assert before["text"] == (
        '<cell id="intro" number="1" type="markdown">\n# Title\n</cell>\n'
        '<cell id="cell-1" number="2" type="code" execution_count="7">\nx = 1\nx\n</cell>\n'
        '<output type="stream" name="stdout">\nhello\nworld\n</output>\n<output type="display_data">\n'
    )
    assert image["source"]["data"] == picture
    assert after["text"] == (
        '<Figure>\n</output>\n<output type="error">\nE: v\n</output>\n'
        '<output type="execute_result">\n1\n[also there: text/html (8 characters)]\n</output>\n'
    )


def test_images_of_a_notebook_that_cannot_be_shown_are_named_instead(tools):
    data = ["not base64!", base64.b64encode(b"no image").decode(), base64.b64encode(png(9, 9)[:40]).decode()]
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {"image/png": picture}} for picture in data]
    (tools.cwd / "n.ipynb").write_text(notebook([code_cell("x", outputs)]))
    (block,) = tools.result("Read", file_path="n.ipynb").content
    assert block["text"].count("[image/png not") == 3


def test_images_of_a_notebook_are_scaled_to_what_the_api_takes(tools):
    output = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"image/png": base64.b64encode(png(2001, 9)).decode()},
    }
    (tools.cwd / "n.ipynb").write_text(notebook([code_cell("x", [output])]))
    image = tools.result("Read", file_path="n.ipynb").content[1]
    assert struct.unpack(">II", base64.b64decode(image["source"]["data"])[16:24])[0] == 1568


def test_a_read_shows_a_bounded_number_of_images(tools):
    picture = {"image/png": base64.b64encode(png(3, 2)).decode()}
    outputs = [{"output_type": "display_data", "metadata": {}, "data": picture} for _ in range(25)]
    (tools.cwd / "n.ipynb").write_text(notebook([code_cell("x", outputs)]))
    content = tools.result("Read", file_path="n.ipynb").content
    assert [block["type"] for block in content].count("image") == 20
    assert content[-1]["text"].count("only 20 images") == 5


def test_long_outputs_of_a_notebook_are_cut_in_the_middle(tools):
    output = {"output_type": "stream", "name": "stdout", "text": "a" * 5000 + "b" * 5000}
    (tools.cwd / "n.ipynb").write_text(notebook([code_cell("x", [output])]))
    text = tools.result("Read", file_path="n.ipynb").content[0]["text"]
    assert "[… 7,000 characters left out …]" in text
    assert "a" * 2000 + "\n[" in text
    assert "]\n" + "b" * 1000 in text


def test_a_large_notebook_is_read_by_cells(tools):
    cells = [code_cell("y" * 30_000, []) for _ in range(8)]
    (tools.cwd / "n.ipynb").write_text(notebook(cells))
    text = tools.result("Read", file_path="n.ipynb").content[0]["text"]
    assert "[PARTIAL: cells 1-3" in text
    assert "offset=4" in text
    rest = tools.result("Read", file_path="n.ipynb", offset=7).content[0]["text"]
    assert rest.startswith('<cell id="cell-6"')
    assert "PARTIAL" not in rest
    assert "PARTIAL: cells 2-2 of 8" in tools.result("Read", file_path="n.ipynb", offset=2, limit=1).content[0]["text"]
    assert "past the end" in tools.text("Read", file_path="n.ipynb", offset=9)
    assert "8 cells" in tools.text("Read", file_path="n.ipynb", offset=9)


def test_a_broken_notebook_is_shown_and_mended_as_text(tools):
    path = tools.cwd / "n.ipynb"
    path.write_text('<<<<<<< HEAD\n{"cells": []}\n')
    text = tools.text("Read", file_path="n.ipynb")
    assert text.startswith("[Shown as text,")
    tools.result("Edit", file_path="n.ipynb", old_string="<<<<<<< HEAD\n", new_string="")
    assert path.read_text() == '{"cells": []}\n'


def test_titles(tools):
    inside = str(tools.cwd / "src" / "a.py")
    assert tools.title("Read", file_path=inside) == "Read src/a.py"
    assert tools.title("Read", file_path="src/a.py", offset=1, limit=50) == "Read src/a.py:1-50"
    assert tools.title("Read", file_path="src/a.py", offset=5) == "Read src/a.py:5-"
    assert tools.title("Read", file_path="/etc/hosts", limit=3) == "Read /etc/hosts:1-3"
    assert tools.title("Read", file_path="../x") == f"Read {Path(tools.cwd).parent.as_posix()}/x"
