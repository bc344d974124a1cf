"""The transcript's format: what goes in comes out byte for byte, and whatever is damaged is noticed."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import (
    Fault,
    encode_line,
    interrupted_results,
    parse_lines,
    read_messages,
    read_transcript,
)
from cellwright.sessions.transcripts.transcript_file import Line, encode_json

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(texts | st.sampled_from(["message", "bytes", "crc32"]), json_values, max_size=4)


@pytest.fixture
def transcript(tmp_path):
    """A transcript with text in several scripts, a tool call and its result."""
    session = Session.create(tmp_path, tmp_path / "sessions")
    session.begin(model="m", system=[{"type": "text", "text": "Sei höflich."}], tools=[{"name": "Read"}])
    session.append({"role": "user", "content": "Größe? 你好\n\u2028"})
    use = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a\nb"}}
    session.append({"role": "assistant", "content": [use]}, usage={"input_tokens": 3}, model="m", cost_usd=0.5)
    result = {"type": "tool_result", "tool_use_id": "t1", "content": ',"message":{}}'}
    session.append({"role": "user", "content": [result]})
    session.close()
    return session.path


@given(meta=json_objects, message=json_objects)
def test_any_message_comes_back_as_the_same_bytes(meta, message):
    written = encode_json(message)
    meta = {**meta, "seq": 1, "at": 2.5, "epoch": 1}

    parsed = parse_lines([encode_line(Line(meta, written), 7).removesuffix(b"\n")], check=7, chained=True)

    assert parsed.faults == []
    assert [(line.meta, line.message) for line in parsed.lines] == [(meta, written)]
    assert json.loads(written) == message


@pytest.mark.parametrize(
    "meta", [{}, {"seq": "1", "at": 1.0, "epoch": 1}, {"seq": 1, "epoch": 1}, {"seq": 1, "at": 1.0, "epoch": None}]
)
def test_a_line_that_another_program_wrote_is_a_damaged_one(transcript, meta):
    foreign = encode_line(Line(meta, b'{"role":"user","content":"x"}'))
    transcript.write_bytes(transcript.read_bytes() + foreign)
    read = read_transcript(transcript)
    assert (read.faults, len(read.lines)) == ((Fault(5, "damaged"),), 3)


def test_what_is_known_of_a_message_may_be_no_json_at_all(transcript):
    line = encode_line(Line({"seq": 1, "at": 1.0, "epoch": 1}, b"{}")).replace(b'"seq":1', b'"seq":x')
    first, rest = line[:-1].split(b',"crc32":')
    _, rest = rest.split(b",", 1)
    odd = b'%b,"crc32":%d,%b\n' % (first, zlib.crc32(rest), rest)
    transcript.write_bytes(transcript.read_bytes() + odd)
    read = read_transcript(transcript)
    assert (read.faults, len(read.lines)) == ((Fault(5, "damaged"),), 3)


def test_a_header_that_another_program_wrote_cannot_be_read(transcript):
    rest = b'"id":"x"}'
    transcript.write_bytes(b'{"cellwright_transcript":1,"crc32":%d,%b\n' % (zlib.crc32(rest), rest))
    with pytest.raises(CellwrightError) as caught:
        read_transcript(transcript)
    assert caught.value.code == ErrorCode.SESSION_CORRUPTED


def test_a_line_is_one_line_of_readable_json_that_ends_with_the_message():
    message = encode_json({"role": "user", "content": "Größe\n\u2028\x85"})
    line = encode_line(Line({"seq": 1}, message))

    assert line.count(b"\n") == 1
    assert line.endswith(b'"message":' + message + b"}\n")
    assert "Größe".encode() in line
    assert json.loads(line)["message"]["content"] == "Größe\n\u2028\x85"


def test_halves_of_surrogate_pairs_are_replaced_and_whole_pairs_joined():
    assert json.loads(encode_json("a\ud83d b\ud83d\ude00")) == "a\ufffd b😀"


def test_a_number_that_json_cannot_express_is_refused():
    with pytest.raises(CellwrightError) as caught:
        encode_json({"content": [{"input": {"x": float("inf")}}]})
    assert caught.value.code == ErrorCode.API_REQUEST_INVALID


def test_no_altered_byte_goes_unnoticed(transcript, tmp_path):
    data = transcript.read_bytes()
    copy = tmp_path / "copy.jsonl"
    whole = read_messages(transcript)

    for position in range(len(data) - 1):
        altered = bytearray(data)
        altered[position] ^= 0x01
        copy.write_bytes(altered)
        line = data.count(b"\n", 0, position) + 1
        if line == 1:
            with pytest.raises(CellwrightError) as caught:
                read_transcript(copy)
            assert caught.value.code == ErrorCode.SESSION_CORRUPTED
        else:
            assert read_transcript(copy).faults[0].line == line
            assert [message for message in read_messages(copy) if message not in whole] == []


def test_a_line_of_an_earlier_owner_behind_a_newer_ones_is_void(transcript):
    def line(epoch, text):
        meta = {"seq": 9, "at": 0.0, "epoch": epoch}
        return encode_line(Line(meta, encode_json({"role": "user", "content": text})))

    before = read_messages(transcript)
    with transcript.open("ab") as file:
        file.write(line(3, "mine") + line(2, "from a frozen machine") + line(3, "mine too"))

    content = read_transcript(transcript)
    assert [m["content"] for m in read_messages(transcript)[len(before) :]] == ["mine", "mine too"]
    assert content.epoch == 3
    assert content.size == transcript.stat().st_size


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": 'about "tool_use"'},
        {"role": "assistant", "content": [{"type": "text", "text": '"tool_use"'}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": '"tool_use"'}]},
    ],
)
def test_a_message_without_open_calls_needs_no_results(message):
    assert interrupted_results(encode_json(message), because="x") is None
