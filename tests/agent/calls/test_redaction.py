"""Secrets in what tools give back: what is one, what is none, and what Claude, the user and the disk get of it."""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import Any

from cellwright.agent.calls.tool_results import output_folder
from cellwright.agent.tool import Category, Tool, ToolAccess, ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.events import Notice, ToolEnd
from cellwright.redaction.redaction import Redaction, is_distinctive, secret_values
from cellwright.testing import say, turn, use
from eventual import growth
from row_tables import for_each_row

AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "a1B2" * 9
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234567890\n-----END RSA PRIVATE KEY-----"


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
