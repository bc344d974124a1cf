"""Files in the encodings that people have: read, searched, edited and written, and never left in two encodings."""

from __future__ import annotations

import pytest

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.encoding_guess import guess_encoding
from cellwright.tools.files.encodings import CP_1252, UTF_8, decode, detect_encoding
from row_tables import for_each_row

TEXTS = {
    "Japanese": ("売上一覧。東京の店舗では前年より増えた。", ("shift_jis", "cp932", "euc_jp"), "合計金額"),
    "Chinese": ("销售一览。北京的门店比去年有所增加。", ("gb18030", "gbk", "gb2312"), "总金额"),
    "Taiwan": ("銷售一覽。台北的門市比去年有所增加。", ("big5", "cp950"), "總金額"),
    "Korean": ("판매 목록. 서울 매장은 작년보다 늘었다.", ("euc_kr", "cp949"), "합계"),
    "Russian": ("Список продаж. В московском магазине больше.", ("koi8_r", "cp1251", "iso8859_5", "cp866"), "итого"),
    "Ukrainian": ("Перелік продажів. У київській крамниці їх більше.", ("koi8_u", "cp1251"), "разом"),
    "Greek": ("Κατάλογος πωλήσεων στην Αθήνα.", ("cp1253", "iso8859_7"), "σύνολο"),
    "Hebrew": ("רשימת מכירות בתל אביב", ("cp1255", "iso8859_8"), "סכום"),
    "Arabic": ("قائمة المبيعات في القاهرة أكثر من العام الماضي", ("cp1256",), "مجموع"),
    "Thai": ("รายการขายในกรุงเทพ", ("cp874", "tis_620"), "รวม"),
    "Czech": ("Žluťoučký kůň úpěl ďábelské ódy", ("cp1250", "iso8859_2"), "součet"),
    "Polish": ("Zażółć gęślą jaźń, sprzedaż w Łodzi", ("cp1250", "iso8859_2"), "łącznie"),
    "Hungarian": ("Árvíztűrő tükörfúrógép, több az eladás", ("cp1250", "iso8859_2"), "összeg"),
    "Turkish": ("İstanbul'daki satışlar geçen yıla göre arttı, değişti", ("cp1254", "iso8859_9"), "ağırlık"),
    "German": ("Größe, Straße, Überschuß: Äpfel für Köln", ("cp1252", "latin-1"), "Fläche"),
    "French": ("Élève à l’école, où ça coûte 5 € – déjà vu", ("cp1252",), "façade"),
    "Swedish": ("Försäljningen i Malmö ökade något år från år", ("latin-1",), "mängd"),
}
ROWS = [
    (encoding, text, word, many)
    for text, encodings, word in TEXTS.values()
    for encoding in encodings
    for many in (1, 40)
]


@for_each_row(("encoding", "text", "word", "many"), ROWS)
def test_a_file_is_read_searched_and_changed_in_its_own_encoding(tools, encoding, text, word, many):
    """Each row: the words are shown and found, and what is written is the same encoding, or is refused."""
    content = "id,text\n" + f"Z,{text}\n" * many
    path = tools.cwd / "data.csv"
    path.write_bytes(content.encode(encoding))
    shown = tools.text("Read", file_path="data.csv")
    assert text in shown
    assert "taken as" in shown
    some = text.split()[0].strip(".,。")
    assert some in tools.text("Grep", pattern=some, path="data.csv", output_mode="content")
    done = tools.text("Edit", file_path="data.csv", old_string="id,text", new_string="number,text")
    assert "its encoding:" in done
    content = content.replace("id,text", "number,text")
    assert path.read_bytes() == content.encode(encoding)
    wanted = content.replace("number,text", f"number,{word}")
    given = {"file_path": "data.csv", "old_string": "number,text", "new_string": f"number,{word}"}
    refused = _refusal(tools, given)
    if refused:
        # too little text to be sure: then the encoding must be named
        assert many == 1, refused
        assert "`encoding`" in refused
        assert path.read_bytes() == content.encode(encoding)
        tools.result("Edit", **given, encoding=encoding)
    assert path.read_bytes() == wanted.encode(encoding)


def _refusal(tools, given):
    try:
        tools.result("Edit", **given)
    except ToolError as error:
        return error.message
    return ""


@for_each_row(
    ("data", "text", "encoding"),
    [
        (b"plain ascii\n", "plain ascii\n", UTF_8),
        ("größe 売上 Żółć\n".encode(), "größe 売上 Żółć\n", UTF_8),
        (b"\xef\xbb\xbf\xc3\xa9", "é", "utf-8"),
        ("売上\n".encode("utf-16"), "売上\n", "utf-16-le"),
        (b"\xfe\xff" + "ж\n".encode("utf-16-be"), "ж\n", "utf-16-be"),
        (b"it\x92s\n", "it’s\n", "cp1252"),
        (b"x = 1\ny = '\x00'\nz = 1\n", "x = 1\ny = '\x00'\nz = 1\n", UTF_8),
        # bytes that are no text of any of them are kept one by one
        (b"\x81 \x9d\xff\n", "\x81 \x9dÿ\n", "latin-1"),
    ],
)
def test_no_guess_changes_how_unicode_and_ascii_are_read(data, text, encoding):
    found = decode(data)
    assert found[0] == text
    assert encoding in (found[1], found[1].name)


def test_a_head_may_end_within_a_character():
    for encoding, text in (("gb18030", "销售一览"), ("cp932", "売上一覧"), ("big5", "銷售一覽"), ("cp949", "판매목록")):
        data = (text * 40).encode(encoding)
        for cut in range(1, 4):
            assert detect_encoding(data[:-cut], final=False).name == encoding


def test_a_part_of_a_line_without_end_tells_the_encoding():
    data = b"x" * 100_000 + b" " + ("Список продаж в московском магазине. " * 3_000).encode("koi8_r")
    guess = guess_encoding(data, final=True)
    assert guess is not None
    assert guess.name == "koi8_r"


@for_each_row(
    ("data", "old", "new", "why"),
    [
        # a character that the guess lacks
        ("Größe für Köln\n".encode("cp1252"), "Köln", "Łódź", "has no character 'Ł'"),
        # nothing says which of two it is, and they differ in what is new
        ("Η Αθήνα\n".encode("cp1253"), "Η", "Ά", "fits about as well"),
        # nothing fits at all
        (b"ok\n\x81\x8d\x9d \xff\xfe \x80\x81\n", "ok", "né", "no encoding fits"),
    ],
)
def test_what_a_guess_cannot_hold_is_refused(tools, data, old, new, why):
    path = tools.cwd / "a.txt"
    path.write_bytes(data)
    tools.result("Read", file_path="a.txt")
    error = tools.error("Edit", file_path="a.txt", old_string=old, new_string=new)
    assert why in error.message
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert path.read_bytes() == data


def test_the_encoding_that_is_named_counts_until_it_is_named_otherwise(tools):
    path = tools.cwd / "a.txt"
    path.write_bytes("Ж\n".encode("cp1251"))
    assert "Read as Windows-1251" in tools.text("Read", file_path="a.txt", encoding="windows-1251")
    assert "Ж" in tools.text("Read", file_path="a.txt")
    tools.result("Edit", file_path="a.txt", old_string="Ж", new_string="Жщ")
    assert path.read_bytes() == "Жщ\n".encode("cp1251")
    done = tools.text("Write", file_path="a.txt", content="Жщ да\n", encoding="utf-8")
    assert "is utf-8 now" in done
    assert path.read_text("utf-8") == "Жщ да\n"
    tools.result("Write", file_path="new.txt", content="中文\n", encoding="gb18030")
    assert (tools.cwd / "new.txt").read_bytes() == "中文\n".encode("gb18030")
    (tools.cwd / "folder").mkdir()
    (tools.cwd / "folder" / "b.txt").write_bytes("销售一览\n".encode("gb18030"))
    assert "give `encoding`" in tools.text("Grep", pattern="销售", path="folder")
    assert "b.txt" in tools.text("Grep", pattern="销售", path="folder", encoding="gbk")


def test_an_encoding_that_does_not_fit_or_is_none_is_refused(tools):
    (tools.cwd / "a.txt").write_bytes("销售一览。\n".encode("gb18030"))
    assert "is not utf-8" in tools.error("Read", file_path="a.txt", encoding="utf-8").message
    tools.result("Read", file_path="a.txt")
    given = {"file_path": "a.txt", "old_string": "x", "new_string": "y"}
    assert "not utf-8: line 1" in tools.error("Edit", **given, encoding="utf-8").message
    for name in ("rot13", "nonsense", "cp037"):
        assert "Unknown encoding" in tools.error("Edit", **given, encoding=name).message


def test_a_patch_keeps_the_encoding_and_says_that_it_was_guessed(tools):
    text = "id,text\n" + "1,Список продаж в магазине\n" * 3
    (tools.cwd / "a.csv").write_bytes(text.encode("koi8_r"))
    patch = "--- a/a.csv\n+++ b/a.csv\n@@ -1,2 +1,2 @@\n-id,text\n+id,слово\n 1,Список продаж в магазине\n"
    assert "taken as KOI8-R" in tools.text("ApplyPatch", patch=patch)
    assert (tools.cwd / "a.csv").read_bytes() == text.replace("text", "слово", 1).encode("koi8_r")


def test_text_in_ascii_is_written_in_the_encoding_that_it_declares(tools):
    path = tools.cwd / "a.py"
    path.write_text("# -*- coding: latin-1 -*-\ns = 'e'\n")
    tools.result("Read", file_path="a.py")
    tools.result("Edit", file_path="a.py", old_string="'e'", new_string="'é'")
    assert path.read_bytes().endswith(b"s = '\xe9'\n")
    (tools.cwd / "b.py").write_text("text = open('x', encoding='latin-1').read()\n")
    tools.result("Read", file_path="b.py")
    tools.result("Edit", file_path="b.py", old_string="'x'", new_string="'é'")
    assert "'é'" in (tools.cwd / "b.py").read_text("utf-8")


def test_an_encoding_that_cannot_give_the_bytes_back_is_not_written(tools):
    """Shift-JIS of NEC has characters twice: written again they would be other bytes."""
    data = "合計は次のとおりです。".encode("cp932") + b"\x87\x90\x87\x91\nend\n"
    (tools.cwd / "a.txt").write_bytes(data)
    tools.result("Read", file_path="a.txt")
    error = tools.error("Edit", file_path="a.txt", old_string="end", new_string="fin")
    assert "would not write" in error.message
    assert (tools.cwd / "a.txt").read_bytes() == data


@for_each_row(
    ("name", "there", "old", "words"),
    [
        ("a.md", "a\u00a0b c\n", "a b", "no-break space (\\u00a0) where old_string has space"),
        ("b.md", "say “x” twice\n", 'say "x"', "left double quotation mark (\\u201c)"),
        ("c.md", "1\u20132 of them\n", "1-2", "en dash (\\u2013)"),
        ("d.py", "a = '\0'\nb = 1\nc = 2  # and so on\n", "a = '␀'", "a null byte (\\u0000)"),
    ],
)
def test_characters_that_look_alike_are_named_with_a_way_to_write_them(tools, name, there, old, words):
    (tools.cwd / name).write_text(there)
    tools.result("Read", file_path=name)
    message = tools.error("Edit", file_path=name, old_string=old, new_string="q").message
    assert words in message
    assert "file again" not in message


def test_binary_data_is_not_to_be_read_first(tools):
    (tools.cwd / "a.bin").write_bytes(bytes(range(256)))
    for name, given in (("Edit", {"old_string": "a", "new_string": "b"}), ("Write", {"content": "x"})):
        message = tools.error(name, file_path="a.bin", **given).message
        assert "binary data" in message
        assert "Read it first" not in message


@pytest.mark.parametrize("name", ["Screen Shot at 3.45\u202fPM.txt", "it’s.txt"])
def test_a_name_that_looks_the_same_is_spelt(tools, name):
    (tools.cwd / name).write_text("x\n")
    typed = name.replace("\u202f", " ").replace("’", "'")
    message = tools.error("Read", file_path=typed).message
    assert ascii(name) in message
    assert "x" in tools.text("Read", file_path=name)


def test_one_byte_of_windows_is_still_windows():
    assert detect_encoding(b"\x93quoted\x94 \x80\n", final=True).name == CP_1252.name
