"""The table of secrets: every kind has an example, every name counts in every form, and data and code stay as they are."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import uuid

from secret_examples import PASSWORD, examples

from cellwright.redaction.redaction import JsonRedaction, Redaction, all_kinds, is_secret, replaced_in_words
from cellwright.redaction.secret_kinds import SearchedText
from cellwright.redaction.secret_names import is_always_secret, is_secret_name
from eventual import growth
from row_tables import for_each_row


def test_every_kind_has_an_example() -> None:
    texts = [(SearchedText(example.text), example.secret) for example in examples()]

    def is_found(kind) -> bool:
        group = "secret" if "secret" in kind.pattern.groupindex else 0
        return any(
            match[group] in secret or secret in match[group] for text, secret in texts for match in kind.matches(text)
        )

    assert [(kind.name, kind.hints) for kind in all_kinds() if not is_found(kind)] == []


def test_every_example_is_removed_and_stays_removed() -> None:
    for text, secret in examples():
        found = Redaction().clean(f"before\n{text}\nafter\n")
        assert secret not in found.text, text
        assert found.text.startswith("before\n")
        assert found.text.endswith("\nafter\n")
        assert Redaction().clean(found.text).text == found.text


NAMES = (
    *("DB_PASS", "DATABASE_DSN", "SESSION_COOKIE", "SSH_PASSPHRASE", "OPENAI_API_KEY", "GEMINI_APIKEY", "GITLAB_PAT"),
    *("SENTRY_DSN", "NPM_AUTH", "SLACK_TOKENS", "MYSQL_PWD", "REDIS_PASS", "MY_SECRET_THING", "SECRETKEY", "SSH_KEY"),
    *(
        "STRIPE_KEY",
        "DB_CONNECTION_STRING",
        "AUTH",
        "TOKEN",
        "JWT_SECRET",
        "DB_PW",
        "DB_CREDS",
        "PGPASSWORD",
        "SSHPASS",
    ),
    *("DJANGO_SECRET_KEY", "TWILIO_AUTH_TOKEN", "AUTHORIZATION", "ADMIN_COOKIE", "DBPASS", "HASH_SALT", "AZURE_SAS"),
)
FORMS = (
    *("{n}={v}\n", "export {n}={v}\n", '{n}="{v}"\n', "export {n}='{v}'\n", "{n}: {v}\n", '{n}: "{v}"\n'),
    *('{{"{n}": "{v}"}}', '{{\\"{n}\\": \\"{v}\\"}}', '{n} = "{v}"\n', "os.environ['{n}'] = '{v}'\n", "{n} = {v}\n"),
    *("docker run -e {n}={v} img\n", "{n}={v} python run.py\n", "      - {n}={v}\n", "ENV {n} {v}\n", "3\t{n}={v}\n"),
    *("     3→{n}={v}\n", "- name: {n}\n  value: {v}\n", '{{"name": "{n}", "value": "{v}"}}', "set {n}={v}\r\n"),
    *("$env:{n} = '{v}'\n", "%env {n}={v}\n", "a\\n{n}={v}\\nb", "set -x {n} {v}", "setenv {n} {v}"),
)


OPEN_ENDS = (
    *(
        "password:",
        "DB_PASS=",
        "export TOKEN='",
        'key = "',
        "curl -u ada:",
        "mysql -p",
        "[env]",
        "a \\",
        "ENV DB_PASS ",
    ),
    *("Authorization: Bearer", "set_password('shop',", "a sentence", "{", "<password>", "client_secret: |"),
)
"""Texts behind which something may seem to go on."""


def test_many_texts_are_searched_together_as_each_alone() -> None:
    forms = [form.format(n=name, v=PASSWORD) for form in FORMS for name in ("DB_PASS", "AUTH")]
    secret = [*(example.text for example in examples()), *forms]
    alone = {text: Redaction().clean(text) for text in (*secret, *OPEN_ENDS)}
    expected = {text: cleaned.text for text, cleaned in alone.items() if cleaned.kinds}
    assert expected.keys() == {*secret}
    assert Redaction().clean_each([*OPEN_ENDS, *secret, *OPEN_ENDS]) == expected
    hidden = [
        (end, text)
        for text in secret
        for end in OPEN_ENDS
        if Redaction().clean_each([end, text, end]) != {text: expected[text]}
    ]
    assert hidden == []


def test_the_environment_is_read_once_for_many_texts() -> None:
    reads = []

    def secrets() -> dict[str, str]:
        reads.append(1)
        return {"SHOP_KEY": "abcd-1234-efgh"}

    found = Redaction(secrets).clean_each(f"text {n} abcd-1234-efgh" if n % 9 == 0 else f"text {n}" for n in range(99))
    assert len(found) == 11
    assert found["text 9 abcd-1234-efgh"] == "text 9 [secret removed: value of $SHOP_KEY]"
    JsonRedaction(Redaction(secrets)).clean([f"text {n}" for n in range(99)])
    assert len(reads) == 2


@for_each_row("name", NAMES)
def test_variables_are_secrets_in_every_form(name: str) -> None:
    assert is_secret_name(name)
    left = [form for form in FORMS if PASSWORD in Redaction().clean(form.format(n=name, v=PASSWORD)).text]
    assert left == []


FIELDS = (
    *("password", "db_password", "dbPassword", "passwd", "user_password", "client_secret", "clientSecret", "api_key"),
    *("apiKey", "api-key", "secret_key", "access_token", "accessToken", "auth_token", "refresh_token", "private_key"),
    *("db_pass", "connection_string", "passphrase", "pwd", "secret", "x-api-key", "spring.datasource.password"),
)
FIELD_FORMS = (
    *("{n}={v}\n", "{n}: {v}\n", '{n}: "{v}"\n', '{{"{n}": "{v}"}}', '{n} = "{v}"\n', "{n} = '{v}'\n", 'f({n}="{v}")'),
    *('{n}: str = "{v}"\n', "  {n}: '{v}',\n", "{n}={v}&user=bob", "host=h {n}={v} user=u\n", "<{n}>{v}</{n}>"),
    *("--{n} {v} x", "--{n}={v}", "'--{n}', '{v}'", '{n} := "{v}"', "{n} => '{v}'", "if {n} == '{v}':"),
    *('.option("{n}", "{v}")', "https://x.org/a?{n}={v}&b=1", '{n}="""{v}"""', "{n}: {v} # mine\n", "export {n}={v}"),
)


@for_each_row("name", FIELDS)
def test_fields_are_secrets_in_every_form(name: str) -> None:
    assert is_always_secret(name)
    left = [form for form in FIELD_FORMS if PASSWORD in Redaction().clean(form.format(n=name, v=PASSWORD)).text]
    assert left == []


@for_each_row(
    ("text", "secret"),
    [
        ("password: cat1\n", "cat1"),
        ("DB_PASS=ab1\n", "ab1"),
        ('password="abc"', "abc"),
        ("DB_PASS=swordfish\n", "swordfish"),
        ("password: swordfish\n", "swordfish"),
        ("password=swordfish\n", "swordfish"),
        ("[client]\nuser = ada\npassword = swordfish\n", "swordfish"),
        ("DB_PASSWORD=123456\n", "123456"),
        ("DB_PASSWORD=p@ss&w(o)rd\n", "w(o)rd"),
        ("PGPASSWORD=hunter2 psql -h db", "hunter2"),
        ("postgres://bob:p@ss@db/x", "p@ss"),
        ('{"auths": {"r": {"auth": "dXNlcjpodW50ZXIy"}}}', "dXNlcjpodW50ZXIy"),
    ],
)
def test_short_and_plain_passwords_count_where_the_name_is_clear(text: str, secret: str) -> None:
    assert secret not in Redaction().clean(text).text


LEFT_ALONE = """\
token = tokenizer.next()
password: str
password: str = None
password: Optional[str] = None
api_key=os.environ["X"]
api_key = os.environ.get("OPENAI_API_KEY")
max_tokens=1024
tokens: 2310
key=lambda x: x[1]
sort_keys=True
password = getpass.getpass()
password = input("Password: ")
password = user_password
password=args.password
    password=form.cleaned_data["password"],
secret = secrets.token_hex(16)
access_token = response.json()["access_token"]
client = OpenAI(api_key=api_key)
LONGEST_SECRET = 4_000
MAX_KEY_CHARS = 1_000
AUTH_TYPE_USER_OAUTH = "user_oauth"
AUTH_USER_MODEL = "accounts.User"
COOKIE = "session"
KEY = "some_column_1"
SECRET_KEY = os.environ["SECRET_KEY"]
give `api_key=`, `auth_token=`, or `credentials=`.
{"token": "the", "key": "name", "cookie": "chocolate"}
{"key": "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0"}
df = pd.DataFrame({"token": ["a1", "b2"], "key": [1, 2]})
   token  key  value
0    the   a1     12
merge(left, right, on="key", how="left")
{"password": "This field is required."}
{"password": {"type": "string", "description": "The password of the user"}}
help="Password for the database (default: none)"
Password: required
TOKENIZERS_PARALLELISM=false
MAX_TOKENS=1024
SECRET_NAME=db-creds
API_KEY_FILE=/run/secrets/key
SSH_KEY=/home/ada/.ssh/id_ed25519
PWD=/home/ada/project1
TOKEN=$(cat token.txt)
export API_KEY=$MY_KEY
API_KEY=your-api-key-here
DB_PASSWORD=changeme
mkdir -p build/x1
ssh -p 2222 ada@host
docker run -p 8080:80 nginx
cp -p a1 b2
patch -p1 < fix.diff
mysql -p -u root db
curl -u "$USER:$PASS" https://x.org
git log -p HEAD~3
python -m pytest -p no:cacheprovider
psql -p 5433 -U ada
ssh-keygen -t ed25519 -f key1
--token-file /x --max-tokens 100 --tokenizer gpt2 --key-column id --password-stdin
https://example.com/?key=name&page=2&sig=none&token=abc
https://colab.research.google.com/drive/1a2B3c4D5e6F7g8H9i0JkLmNoPqRsTuVw
https://github.com/user/repo/commit/8c31bfde0f2a4b6c8d0e2f4a6b8c0d2e4f6a8b0c
docker pull img@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
postgresql://bob:***@db/x https://example.com:8080/a@b http://user@host/
Authorization: required
tokenizer = AutoTokenizer.from_pretrained("gpt2", use_auth_token=True)
model.generate(eos_token_id=2, pad_token_id=0, max_new_tokens=128)
auth = HTTPBasicAuth(user, password)
author = "Ada Lovelace 1815"
first_pass = "result1"
monkeypatch.setenv("HOME", "/x1")
task-1234567890abcdef1234567890abcdef
{"name": "api_version", "value": "v1beta12"}
{"name": "token_limit", "value": "4096"}
password: ${DB_PASSWORD}
password: "{{ vault_password }}"
password: !vault |
WHERE password = %s AND token = ?
'input_tokens': 123456
password     object
"""


@for_each_row("text", [*LEFT_ALONE.splitlines()])
def test_code_and_data_stay(text: str) -> None:
    assert Redaction().clean(f"{text}\n").text == f"{text}\n"


@for_each_row(
    "text",
    [
        hashlib.sha256(b"x").hexdigest(),
        str(uuid.UUID(int=2**100 + 12345)),
        base64.b64encode(bytes(range(256)) * 40).decode(),
        f"data:image/png;base64,{base64.b64encode(hashlib.sha512(b'x').digest() * 30).decode()}",
    ],
)
def test_what_is_random_is_no_secret(text: str) -> None:
    assert Redaction().clean(text).text == text


@for_each_row(
    ("name", "value", "secret"),
    [
        ("DB_PASS", "x", True),
        ("github.token", "x", True),
        ("http.extraHeader", "x", True),
        ("URL", "https://ada:pw@host/", True),
        ("https_proxy", "http://ada:pw@host/", False),
        ("PWD", "/x", False),
        ("SSH_AUTH_SOCK", "/x", False),
        ("NOTE", "hf_abcdefgh1234", True),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("EDITOR", "vim", False),
    ],
)
def test_variables_that_are_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


def test_json_is_searched_by_its_names_and_images_are_left_alone() -> None:
    aws = "AKIA" + "IOSFODNN7EXAMPLE"
    redaction = JsonRedaction(Redaction())
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": aws}}
    cleaned = redaction.clean(
        [image, {"image/png": aws, "text/plain": aws}, {"password": "swordfish", "n": 1}, {aws: 1}]
    )
    mark = "[secret removed: AWS access key]"
    password = "[secret removed: password or key]"
    assert cleaned == [image, {"image/png": aws, "text/plain": mark}, {"password": password, "n": 1}, {mark: 1}]
    assert replaced_in_words(redaction.found) == "3 secrets replaced: 2 AWS access keys, 1 password or key"


@for_each_row(
    ("kinds", "words"),
    [
        ({}, ""),
        ({"GitHub token": 1}, "1 secret replaced: 1 GitHub token"),
        (
            {"password in an address": 2, "value of $A": 2},
            "4 secrets replaced: 2 passwords in an address, 2 values of $A",
        ),
        ({"password or key": 2}, "2 secrets replaced: 2 passwords or keys"),
    ],
)
def test_how_many_are_replaced_in_words(kinds: dict[str, int], words: str) -> None:
    assert replaced_in_words(kinds) == words


@for_each_row("example", examples())
def test_the_time_grows_with_the_text_and_not_faster(example) -> None:
    text = f"{example.text} "
    assert growth(lambda chars: Redaction().clean(text * (chars // len(text) + 1)), 6_000, 10) < 10


def test_nothing_is_imported_before_the_first_search() -> None:
    code = (
        "import sys, cellwright.redaction.redaction, cellwright.agent.recording.recorder\n"
        "print(*(name for name in sys.modules if name.startswith('cellwright.redaction.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == ["cellwright.redaction.redaction", "cellwright.redaction.secret_names"]
