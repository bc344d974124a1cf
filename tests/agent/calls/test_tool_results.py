"""What is said of calls that were cut off: what they have shown, how long they ran, and which were not begun."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import math
import threading
import uuid
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, ToolUse
from cellwright.agent.calls.tool_results import MAX_BYTES, ToolOutput, json_of, output_folder
from cellwright.agent.tool import Category, Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import Notice, Preview, RunEnd, ToolEnd, ToolProgress, ToolStart
from cellwright.permissions.policy import PermissionPolicy
from cellwright.redaction.redaction import Redaction, is_distinctive, secret_values
from cellwright.testing import say, turn, use
from declared_tools import declared
from eventual import growth
from row_tables import for_each_row

GITHUB = "ghp_" + "a1B2" * 9

SECRET = "ghp_" + "a1B2" * 9

AWS = "AKIA" + "IOSFODNN7EXAMPLE"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234567890\n-----END RSA PRIVATE KEY-----"


@tool(access=ToolAccess("shell", "command"), category="shell")
async def shout(command: str, ctx: ToolContext) -> str:
    """Say a command aloud, and go on for ever."""
    ctx.progress(text=f"\x1b[1m{command}\x1b[0m 10 %\r{command} 99 %\n")
    await asyncio.Event().wait()
    return "never"


def stop_when(played: Any, ready: Any) -> None:
    """Run a prompt until `ready` holds, then stop it."""

    async def main() -> None:
        run = asyncio.create_task(played.run("go"))
        while not ready():
            await asyncio.sleep(0.001)
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run

    asyncio.run(main())


def ends(played: Any) -> dict[str, ToolEnd]:
    return {event.tool_use_id: event for event in played.of(ToolEnd)}


def test_what_a_stopped_call_has_shown_is_told_to_claude(scene: Any) -> None:
    played = scene([turn(use("shout", command="one"), use("shout", command="two")), say("It said one.")], tools=[shout])
    stop_when(played, lambda: played.of(ToolProgress))
    first, second = ends(played).values()
    assert "have had effects" in first.content
    assert ":\none 99 %" in first.content
    assert first.duration_ms > 0
    assert "not run" in second.content
    assert second.duration_ms == 0
    played.go_on("what did it say?")
    [_, _, results, _] = played.bodies[1]["messages"]
    assert [block["content"] for block in results["content"]] == [first.content, second.content]


def test_what_a_stopped_call_has_shown_is_bounded(scene: Any) -> None:
    @tool
    async def count(ctx: ToolContext) -> str:
        """Count for ever."""
        for number in range(100_000):
            ctx.progress(text=f"{number}\n")
        ctx.progress(text="counted")
        await asyncio.Event().wait()
        return "never"

    played = scene([use("count"), say("No.")], tools=[count])
    stop_when(played, lambda: played.of(ToolProgress)[-1:] and played.of(ToolProgress)[-1].text == "counted")
    [end] = ends(played).values()
    assert len(end.content) < count.limits.result_chars + 1_000
    assert end.content.endswith("99999\ncounted")


def test_secrets_of_a_stopped_call_are_kept_from_claude(scene: Any) -> None:
    played = scene([use("shout", command=GITHUB), say("A token.")], tools=[shout], redaction=Redaction())
    stop_when(played, lambda: played.of(ToolProgress))
    [end] = ends(played).values()
    assert end.content.endswith(": GitHub token] 99 %")


def test_a_call_that_waits_for_a_permission_was_not_run(scene: Any, tmp_path: Any) -> None:
    asked = threading.Event()

    async def ask(use: ToolUse) -> Allow:
        asked.set()
        await asyncio.Event().wait()
        return Allow()

    policy = PermissionPolicy(roots=(tmp_path,), cwd=tmp_path)
    played = scene([use("shout", command="one"), say("No.")], tools=[shout], policy=policy, can_use_tool=ask)
    stop_when(played, asked.is_set)
    assert ["not run" in end.content for end in ends(played).values()] == [True]


class CountOutput(ToolOutput):
    """A count of what was found, and the names."""

    total: int
    names: tuple[str, ...] = ()


@tool(output=CountOutput, read_only=True)
async def count(name: str) -> ToolResult:
    """Count things."""
    return ToolResult(f"there is {name}", structured=CountOutput(total=1, names=(name,)))


def call_ends(played: Any) -> list[ToolEnd]:
    return list(played.of(ToolEnd))


def test_every_built_in_tool_declares_its_structured_result():
    assert [name for name, declared_tool in declared().items() if declared_tool.output_type is None] == []


def test_programs_get_it_and_the_model_does_not(play):
    played = play([use("count", name="one marker"), say("ok")], tools=[count])
    assert [end.structured for end in call_ends(played)] == [{"total": 1, "names": ["one marker"]}]
    sent = json.dumps(played.bodies)
    assert "one marker" in sent
    assert '"total"' not in sent
    assert '"names"' not in sent


def test_what_a_plain_function_returns_is_its_structured_result(play):
    @tool(read_only=True)
    def table() -> dict[str, Any]:
        """Make a table."""
        return {"rows": [[1, None], [2.5, "ä"]], "mean": math.nan}

    [end] = call_ends(play([use("table"), say("ok")], tools=[table]))
    assert end.structured == {"rows": [[1, None], [2.5, "ä"]], "mean": None}


ENDLESS: dict[str, Any] = {}
ENDLESS["self"] = ENDLESS


@for_each_row("value", [{"object": object()}, {1, object()}, ENDLESS, {"kind": CountOutput}])
def test_what_no_json_can_hold_is_named(value):
    with pytest.raises(ToolError, match=r"^mine ran, but its structured result cannot be written as JSON: "):
        json_of(value, "mine")


@for_each_row(
    ("value", "written"),
    [({"half": "\ud800"}, {"half": "\ufffd"}), ({3: "three"}, {"3": "three"}), ((1, None), [1, None]), (None, None)],
)
def test_what_json_can_hold_is_written_so(value, written):
    assert json_of(value, "mine") == written


@for_each_row(
    "value",
    [
        {"text": "x" * 3 * MAX_BYTES},
        {"rows": [{"n": n, "name": "x" * 50} for n in range(5_000)]},
        {"a": {"b": [["y" * 200] * 200] * 200}},
        ["z" * 100] * 5_000,
        {"keys": {str(n): "v" * 20 for n in range(20_000)}},
    ],
)
def test_it_is_bounded_and_says_so(value):
    bounded = json_of(value, "mine")
    assert len(json.dumps(bounded, ensure_ascii=False)) <= MAX_BYTES * 1.1
    assert isinstance(bounded, list) or bounded["truncated"] is True


def test_secrets_are_taken_out_as_they_are_of_the_text(play):
    @tool
    def show() -> ToolResult:
        """Show."""
        return ToolResult(f"key {SECRET}", structured={"nested": [{"key": f"key {SECRET}"}]})

    searched = Tool(name="show", description="Show.", input_schema={"type": "object"}, call=show.call, category="shell")
    [end] = call_ends(play([use("show"), say("ok")], tools=[searched], redaction=Redaction(lambda: {"T": SECRET})))
    assert SECRET not in json.dumps([end.content, end.structured])
    assert "[secret removed: " in end.structured["nested"][0]["key"]


def test_a_result_that_no_json_can_hold_fails_its_call_alone(play):
    @tool
    def odd() -> ToolResult:
        """Do it."""
        return ToolResult("done", structured={"handle": object()})

    played = play([turn(use("odd"), use("count", name="a")), say("Went on.")], tools=[odd, count])
    assert [end.status for end in call_ends(played)] == ["error", "success"]
    assert "as JSON" in str(call_ends(played)[0].content)
    assert played.end.text == "Went on."


@pytest.mark.parametrize("where", ["preview", "prepare", "facts"])
def test_what_raises_before_a_call_fails_that_call_alone(play, where):
    async def call(tool_input, ctx):
        raise AssertionError("it was never allowed")

    async def broken(tool_input):
        raise RuntimeError("no diff today")

    def broken_facts(tool_input):
        raise RuntimeError("no diff today")

    asked = []

    async def answer(use):
        asked.append(use)
        return Allow()

    made = {"facts": broken_facts}.get(where, broken)
    odd = Tool(
        name="odd",
        description="Do it.",
        input_schema={"type": "object"},
        call=call,
        access=ToolAccess("unknown"),
        **{where: made},
    )
    played = play(
        [turn(use("odd"), use("count", name="a")), say("Went on.")],
        tools=[odd, count],
        policy=PermissionPolicy(mode="default"),
        can_use_tool=answer,
    )
    first, second = call_ends(played)
    assert (first.status, second.status) == ("error", "success")
    assert "no diff today" in str(first.content)
    assert asked == []
    assert (played.end.text, played.end.error) == ("Went on.", None)


def test_a_preview_that_is_whole_is_still_asked_about(play):
    async def call(tool_input, ctx):
        return "done"

    async def preview(tool_input):
        return Preview("Do it?")

    async def answer(use):
        return Allow()

    fine = Tool(name="fine", description="Do it.", input_schema={"type": "object"}, call=call, preview=preview)
    played = play([use("fine"), say("ok")], tools=[fine], policy=PermissionPolicy(mode="default"), can_use_tool=answer)
    assert call_ends(played)[0].content == "done"


def test_the_time_of_a_call_is_estimated_from_earlier_calls_of_the_tool(scene):
    played = scene(
        [use("count", name="a"), turn(use("count", name="b"), use("count", name="c")), say("ok")], tools=[count]
    )
    played.go_on("go")
    first, second = played.of(ToolStart)
    assert first.estimated_seconds is None
    [took] = [end.duration_ms / 1000 for end in call_ends(played)][:1]
    assert second.estimated_seconds == pytest.approx(took)
    [end] = played.of(RunEnd)
    [batch] = end.parallel_batches
    assert len(batch.tool_use_ids) == batch.succeeded == 2
    assert batch.duration_ms >= max(each.duration_ms for each in call_ends(played)[1:])


def removed(kind: str) -> str:
    return f"[secret removed: {kind}]"


@for_each_row(
    ("text", "cleaned"),
    [
        (f"id {AWS} end", f"id {removed('AWS access key')} end"),
        (f"{GITHUB}\nnext", f"{removed('GitHub token')}\nnext"),
        ("github_pat_" + "a1" * 20, removed("GitHub token")),
        ("glpat-" + "a1B2c" * 4, removed("GitLab token")),
        ("xoxb-123456789012-abcdefABCDEF", removed("Slack token")),
        ("sk_live_" + "a1B2" * 6, removed("Stripe key")),
        ("key sk-ant-api03-abc_def-123456", f"key {removed('Anthropic API key')}"),
        ("sk-proj-" + "a1B2" * 8, removed("OpenAI API key")),
        ("hf_" + "aB" * 17, removed("Hugging Face token")),
        ("AIza" + "a1B2c" * 7, removed("Google API key")),
        (
            "//npm.example/:_authToken=npm_" + "a1B2" * 9,
            f"//npm.example/:_authToken={removed('npm token')}",
        ),
        ("dapi" + "a1" * 16, removed("Databricks token")),
        (f"AccountKey={'a1B2' * 22};", f"{removed('Azure storage key')};"),
        (f"token {JWT}.", f"token {removed('JSON web token')}"),
        (f"a\n{PEM}\nb", f"a\n{removed('private key')}\nb"),
        ("'" + PEM.replace("\n", "\\n") + "'", f"'{removed('private key')}'"),
        ("postgresql://bob:s3cr3t!x@db:5432/x", f"postgresql://bob:{removed('password in an address')}@db:5432/x"),
        ("Server=db;Pwd=abcd123;", f"Server=db;Pwd={removed('password in a connection string')};"),
        (
            "host=db password=abcd123 dbname=x",
            f"host=db password={removed('password in a connection string')} dbname=x",
        ),
        ("password = 'hunter2222'", f"password = '{removed('password or key')}'"),
        ('{"db_password": "hunter2222"}', f'{{"db_password": "{removed("password or key")}"}}'),
        ("Config(api_key='abcdefgh1')", f"Config(api_key='{removed('password or key')}')"),
        ("os.environ['API_TOKEN'] = 'a1b2c3d4e5f6g7h8i9'", f"os.environ['API_TOKEN'] = '{removed('password or key')}'"),
        ("DJANGO_SECRET_KEY=abc-123-def", f"DJANGO_SECRET_KEY={removed('password or key')}"),
        ("aws_secret_access_key = " + "a1B2c" * 8, f"aws_secret_access_key = {removed('AWS secret key')}"),
        ("Authorization: Bearer abcdef0123456789", f"Authorization: Bearer {removed('authorization header')}"),
        ("GET /x?access_token=abcdef0123456789", f"GET /x?access_token={removed('key in an address')}"),
    ],
)
def test_what_is_removed(text: str, cleaned: str) -> None:
    found = Redaction().clean(text)
    assert found.text == cleaned
    assert found.kinds.total() == 1
    assert Redaction().clean(found.text).text == found.text


@for_each_row(
    "text",
    [
        hashlib.sha1(b"x").hexdigest(),
        f"commit {hashlib.sha256(b'x').hexdigest()}",
        str(uuid.UUID(int=2**100 + 12345)),
        base64.b64encode(bytes(range(256)) * 40).decode(),
        f"data:image/png;base64,{base64.b64encode(hashlib.sha512(b'x').digest() * 30).decode()}",
        ">sp|P1\nMKVAKIAGTPLKMVWQRSTACDEFGHIKLASIAQWERTYIPASDFGHKLMN",
        "{'token': 'international', 'pos': 'NOUN', 'pad_token': '<pad>', 'eos_token': '</s>'}",
        "tokenizer=BertTokenizer, max_tokens=4096, token_type_ids=[0, 0, 1]",
        "the token count is 42, the password is long, the secret of the matter",
        "password     object\ntoken        object\napi_key     float64",
        "{'password': 'string', 'secret': None, 'api_key': '********'}",
        "api_key='OPENAI_API_KEY', password='<your password>', secret='{{ secret }}', passwd='$DB_PASSWORD'",
        "postgresql://bob:***@db/x https://example.com:8080/a@b http://user@host/",
        "git@github.com:user/repo.git ssh://git@host:22/x",
        "df.sort_values(by=sort_key), PRIMARY_KEY=customer_number, SORT_KEY=created_at",
        "the words -----BEGIN RSA PRIVATE KEY----- stand at its start",
        "eyJub3QiOiJhIHRva2VuIn0.something.else_that_has_dots",
        "login(password=user_password, host=host)",
        "https://example.com/?key=name&page=2&sig=none&token=abc",
        "Basic internationalization of forms; a bearer of interesting-news-for-all",
        "12:30:45 10.0.0.1 user@example.com 4111 1111 1111 1111 DE89 3704 0044 0532 0130 00",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert Redaction().clean(text).text == text


def test_values_of_the_environment_are_known() -> None:
    environ = {
        "MY_SERVICE_TOKEN": "correct-horse-7",
        "DB_PASSWORD": "postgres",
        "CELLWRIGHT_HOME": "/home/ada/cellwright-1",
        "ANTHROPIC_MODEL": "claude-opus-5-5",
        "CREDENTIALS_FILE": "/home/ada/credentials-1.json",
        "HOME": "/home/ada",
        "LOG_LEVEL": "correct-horse-8",
    }
    redaction = Redaction(lambda: secret_values(environ))
    text = (
        "correct-horse-7 postgres /home/ada/cellwright-1 claude-opus-5-5 /home/ada/credentials-1.json correct-horse-8"
    )
    assert redaction.clean(text).text == text.replace("correct-horse-7", removed("value of $MY_SERVICE_TOKEN"))
    environ["LATER_KEY"] = "s3t-in-a-cell"  # the environment as it is now
    assert redaction.clean("s3t-in-a-cell").text == removed("value of $LATER_KEY")


@for_each_row("value", ["short1", "/a/folder/1", "password", "12345678", "aaaaaaaa1", "true"])
def test_a_value_that_stands_everywhere_is_not_looked_for(value: str) -> None:
    assert not is_distinctive(value)


def test_of_a_notebooks_cells_the_outputs_are_searched() -> None:
    cells = f'<cell id="a">\nkey = "{AWS}"\n</cell>\n<output type="stream" name="stdout">\n{AWS}\n</output>\n'
    found = Redaction().clean_outputs(cells)
    assert found.text == cells.replace(f"\n{AWS}\n", f"\n{removed('AWS access key')}\n")


@for_each_row(
    "piece",
    [
        *(
            "a",
            "eyJ",
            "eyJa.",
            "://a:",
            "password ",
            'password: "',
            "secret_",
            "-----BEGIN PRIVATE KEY-----",
            "A_",
            "sk-",
            "AKIA",
        ),
        *("ghp_", "xoxb-1-", "?key=a", "host= password=", "pypi-AgE", "bearer ", "<output>\n"),
    ],
)
def test_the_time_grows_with_the_text_and_not_faster(piece: str) -> None:
    def clean(chars: int) -> None:
        text = piece * (chars // len(piece))
        Redaction().clean_outputs(text)
        Redaction().clean(text)

    clean(1_000)  # what is imported with the first of its kind
    assert growth(clean, 20_000, 10) < 10


def giving(name: str, category: Category, content: object, access: ToolAccess = ToolAccess()) -> Tool:  # noqa: B008
    async def give(_input: dict[str, Any], _ctx: ToolContext) -> Any:
        if isinstance(content, Exception):
            raise content
        return content

    schema = {"type": "object", "properties": {"file_path": {"type": "string"}}}
    return Tool(
        name=name, description="Give.", input_schema=schema, call=give, category=category, access=access, read_only=True
    )


def test_claude_gets_the_placeholder_and_the_user_a_notice_once(scene) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    tools = [
        giving("Python", "kernel", [{"type": "text", "text": f"a {AWS}"}, image]),
        giving("Bash", "shell", ToolResult(f"b {AWS} {GITHUB}", is_error=True)),
        giving("Fails", "kernel", ToolError(f"c {AWS}")),
        giving("Read", "files", f"d {AWS}"),
        giving("Cells", "notebooks", f"e {AWS}"),
        giving("RunTests", "code", f"f {AWS}", ToolAccess("tests")),
        giving("NotebookRead", "notebooks", f"key = '{AWS}'\n<output>\n{AWS}\n</output>", ToolAccess("read")),
    ]
    calls = turn(*(use(each.name) for each in tools))
    played = scene([calls, say("done")], tools=tools, redaction=Redaction())
    assert played.go_on("go").ok
    aws = removed("AWS access key")
    got = [result["content"] for result in played.results()]
    assert got == [
        [{"type": "text", "text": f"a {aws}"}, image],
        f"b {aws} {removed('GitHub token')}",
        f"c {aws}",
        f"d {AWS}",
        f"e {aws}",
        f"f {aws}",
        f"key = '{AWS}'\n<output>\n{aws}\n</output>",
    ]
    ends = {event.name: event for event in played.of(ToolEnd)}
    assert AWS not in str(ends["Bash"].error)
    assert AWS not in str(ends["Fails"].error)
    notices = [event.message for event in played.of(Notice)]
    assert sorted(word for notice in notices for word in ("AWS access key", "GitHub token") if word in notice) == [
        "AWS access key",
        "GitHub token",
    ]
    assert all("cellwright.redactSecrets" in notice for notice in notices)


def test_the_whole_of_a_long_output_is_searched_when_it_is_read(scene) -> None:
    inside, outside = str(output_folder() / "result-1.txt"), "/elsewhere/result-1.txt"
    script = [turn(use("Read", file_path=inside), use("Read", file_path=outside)), say("done")]
    played = scene(script, tools=[giving("Read", "files", AWS)], redaction=Redaction())
    assert played.go_on("go").ok
    assert [result["content"] for result in played.results()] == [removed("AWS access key"), AWS]


def test_without_redaction_results_stay_as_they_are(scene) -> None:
    played = scene([turn(use("Python")), say("done")], tools=[giving("Python", "kernel", AWS)])
    assert played.go_on("go").ok
    assert played.results()[0]["content"] == AWS
    assert played.of(Notice) == []
