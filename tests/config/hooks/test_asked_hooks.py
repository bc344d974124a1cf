"""HTTP hooks against a real server on loopback."""

import asyncio
import json
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hook_scenes import call_fields, fire, group, hooks_of, told

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT
from cellwright.agent.loop import run_agent
from cellwright.agent.spending import RunLimits
from cellwright.agent.tool import tool
from cellwright.config.hooks.asked_hooks import MAX_BYTES, HookAddressRefused, check_url, read_verdict
from cellwright.config.hooks.entries import ModelHook
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import Notice, RunEnd, ToolEnd, TurnEnd
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import Gate, fault, hold, say, turn, use
from row_tables import for_each_row


class Server:
    """Answers every POST with `status`, `headers` and `body`; remembers what came."""

    def __init__(self):
        self.status, self.headers, self.body = 200, {}, b""
        self.requests = []
        server = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers.get("content-length", 0))
                server.requests.append((self.path, dict(self.headers), self.rfile.read(length)))
                self.send_response(server.status)
                for name, value in server.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(server.body)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.http.server_port}/hook"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


def post(server, tmp_path, event="PreToolUse", hook=None, **options):
    entry = {"type": "http", "url": server.url, **(hook or {})}
    hooks = hooks_of(tmp_path, {event: [group(entry)]}, **options)
    return fire(hooks, tmp_path, event, **call_fields(command="ls"))


def test_the_event_is_posted_and_the_answer_obeyed(server, tmp_path):
    server.body = json.dumps({"decision": "block", "reason": "not now"}).encode()
    said = post(server, tmp_path)
    assert (said.behavior, said.reason) == ("deny", "not now")
    (path, headers, body) = server.requests[0]
    assert path == "/hook"
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == told(tmp_path, "PreToolUse", **call_fields(command="ls"))


@pytest.mark.parametrize("status", [200, 201, 204])
def test_an_empty_answer_says_nothing(server, tmp_path, status):
    server.status = status
    server.headers = {"content-length": "0"}
    assert post(server, tmp_path) == NO_HOOK_RESULT


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (500, b'{"decision": "approve"}', "status 500"),
        (404, b"", "status 404"),
        (200, b"hello", "something else than a JSON object"),
        (200, b"[]", "something else than a JSON object"),
        (200, b"fine {not json}", "something else than a JSON object"),
        (200, b"x" * (MAX_BYTES + 1), "more than 1,000,000 bytes"),
    ],
    ids=["500", "404", "text", "list", "broken", "huge"],
)
def test_any_other_answer_is_a_failure_that_blocks_nothing(server, tmp_path, status, body, why):
    server.status, server.body = status, body
    said = post(server, tmp_path)
    assert said.behavior == ""
    assert why in said.problems[0]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b'\xef\xbb\xbf{"decision": "block", "reason": "no"}'),
        (200, '{"decision": "block", "reason": "no"}'.encode("utf-16")),
        (200, b'<pre>{"decision": "block", "reason": "no"}</pre>'),
        (200, b"{"),
        (200, b"{'decision': 'block', 'reason': 'no'}"),
        (403, b'{"decision": "block", "reason": "no"}'),
    ],
    ids=["mark", "utf-16", "page", "broken", "repr", "403"],
)
def test_a_no_is_heard_in_whatever_form_it_comes(server, tmp_path, status, body):
    server.status, server.body = status, body
    said = post(server, tmp_path)
    assert said.behavior == "deny"
    assert said.reason == "no" or "cannot be read" in said.reason


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server, tmp_path, status):
    elsewhere = Server()
    try:
        server.status, server.headers = status, {"location": elsewhere.url, "content-length": "0"}
        assert f"status {status}" in post(server, tmp_path).problems[0]
        assert elsewhere.requests == []
    finally:
        elsewhere.close()


def test_a_server_that_is_not_there_is_a_failure(tmp_path):
    gone = Server()
    gone.close()
    assert "not be reached" in post(gone, tmp_path).problems[0]


def test_a_server_that_does_not_answer_is_left(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook = {"type": "http", "url": f"http://127.0.0.1:{silent.getsockname()[1]}/", "timeout": 0.2}
        said = fire(hooks_of(tmp_path, {"Stop": [group(hook)]}), tmp_path, "Stop")
    assert "within 0.2 s" in said.problems[0]


VARIABLES = {**os.environ, "HOOK_KEY": "k-1", "OTHER_KEY": "k-2"}
HEADERS = {"Authorization": "Bearer $HOOK_KEY", "X-Other": "${OTHER_KEY}!"}


@pytest.mark.parametrize(
    ("own", "settings", "expected"),
    [
        (["HOOK_KEY"], None, ("Bearer k-1", "!")),
        (["HOOK_KEY", "OTHER_KEY"], None, ("Bearer k-1", "k-2!")),
        (["HOOK_KEY", "OTHER_KEY"], ("OTHER_KEY",), ("Bearer", "k-2!")),
        (["HOOK_KEY"], (), ("Bearer", "!")),
        ([], None, ("Bearer", "!")),
    ],
    ids=str,
)
def test_headers_hold_only_the_variables_that_are_allowed(server, tmp_path, own, settings, expected):
    hook = {"headers": HEADERS, "allowedEnvVars": own}
    post(server, tmp_path, hook=hook, environ=VARIABLES, allowed_env_vars=settings)
    headers = server.requests[0][1]
    assert (headers["authorization"].strip(), headers["x-other"]) == expected


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"a": "x\r\ny: z"}, {"a": "ä"}], ids=str)
def test_a_header_that_cannot_be_sent_sends_nothing(server, tmp_path, headers):
    said = post(server, tmp_path, hook={"headers": headers})
    assert "cannot be sent" in said.problems[0]
    assert server.requests == []


ADDRESSES = [
    ("https://hooks.example.com/a", ["https://hooks.example.com/*"], True),
    ("https://hooks.example.com/a?b=c", ["https://hooks.example.com/*"], True),
    ("https://hooks.example.com/", ["https://hooks.example.com"], True),
    ("https://a.example.com/x", ["https://*.example.com/*"], True),
    ("http://hooks.example.com/a", ["https://hooks.example.com/*"], False),
    ("https://example.com.evil.org/a", ["https://example.com*"], False),
    ("https://evil.org/hooks.example.com/", ["https://*.example.com/*"], False),
    ("https://evil.org/.example.com/a", ["https://*.example.com/*"], False),
    ("https://hooks.example.com/ok/../no", ["https://hooks.example.com/ok/*"], False),
    ("https://hooks.example.com/ok/%2e%2e/no", ["https://hooks.example.com/ok/*"], False),
    ("https://HOOKS.example.com/a", ["https://hooks.example.com/*"], True),
    ("https://hooks.example.com:8443/a", ["https://hooks.example.com/*"], False),
    ("https://hooks.example.com/a", [], False),
    ("https://hooks.example.com/a", ["["], False),
    ("http://localhost:8080/x", None, True),
    ("http://[::1]:8080/x", ["http://[::1]:8080/*"], True),
    ("https://user:pw@hooks.example.com/", None, False),
    ("file:///etc/passwd", None, False),
    ("ftp://x/", None, False),
    ("http://", None, False),
    ("http://x:99999/", None, False),
    ("nonsense", None, False),
]


@for_each_row(("url", "allowed", "expected"), ADDRESSES, ids=str)
def test_where_a_hook_may_send(url, allowed, expected):
    if expected:
        check_url(url, allowed)
    else:
        with pytest.raises(HookAddressRefused):
            check_url(url, allowed)


def test_an_address_that_is_not_allowed_gets_nothing(server, tmp_path):
    said = post(server, tmp_path, allowed_urls=("https://hooks.example.com/*",))
    assert "allowedHttpHookUrls" in said.problems[0]
    assert server.requests == []


@tool(read_only=True)
async def look(name: str) -> str:
    """Look at something."""
    return f"{name} looks fine"


@tool
async def change(name: str) -> str:
    """Change something."""
    return f"changed {name}"


class Played:
    def __init__(self, server, session, events):
        self.server, self.session, self.events = server, session, events

    @property
    def end(self) -> RunEnd:
        return self.events[-1]

    @property
    def bodies(self):
        return [request.body for request in self.server.requests if request.path == "/v1/messages"]

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def play(messages_server, tmp_path):
    def run(script, event, *hooks, **options) -> Played:
        server = messages_server(script)
        agent = AgentSetup(
            provider=connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}),
            model="claude-opus-5-5",
            system=system_blocks(),
            tools=(look, change),
            policy=PermissionPolicy(mode="bypassPermissions", roots=(tmp_path,), cwd=tmp_path),
            hooks=hooks_of(tmp_path, {event: [group(*hooks)]}, environ=options.pop("environ", os.environ)),
            **options,
        )
        session = Session.create(tmp_path, tmp_path / "sessions")
        events = []
        asyncio.run(run_agent(agent, "go", session, events.append))
        return Played(server, session, events)

    return run


CALL = use("change", name="x")


def prompt(text="Is it sensible?", **fields):
    return {"type": "prompt", "prompt": text, **fields}


def verdict(ok, **fields):
    return say(json.dumps({"ok": ok, **fields}))


def test_a_small_model_decides_about_a_call_and_is_paid_for(play):
    played = play([CALL, verdict(False, reason="x is in use"), say("ok")], "PreToolUse", prompt())
    assert ": x is in" in played.of(ToolEnd)[0].content
    question = played.bodies[1]
    assert question["model"] == "claude-haiku-5-5"
    text = question["messages"][0]["content"][0]["text"]
    assert text.startswith("Is it sensible?")
    assert '"tool_input": {"name": "x"}' in text
    turns = played.of(TurnEnd)
    assert len(turns) == 2
    assert played.end.cost_usd > sum(each.cost_usd for each in turns)
    assert played.session.cost_usd == pytest.approx(played.end.cost_usd)
    assert {*played.end.hook_models} == {"claude-haiku-5-5"}
    of_hooks = played.end.hook_models["claude-haiku-5-5"]
    assert sum(each.cost_usd for each in turns) + of_hooks.cost_usd == pytest.approx(played.end.cost_usd)
    assert of_hooks.usage["output_tokens"] > 0


def test_a_yes_says_nothing(play):
    played = play([CALL, verdict(True), say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "success"


def test_the_input_goes_where_the_prompt_wants_it_and_to_the_model_it_names(play):
    hook = prompt("Look at $ARGUMENTS and say.", model="claude-sonnet-5-5")
    played = play([CALL, verdict(True), say("ok")], "PreToolUse", hook)
    assert played.bodies[1]["model"] == "claude-sonnet-5-5"
    text = played.bodies[1]["messages"][0]["content"][0]["text"]
    assert text.startswith('Look at {"session_id"')


def test_the_environment_may_name_the_small_model(play):
    environ = {**os.environ, "ANTHROPIC_SMALL_FAST_MODEL": "claude-sonnet-5-5"}
    played = play([CALL, verdict(True), say("ok")], "PreToolUse", prompt(), environ=environ)
    assert played.bodies[1]["model"] == "claude-sonnet-5-5"


@pytest.mark.parametrize("answer", [say("I think it is fine."), say("{}"), say('{"ok": "yes"}'), say("{broken")])
def test_an_answer_that_is_no_verdict_is_a_no(play, answer):
    played = play([CALL, answer, say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "denied"
    assert "no verdict" in played.of(Notice)[0].message


def test_of_two_verdicts_the_no_counts(play):
    played = play([CALL, say('{"ok": true} or {"ok": false, "reason": "x"}'), say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "denied"


def test_a_verdict_may_stand_in_a_fence(play):
    answer = say('Here it is:\n```json\n{"ok": false, "reason": "no"}\n```')
    played = play([CALL, answer, say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "denied"


def test_an_api_that_fails_decides_nothing(play):
    played = play([CALL, fault("status", status=400), say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "success"
    assert "got no answer" in played.of(Notice)[0].message


def test_a_stop_condition_that_is_not_met_goes_on(play):
    script = [say("Done."), verdict(False, reason="no tests"), say("Tested."), verdict(True)]
    played = play(script, "Stop", prompt("Are there tests?"))
    assert played.end.text == "Tested."
    assert played.session.messages[2]["content"][0]["text"].split("\n") == ["Stop hook feedback:", "no tests"]


def test_an_agent_hook_looks_before_it_answers(play):
    script = [
        CALL,
        turn(use("look", name="x"), when="Check x"),
        turn(verdict(False, reason="x is broken"), when="looks fine"),
        say("ok"),
    ]
    played = play(script, "PreToolUse", {"type": "agent", "prompt": "Check x"})
    assert ": x is broken" in played.of(ToolEnd)[0].content
    assert [each["name"] for each in played.bodies[1]["tools"]] == ["look"]
    assert played.bodies[1]["model"] == "claude-haiku-5-5"
    assert len(played.of(TurnEnd)) == 2
    assert played.end.cost_usd > sum(each.cost_usd for each in played.of(TurnEnd))


def test_an_agent_hook_has_only_what_is_left_of_the_budget(play):
    hook = {"type": "agent", "prompt": "Check x"}
    script = [CALL, verdict(True), say("ok")]
    free = play(script, "PreToolUse", hook)
    left = 0.01
    bound = play(script, "PreToolUse", hook, limits=RunLimits(budget_usd=free.of(TurnEnd)[0].cost_usd + left))
    asked = bound.bodies[1]
    assert asked["model"] == "claude-haiku-5-5"
    assert asked["max_tokens"] < free.bodies[1]["max_tokens"]
    assert asked["max_tokens"] * 0.5 / 1_000_000 <= left


def test_a_question_that_the_budget_may_not_pay_for_is_not_asked(play):
    script = [CALL, turn(verdict(False), when="sensible"), turn(say("ok"), when="changed x")]
    hook = prompt(model="claude-sonnet-5-5")
    cost = play(script, "PreToolUse", hook).of(TurnEnd)[0].cost_usd
    played = play(script, "PreToolUse", hook, limits=RunLimits(budget_usd=cost + 0.02))
    assert {body["model"] for body in played.bodies} == {"claude-opus-5-5"}
    assert "could cost more" in played.of(Notice)[0].message
    assert played.of(ToolEnd)[0].status == "success"


def test_a_model_that_does_not_answer_is_left(play):

    gate = Gate()
    played = play([CALL, turn(hold(gate), say("x")), say("ok")], "PreToolUse", prompt(timeout=0.3))
    gate.open()
    assert played.of(ToolEnd)[0].status == "success"
    assert "within 0.3 s" in played.of(Notice)[0].message


VERDICTS = [
    ("PreToolUse", False, {}, "deny"),
    ("PermissionRequest", False, {}, "deny"),
    ("UserPromptSubmit", False, {}, "block"),
    ("Stop", False, {}, "block"),
    ("Stop", False, {"impossible": True}, "told"),
    ("PostToolUse", False, {}, "stop"),
    ("PostToolBatch", False, {}, "stop"),
    ("PostToolUse", True, {}, "block"),
]


@for_each_row(("event", "feeds_back", "more", "expected"), VERDICTS, ids=str)
def test_what_a_no_means(event, feeds_back, more, expected):
    hook = ModelHook(identity="", source="", prompt="x", feeds_back=feeds_back)
    said = read_verdict(hook, event, json.dumps({"ok": False, "reason": "because", **more}))
    got = said.behavior or (
        "stop" if said.stop is not None else "block" if said.block else "told" if said.messages else "nothing"
    )
    assert got == expected
