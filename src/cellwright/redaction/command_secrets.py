"""Passwords on command lines: options that say so by their name, and those of programs where a letter means one.

`-p` is a folder's parents for mkdir, a port for ssh, a password for mysql: a letter counts for the programs that are named.
"""

from __future__ import annotations

import re

from cellwright.redaction.named_secrets import is_path
from cellwright.redaction.secret_kinds import SecretKind, is_password, looks_random
from cellwright.redaction.secret_names import is_always_secret, words_of
from cellwright.text import lazy_pattern


def _option(match: re.Match[str]) -> bool:
    """Return whether an option of a command holds a secret: `--password x`, `--ServerApp.token=x`."""
    name, value = match["name"].removeprefix("D"), match["secret"]
    if not is_password(value) or is_path(value) or value.startswith("-"):
        return False
    if is_always_secret(name) or is_always_secret(match["name"]):
        return True
    last = words_of(name).rpartition("_")[2]
    if last in ("token", "pass", "pw", "secret", "pat", "jwt"):
        return True
    return last in ("auth", "key", "cookie") and looks_random(value, 8)


def _password(match: re.Match[str]) -> bool:
    value = match["secret"]
    return is_password(value) and not is_path(value)


KIND = "password on a command line"

_GAP = r"(?:\s{1,4}|[\"']\s{0,2},\s{0,4}[\"'])"
"""Between two words of a command, or of the list of its words."""
_BETWEEN = r"(?:[^\n|]|\\\n){0,400}?"
_ARGUMENT = r"[\"']?(?P<secret>[^\s\"'`|;&<>]{1,300})"
_OPTION = rf"(?P<name>[A-Za-z][\w.-]{{1,60}})(?:=[\"']?|{_GAP}[\"']?)(?P<secret>(?!-)[^\s\"'`]{{1,300}})"


def _command(programs: str, option: str, needs: str = "") -> SecretKind:
    """An option that is a password for these programs alone; `needs` is a word that comes before it."""
    names = programs.split()
    before = rf"{_BETWEEN}(?<!\w){needs}\b" if needs else ""
    pattern = rf"(?<![\w.-])(?:{'|'.join(names)})\w{{0,20}}(?:\.exe)?\b{before}{_BETWEEN}{option}"
    return SecretKind(KIND, tuple(names), lazy_pattern(pattern), at_hints=True, needs=needs, fits=_password)


COMMANDS = (
    SecretKind(KIND, ("--",), lazy_pattern(rf"(?<![\w.-])--{_OPTION}"), at_hints=True, fits=_option),
    SecretKind(
        KIND,
        ("-D", "-pass", "-token", "-storepass", "-keypass", "-auth"),
        lazy_pattern(rf"(?<![\w.-])-{_OPTION}"),
        at_hints=True,
        fits=_option,
    ),
    _command("mysql mariadb sshpass 7z", rf"{_GAP}-p(?!ass\b|ort\b){_ARGUMENT}"),
    _command("sshpass mongo influx", rf"{_GAP}-p{_GAP}{_ARGUMENT}"),
    _command("docker podman buildah nerdctl helm skopeo az oc", rf"{_GAP}-p{_GAP}{_ARGUMENT}", "login"),
    _command("redis-cli", rf"{_GAP}-a{_GAP}{_ARGUMENT}"),
    _command("sqlcmd bcp unzip zip", rf"{_GAP}-P{_GAP}?{_ARGUMENT}"),
    _command("ldap", rf"{_GAP}-w{_GAP}?{_ARGUMENT}"),
    _command("sqlplus rman impdp expdp", rf"{_GAP}[\w-]+/(?P<secret>[^\s@\"'/]{{1,200}})(?=@|\s|$)"),
    _command("htpasswd", rf"{_GAP}-\w*b\w*{_GAP}\S+{_GAP}\S+{_GAP}{_ARGUMENT}"),
    _command("openssl", r"\bpass:(?P<secret>[^\s\"']{1,300})"),
    _command(
        "smbclient rpcclient smbmap", rf"{_GAP}(?:-U|--user){_GAP}?[\"']?[^\s%\"']+%(?P<secret>[^\s\"']{{1,200}})"
    ),
    _command("xfreerdp rdesktop", r"\s(?:/p:|-p\s)(?P<secret>[^\s\"']{1,200})"),
    SecretKind(
        KIND,
        ("curl", "http ", "https ", "xh "),
        lazy_pattern(
            rf"(?<![\w.-])(?:curl|https?|xh)(?:\.exe)?\b{_BETWEEN}{_GAP}(?:-[A-Za-z]{{0,6}}u|-U|-a|--user|--proxy-user|--auth)"
            rf"(?:=|{_GAP})?[\"']?[^\s:'\"/]{{1,100}}:(?P<secret>[^\s'\"]{{1,300}})"
        ),
        at_hints=True,
        fits=_password,
    ),
    SecretKind(
        KIND,
        ("auth=(", "auth = (", "BasicAuth("),
        lazy_pattern(
            r"(?:auth\s?=\s?|BasicAuth)\(\s{0,4}(?:[\w.]+|[\"'][^\"'\n]{0,100}[\"'])\s{0,2},\s{0,4}"
            r"[\"'](?P<secret>[^\"'\n]{1,300})[\"']"
        ),
        at_hints=True,
        fits=_password,
    ),
    SecretKind(
        KIND,
        ("chpasswd",),
        lazy_pattern(r"(?<![\w.-])[\w.-]{1,60}:(?P<secret>[^\s\"']{1,200})[\"']?\s{0,4}\|\s{0,4}(?:sudo\s)?chpasswd"),
        fits=_password,
    ),
)
