"""A made-up secret of every kind, in a text that holds it; put together here, so that no scanner finds one."""

from __future__ import annotations

import base64
import itertools
from typing import NamedTuple

HEX = "0a1b2c3d4e5f6978"
MIXED = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7z"
UPPER = "A2B3C4D5E6F7G2H3"

PASSWORD = "Xq7-hunter2"
PEM_BODY = "MIIEowIBAAKCAQEA" + MIXED * 3


class Example(NamedTuple):
    """A text, and the secret in it."""

    text: str
    secret: str


def chars(count: int, alphabet: str = MIXED) -> str:
    """So many characters that look random, always the same."""
    return "".join(itertools.islice(itertools.cycle(alphabet), count))


_KEYS = (
    "sk-ant-" + "api03-" + chars(40),
    "sk-proj-" + chars(48),
    "sk-" + chars(20) + "T3Blbk" + "FJ" + chars(20),
    "sk-or-" + "v1-" + chars(64, HEX),
    "sk-lf-" + chars(36, HEX),
    "sk-" + chars(48),
    "gsk_" + chars(52),
    "xai-" + chars(80),
    "pplx-" + chars(48),
    "hf_" + chars(34),
    "r8_" + chars(37),
    "lsv2_pt_" + chars(32, HEX) + "_" + chars(10, HEX),
    "pcsk_" + chars(60),
    "tvly-" + chars(32),
    "AKIA" + chars(16, UPPER),
    "IQoJb3JpZ2lu" + chars(200),
    "ABSK" + chars(120),
    "AccountKey=" + chars(86) + "==",
    chars(3) + "8Q~" + chars(33),
    "AIza" + chars(35),
    "ya29." + chars(60),
    "GOCSPX-" + chars(28),
    "1//0" + chars(60),
    "dapi" + chars(32, HEX),
    "dose" + chars(32, HEX),
    "dop_v1_" + chars(64, HEX),
    "ghp_" + chars(36),
    "github_pat_" + chars(82),
    "glpat-" + chars(20),
    "glcbt-" + "ab_" + chars(20),
    "GR1348941" + chars(20),
    "ATATT3" + chars(180),
    "pypi-AgE" + "IcHlwaS5vcmc" + chars(100),
    "npm_" + chars(36),
    "rubygems_" + chars(48, HEX),
    "cio" + chars(32),
    "dckr_pat_" + chars(27),
    "AKCp" + chars(69),
    "CCIPAT_" + chars(60),
    "sk_live_" + chars(24),
    "sq0csp-" + chars(43),
    "EAAA" + chars(60),
    "xoxb-" + "123456789012-" + chars(24),
    "xapp-" + "1-A012-345-" + chars(64, HEX),
    "https://hooks.slack.com/services/" + "T0AB/B0CD/" + chars(24),
    "https://example.webhook.office.com/webhookb2/" + chars(60, HEX),
    "https://discord.com/api/webhooks/" + "123456789/" + chars(68),
    "MTA" + chars(21) + "." + chars(6) + "." + chars(38),
    "SK" + chars(32, HEX),
    "SG." + chars(22) + "." + chars(43),
    chars(32, HEX) + "-us12",
    "key-" + chars(32, HEX),
    "xkeysib-" + chars(64, HEX) + "-" + chars(16),
    "1234567890:AA" + chars(33),
    "shpat_" + chars(32, HEX),
    "ntn_" + chars(46),
    "lin_api_" + chars(40),
    "figd_" + chars(40),
    "pat" + chars(14) + "." + chars(64, HEX),
    "sl." + chars(130),
    "NRAK-" + chars(27, UPPER),
    "glsa_" + chars(32) + "_1a2b3c4d",
    "sntrys_" + chars(80),
    "phx_" + chars(47),
    "PMAK-" + chars(24, HEX) + "-" + chars(34, HEX),
    "hvs." + chars(90),
    "dp.pt." + chars(43),
    "pul-" + chars(40, HEX),
    chars(14) + ".atlasv1." + chars(67),
    "sbp_" + chars(40, HEX),
    "pscale_tkn_" + chars(43),
    "napi_" + chars(64, HEX),
    "nfp_" + chars(40),
    "FlyV1 fm2_" + chars(60),
    "pnu_" + chars(36),
    "tskey-" + "auth-" + chars(30),
    "ops_eyJ" + chars(200),
    "AGE-SECRET-KEY-1" + chars(58, UPPER),
    "sk.eyJ" + chars(60) + "." + chars(22),
    "wandb_v1_" + chars(60),
    "KGAT_" + chars(32, HEX),
)
"""Secrets wherever they stand."""


def _jwt() -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    return f"{head}.{'eyJ' + chars(40)}.{chars(43)}"


def _pem(kind: str = "RSA ") -> str:
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{PEM_BODY}\n-----END {kind}PRIVATE KEY-----"


_PLACES = (
    "//npm.example/:_authToken={}",
    "//npm.example/:_password={}",
    "postgresql://ada:{}@db.example:5432/x",
    "redis://:{}@cache:6379/0",
    "ada:{}@tcp(127.0.0.1:3306)/shop",
    "Server=db;User Id=ada;Password={};",
    "host=db dbname=shop user=ada password={}",
    "localhost:5432:shop:ada:{}",
    "machine api.example login ada password {}",
    "Authorization: Basic {}",
    "requests.get(url, auth=('ada', '{}'))",
    "curl -H 'Authorization: Bearer {}' https://api.example",
    'curl -H "X-Api-Key: {}" https://api.example',
    "Cookie: lang=en; session={}",
    "Set-Cookie: session={}; Path=/",
    "https://api.example/v1?page=2&api_key={}",
    "https://hub.example/lab?access_token={}",
    "jupyter lab --ServerApp.token={}",
    "jupyter notebook --NotebookApp.password {}",
    "['tool', '--password', '{}']",
    "java -Djavax.net.ssl.keyStorePassword={} App",
    "mysql -u ada -p{} shop",
    "sshpass -p {} ssh ada@host",
    "docker login -u ada -p {} registry.example",
    "redis-cli -h cache -a {} ping",
    "unzip -P {} data.zip",
    "ldapsearch -x -w {} -b dc=example",
    "sqlplus ada/{}@db",
    "htpasswd -b users.txt ada {}",
    "openssl enc -aes-256-cbc -pass pass:{} -in a",
    "smbclient //host/share -U ada%{}",
    "xfreerdp /u:ada /p:{} /v:host",
    "curl -u ada:{} https://api.example",
    "echo ada:{} | chpasswd",
    "password = '{}'",
    '{{"db_password": "{}"}}',
    "client_secret: {}",
    "DB_PASS={}",
    "export SESSION_COOKIE={}",
    "DATABASE_DSN: {}",
    "ENV DB_PASS {}",
    "- name: DB_PASSWORD\n  value: {}",
    'reader.option("password", "{}")',
    "%env SHOP_TOKEN {}",
    "spark.hadoop.fs.s3a.secret.key {}",
    "dotenv.set_key('.env', 'DB_PASS', '{}')",
    "keyring.set_password('shop', 'ada', '{}')",
    "CREATE USER ada IDENTIFIED BY '{}'",
    "The password is {}.",
    "<password>{}</password>",
    '{{\\"api_key\\": \\"{}\\"}}',
)
"""Places in which anything is a secret."""


def examples() -> list[Example]:
    """All of them."""
    aws_secret = chars(40)
    encoded = base64.b64encode(_pem("").encode()).decode()
    return [
        *(Example(f"found {key} there", key) for key in _KEYS),
        *(Example(place.format(f"{PASSWORD}{n}"), f"{PASSWORD}{n}") for n, place in enumerate(_PLACES, 10)),
        Example(f"{'AKIA' + chars(16, UPPER)},{aws_secret}", aws_secret),
        Example(f"aws_secret_access_key = {aws_secret}", aws_secret),
        Example(f"a bearer {chars(30)} of it", chars(30)),
        Example(f"https://{chars(32, HEX)}@sentry.example/1", chars(32, HEX)),
        Example(f"got {_jwt()}", _jwt()),
        Example(f"a\n{_pem()}\nb", PEM_BODY),
        Example(f"client-key-data: {encoded}", encoded),
        Example(f"Private-Lines: 1\n{PEM_BODY}\nPrivate-MAC: 00", PEM_BODY),
        Example("SSH_PASSPHRASE=correct horse battery staple", "horse battery"),
        Example("passphrase: correct horse battery staple", "horse battery"),
    ]
