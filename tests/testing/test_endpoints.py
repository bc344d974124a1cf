"""The SDK's clients for other platforms reach the same scripted model."""

from __future__ import annotations

import binascii
import json

import pytest

from cellwright.testing import fault, say, turn, use
from cellwright.testing.message_stream import StreamEvent, aws_frame, encode_message

SCRIPT = [turn(say("Reading."), use("Read", path="x")), turn(say("Reading."), use("Read", path="x"))]


def answers(sdk, api):
    """One streamed and one whole answer."""

    import anthropic

    body = api.body(
        model="claude-opus-4-5@20251101" if isinstance(sdk, anthropic.AnthropicVertex) else "claude-opus-5-5"
    )
    with sdk.messages.stream(**body) as stream:
        streamed = stream.get_final_message()
    return streamed, sdk.messages.create(**body)


def check(messages):
    for message in messages:
        assert [block.type for block in message.content] == ["text", "tool_use"]
        assert message.content[1].input == {"path": "x"}
        assert message.stop_reason == "tool_use"


def test_foundry(client):
    import anthropic

    api = client(SCRIPT)
    with anthropic.AnthropicFoundry(base_url=f"{api.server.url}/anthropic/", api_key=api.server.api_key) as sdk:
        check(answers(sdk, api))
    assert api.server.requests[0].path == "/anthropic/v1/messages"


@pytest.mark.parametrize("prefix", ["/anthropic", "/v1/projects/p/locations/global"])
def test_gateways_put_the_api_under_a_prefix(client, prefix):
    api = client([say("x")])
    assert api.post(path=f"{prefix}/v1/messages").status_code == 200
    assert api.get(f"{prefix}/v1/models/claude-opus-5-5").json()["id"] == "claude-opus-5-5"


def test_vertex(client):
    import anthropic

    api = client(SCRIPT)
    with anthropic.AnthropicVertex(
        base_url=f"{api.server.url}/v1", region="global", project_id="p", access_token=api.server.api_key
    ) as sdk:
        check(answers(sdk, api))
        counted = sdk.messages.count_tokens(model="claude-opus-5-5", messages=api.body()["messages"])
    assert counted.input_tokens > 0
    streamed, whole = api.server.requests
    assert streamed.path.endswith("/models/claude-opus-4-5@20251101:streamRawPredict")
    assert whole.path.endswith(":rawPredict")
    assert "model" not in whole.body


def test_the_version_stands_in_the_body_on_vertex(client):
    api = client(SCRIPT)
    path = "/v1/projects/p/locations/global/publishers/anthropic/models/claude-opus-5-5:rawPredict"
    body = api.body(model=None)
    assert api.post(body, path=path).json()["error"]["message"] == "anthropic_version: Field required"
    beta = {"anthropic_beta": ["context-management-2025-06-27"], "context_management": {"edits": []}}
    assert api.post({**body, **beta, "anthropic_version": "2026-10-21"}, path=path).status_code == 200


@pytest.mark.parametrize("signed", [True, False])
def test_bedrock_whole_answers(client, signed):
    """With SigV4 (not verified) or a bearer token; the model is in the path."""
    api = client([say("x")])
    del api.headers["x-api-key"]
    api.headers["authorization"] = (
        "AWS4-HMAC-SHA256 Credential=AKIA/20261021/x" if signed else f"Bearer {api.server.api_key}"
    )
    body = {**api.body(model=None), "anthropic_version": "2026-10-21"}
    response = api.post(body, path="/model/global.anthropic.claude-opus-5-5/invoke")
    assert response.json()["content"][0]["text"] == "x"
    assert response.json()["model"] == "global.anthropic.claude-opus-5-5"


def test_bedrock_streams_amazon_events(client):
    import anthropic

    api = client([*SCRIPT, turn(say("x"), fault("error_event", error_type="overloaded_error"))])
    with anthropic.AnthropicBedrock(base_url=api.server.url, aws_region="us-east-1", api_key=api.server.api_key) as sdk:
        check(answers(sdk, api))
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"), sdk.messages.stream(**api.body()) as stream:
            stream.get_final_message()
    assert api.server.requests[0].path == "/model/claude-opus-5-5/invoke-with-response-stream"


def test_bedrock_frames(client):
    api = client([say("x")])
    body = {**api.body(model=None), "anthropic_version": "2026-10-21"}
    response = api.post(body, path="/model/anthropic.claude-opus-5-5/invoke-with-response-stream")
    assert response.headers["content-type"] == "application/vnd.amazon.eventstream"
    frames = list(read_frames(response.content))
    assert {headers[":event-type"] for headers, _ in frames} == {"chunk"}
    events = [json.loads(binascii.a2b_base64(json.loads(payload)["bytes"])) for _, payload in frames]
    assert [event["type"] for event in events][::6] == ["message_start", "message_stop"]


def read_frames(data):
    """Take `vnd.amazon.eventstream` apart; the checksums are verified."""
    while data:
        length, headers_length = (int.from_bytes(data[at : at + 4], "big") for at in (0, 4))
        assert int.from_bytes(data[8:12], "big") == binascii.crc32(data[:8])
        assert int.from_bytes(data[length - 4 : length], "big") == binascii.crc32(data[: length - 4])
        yield read_headers(data[12 : 12 + headers_length]), data[12 + headers_length : length - 4]
        data = data[length:]


def read_headers(data):
    headers = {}
    while data:
        name_end = 1 + data[0]
        value_start = name_end + 3
        value_end = value_start + int.from_bytes(data[name_end + 1 : value_start], "big")
        headers[data[1:name_end].decode()] = data[value_start:value_end].decode()
        data = data[value_end:]
    return headers


@pytest.mark.parametrize(
    ("payload", "encoded"),
    [
        # the test vectors of the format's reference implementations
        (b"", b"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2H\xeb}\x98\xc8\xff"),
        (b"{'foo':'bar'}", b"\x00\x00\x00\x1d\x00\x00\x00\x00\xfdR\x8cZ{'foo':'bar'}\xc3e96"),
    ],
)
def test_amazon_framing_of_known_messages(payload, encoded):
    assert encode_message({}, payload) == encoded


def test_an_error_event_is_an_exception_on_bedrock():
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}}
    ((headers, payload),) = read_frames(aws_frame(StreamEvent("error", json.dumps(error).encode())))
    assert (headers[":message-type"], headers[":exception-type"]) == ("exception", "throttlingException")
    assert json.loads(payload) == {"message": "Slow down"}
