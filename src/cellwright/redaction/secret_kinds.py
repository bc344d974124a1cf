"""The secrets that are known by their look, whatever they are called: keys, tokens, private keys, passwords in addresses.

Nothing here guesses from how random a text looks: hashes, ids and encoded images are what data is made of. Each kind
is looked for only if one of its `hints` stands in the text, so that most text costs a few substring searches.

The formats are those that the services publish: in their documentation of keys (the pages are named beside them), or in
the list of GitHub's secret scanning, which their owners register (docs.github.com, "Supported secret scanning patterns").
Secrets that have no look of their own are known by the names beside them: `named_secrets.py`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from cellwright.text import lazy_pattern

Fits = Callable[[re.Match[str]], bool]


_TOKEN_CHARS = lazy_pattern(r"[A-Za-z0-9]")


class SearchedText:
    """A text that is searched for kinds of secrets, and what the search for one of them found for the next."""

    def __init__(self, text: str) -> None:
        self.text = text
        lower = text.lower()
        # a letter's lower case can be longer than the letter: then places in the one are none in the other
        if len(lower) != len(text):
            lower = text.translate({code: code + 32 for code in range(ord("A"), ord("Z") + 1)})
        self._lower = lower
        # most words are too short for a key: a hundred hints are looked for in a tenth of the text
        # characters of a key, with what stands before and behind it in the same word
        self._long_words = "\n".join(word for word in text.split() if len(word) >= 12)
        self._places: dict[tuple[str, bool], list[int]] = {}

    def has_any(self, kind: SecretKind) -> bool:
        """Return whether one of the hints of `kind` stands in the text."""
        searched = self._long_words if kind.is_word else self._lower if kind.any_case else self.text
        return bool(searched) and any(hint in searched for hint in kind.hints)

    def places(self, hint: str, *, any_case: bool) -> list[int]:
        """The places of `hint`."""
        known = self._places.get((hint, any_case))
        if known is None:
            known = self._places[hint, any_case] = list(_places(hint, self._lower if any_case else self.text))
        return known


def _places(hint: str, text: str) -> Iterator[int]:
    start = text.find(hint)
    while start >= 0:
        yield start
        start = text.find(hint, start + 1)


class SecretKind(Struct, frozen=True):
    """One kind of secret. The group `secret` of `pattern` is what is removed; without it, the whole match.

    `hints` are lower-case when `any_case`. `at_hints`: matches begin with one of the hints, and are tried there alone.
    `is_word`: the hints stand in one long word with the secret. `needs`: a text without this has none of the kind.
    `fits` has the last word about a match.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    any_case: bool = False
    at_hints: bool = False
    is_word: bool = False
    needs: str = ""
    fits: Fits | None = None

    def matches(self, searched: SearchedText) -> Iterator[re.Match[str]]:
        """All of this kind."""
        if self.needs and self.needs not in searched.text:
            return
        if self.at_hints:
            places = (searched.places(hint, any_case=self.any_case) for hint in self.hints)
            if starts := {start for found in places for start in found}:
                yield from self._at(searched.text, sorted(starts))
        elif searched.has_any(self):
            found = self.pattern.finditer(searched.text)
            yield from (match for match in found if self.fits is None or self.fits(match))

    def _at(self, text: str, starts: list[int]) -> Iterator[re.Match[str]]:
        end = 0
        for start in starts:
            if start < end or (match := self.pattern.match(text, start)) is None:
                continue
            fits = self.fits is None or self.fits(match)
            # a token is not looked into again, or the time would grow with its square; the value of another name is
            if fits or "secret" not in self.pattern.groupindex:
                end = match.end()
            if fits:
                yield match


def whole_token(match: re.Match[str]) -> bool:
    """Return whether a match is not a piece of something longer: a protein's sequence has `AKIA` in it, too."""
    start, stop = match.span()
    text = match.string
    before = start > 0 and _TOKEN_CHARS.match(text[start]) and _TOKEN_CHARS.match(text[start - 1])
    if before and text[start - 1] in "nrt" and text[start - 2 : start - 1] == "\\":
        before = None  # the end of a line, written in a string
    after = stop < len(text) and _TOKEN_CHARS.match(text[stop - 1]) and _TOKEN_CHARS.match(text[stop])
    return not before and not after


_NO_PASSWORD = lazy_pattern(
    r"""
    [*•x.?_-]+ | <.*>? | \{.* | \$(\w*|[{(].*) | %([a-z]|\(.*|\w*%) | \[.* | \#.* | ![a-z]* | your.*
    | my_?(password|token|key|secret)
    | .*(example|placeholder|redacted|changeme|change_me|secret\ removed).*
    | str(ing)? | bytes | object | category | text | varchar | char | bool(ean)? | u?int\d* | integer | float\d* | double
    | number | any | none | null | nil | nan | na | n/a | undefined | void | self | true | false | yes | no | on | off
    | required | optional | hidden | masked | default | unknown | missing | empty | invalid | incorrect | wrong | expired
    | enabled | disabled | set | unset | prompt | ask | auto | bearer | basic | digest | token | key | password | passwd
    | passphrase | secret | credentials? | api_?key | secretstr | optional\[.*
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words in a password's place that are none: placeholders, types, states."""

_VARIABLE = lazy_pattern(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


def is_password(value: str) -> bool:
    """Return whether a value that stands where a password belongs can be one."""
    if len(set(value)) < 2 or _NO_PASSWORD.fullmatch(value):
        return False
    return _VARIABLE.fullmatch(value) is None  # `OPENAI_API_KEY` is the name of one


def looks_random(value: str, at_least: int = 16) -> bool:
    """Return whether a value has digits and letters: words of a text are called tokens, too."""
    if len(value) < at_least or not is_password(value):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _fits_password(match: re.Match[str]) -> bool:
    return is_password(match["secret"])


def _is_whole_and_mixed(match: re.Match[str]) -> bool:
    return whole_token(match) and any(c.isdigit() for c in match[0].partition("-")[2] or match[0])


def _web_token(match: re.Match[str]) -> bool:
    """Return whether the first part of a JSON web token is a JWT's header."""
    head = match[0].split(".")[0]
    try:
        return "alg" in json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError, TypeError):
        return False


def _format(name: str, prefixes: str, rest: str, fits: Fits = whole_token) -> SecretKind:
    """The keys that begin with one of `prefixes`, as they continue."""
    starts = tuple(prefixes.split())
    pattern = lazy_pattern(f"(?:{'|'.join(map(re.escape, starts))}){rest}")
    return SecretKind(name, starts, pattern, at_hints=True, is_word=True, fits=fits)


def _look(
    name: str, hints: str, pattern: str, fits: Fits | None = whole_token, *, any_case: bool = False
) -> SecretKind:
    """A kind that is recognized by more than its beginning."""
    return SecretKind(name, tuple(hints.split()), lazy_pattern(pattern), any_case=any_case, fits=fits)


def _at(name: str, hints: str, pattern: str, fits: Fits = whole_token) -> SecretKind:
    """The same, if its matches begin with one of the hints."""
    return SecretKind(name, tuple(hints.split()), lazy_pattern(pattern), at_hints=True, fits=fits)


KEY_FORMATS = (
    # models: docs.anthropic.com "Admin API", platform.openai.com "API keys", huggingface.co/docs "Security tokens",
    # openrouter.ai/docs, console.groq.com, docs.x.ai, replicate.com/docs, langfuse.com, docs.smith.langchain.com
    _format("Anthropic API key", "sk-ant-", r"[\w-]{8,}"),
    _format("OpenAI API key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{20,}"),
    _look("OpenAI API key", "T3BlbkFJ", r"(?<![\w-])sk-[\w-]{0,200}?T3BlbkFJ\w{20}"),
    _format("OpenRouter API key", "sk-or-", r"v\d-[0-9a-f]{40,}"),
    _format("Langfuse key", "sk-lf- pk-lf-", r"[0-9a-f-]{30,}"),
    _format("API key", "sk-", r"[A-Za-z0-9]{32,}", _is_whole_and_mixed),
    _format("Groq API key", "gsk_", r"[A-Za-z0-9]{40,}"),
    _format("xAI API key", "xai-", r"[A-Za-z0-9]{60,}"),
    _format("Perplexity API key", "pplx-", r"[A-Za-z0-9]{40,}"),
    _format("Hugging Face token", "hf_ api_org_", r"[A-Za-z0-9]{30,}"),
    _format("Replicate token", "r8_", r"[A-Za-z0-9]{37}"),
    _format("LangSmith API key", "lsv2_pt_ lsv2_sk_", r"[0-9a-f]{32}_[0-9a-f]{10}"),
    _format("Pinecone API key", "pcsk_", r"\w{40,}"),
    _format("Tavily API key", "tvly-", r"[A-Za-z0-9-]{28,}"),
    # clouds: docs.aws.amazon.com "IAM identifiers" and "Bedrock API keys", learn.microsoft.com "Credential types",
    # cloud.google.com/docs/authentication, docs.databricks.com, docs.digitalocean.com
    _format("AWS access key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}"),
    _format("AWS session token", "IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz", r"[A-Za-z0-9+/=]{60,}"),
    _format("AWS Bedrock API key", "ABSK bedrock-api-key-", r"[A-Za-z0-9+/=]{60,}"),
    _look(
        "AWS secret key",
        "AKIA ASIA",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}[\"',;:\s]{1,6}(?P<secret>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
        None,
    ),
    _look(
        "Azure storage key",
        "AccountKey= SharedAccessKey= SharedSecretIssuer=",
        r"(?:AccountKey|SharedAccessKey|SharedSecretIssuer)=[A-Za-z0-9+/]{40,90}={0,2}",
    ),
    _look("Azure client secret", "Q~", r"(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,34}(?![\w~-])"),
    _format("Google API key", "AIza", r"[\w-]{35}"),
    _format("Google access token", "ya29.", r"[\w-]{20,}"),
    _format("Google client secret", "GOCSPX-", r"[\w-]{28}"),
    _format("Google refresh token", "1//0", r"[\w-]{40,}"),
    _format("Databricks token", "dapi", r"[0-9a-f]{32}(?:-\d)?"),
    _format("Databricks token", "dose dkea", r"[0-9a-f]{32}"),
    _format("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),
    # code: github.blog "Behind GitHub's new authentication token formats", docs.gitlab.com/security/tokens,
    # support.atlassian.com "API tokens", warehouse.pypa.io "Token scanning", docs.npmjs.com, docs.docker.com
    _format("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9_]{36,}"),
    _format("GitHub token", "github_pat_", r"\w{22,}"),
    _format("GitLab token", "glpat- gldt- glft- glsoat- glrt- glffct- glptt- glagent- gloas- glimt-", r"[\w-]{20,}"),
    _format("GitLab token", "glcbt-", r"(?:[0-9a-fA-F]{1,5}_)?[\w-]{20,}"),
    _format("GitLab token", "GR1348941", r"[\w-]{20,}"),
    _format("Atlassian token", "ATATT3 ATCTT3 ATBB", r"[\w=-]{28,}"),
    _format("PyPI token", "pypi-AgE", r"[\w-]{50,}"),
    _format("npm token", "npm_", r"[A-Za-z0-9]{36}"),
    _look("npm token", ":_authToken", r":_authToken\s{0,2}=\s{0,2}[\"']?(?P<secret>[^\s\"'$]{8,})", _fits_password),
    _look(
        "npm token",
        ":_auth :_password",
        r":_(?:auth|password)\s{0,2}=\s{0,2}[\"']?(?P<secret>[^\s\"'$]{4,})",
        _fits_password,
    ),
    _format("RubyGems key", "rubygems_", r"[0-9a-f]{48}"),
    _format("crates.io token", "cio", r"[A-Za-z0-9]{32}", _is_whole_and_mixed),
    _format("Docker Hub token", "dckr_pat_ dckr_oat_", r"[\w-]{27,}"),
    _format("Artifactory key", "AKCp", r"[A-Za-z0-9]{60,}"),
    _format("CircleCI token", "CCIPAT_ CCIPRJ_", r"\w{40,}"),
    # data and services: docs.stripe.com/keys, developer.squareup.com "Access tokens", api.slack.com "Token types",
    # twilio.com/docs/iam/api-keys, docs.sendgrid.com, mailchimp.com/developer, core.telegram.org/bots,
    # discord.com/developers, shopify.dev, developers.notion.com, and the list of GitHub's secret scanning
    _format("Stripe key", "sk_live_ rk_live_ sk_test_ rk_test_ whsec_", r"[A-Za-z0-9]{16,}"),
    _format("Square secret", "sq0csp- sq0atp- sq0idp-", r"[\w-]{22,}"),
    _format("Square access token", "EAAA", r"[\w-]{56,}", _is_whole_and_mixed),
    _format("Slack token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xox", r"[\w.-]*\d[\w.-]*", whole_token),
    _format("Slack token", "xapp-", r"\d-\w+-\d+-\w+"),
    _look(
        "Slack webhook", "hooks.slack.com/", r"https?://hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{20,}"
    ),
    _look("Teams webhook", ".webhook.office.com/", r"https?://[\w-]+\.webhook\.office\.com/webhookb2/[\w@/-]{40,}"),
    _look("Discord webhook", "/api/webhooks/", r"https?://[\w.]*discord(?:app)?\.com/api/webhooks/\d+/[\w-]{40,}"),
    _at(
        "Discord token",
        "MT Mj Mz ND NT Nj Nz OD OT",  # the digits that an id begins with, in Base64
        r"(?<![\w.-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}(?![\w.-])",
        _is_whole_and_mixed,
    ),
    _at("Twilio key", "SK", r"(?<![A-Za-z0-9])SK[0-9a-f]{32}"),
    _format("SendGrid API key", "SG.", r"[\w-]{22}\.[\w-]{43}"),
    _look("Mailchimp API key", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    _format("Mailgun key", "key-", r"[0-9a-f]{32}"),
    _format("Brevo key", "xkeysib-", r"[0-9a-f]{64}-\w{16}"),
    _look("Telegram bot token", ":AA", r"\d{8,10}:AA[\w-]{33}"),
    _format("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}"),
    _format("Notion token", "ntn_", r"[A-Za-z0-9]{40,}"),
    _format("Linear API key", "lin_api_", r"[A-Za-z0-9]{32,}"),
    _format("Figma token", "figd_", r"[\w-]{38,}"),
    _at("Airtable token", "pat", r"(?<![\w-])pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _format("Dropbox token", "sl.", r"[\w-]{100,}"),
    _format("New Relic key", "NRAK- NRJS- NRII-", r"[\w-]{19,}"),
    _format("Grafana token", "glsa_ glc_", r"[\w+/=-]{32,}"),
    _format("Sentry token", "sntrys_ sntryu_", r"[\w+/=]{40,}"),
    _format("PostHog key", "phx_", r"\w{40,}"),
    _format("Postman key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    _format("Vault token", "hvs. hvb. hvr.", r"[\w-]{20,}"),
    _format("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", r"(?:[\w-]+\.)?[A-Za-z0-9]{40,}"),
    _format("Pulumi token", "pul-", r"[0-9a-f]{40}"),
    _look("Terraform token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}"),
    _format("Supabase key", "sbp_ sb_secret_", r"[\w-]{30,}"),
    _format("PlanetScale token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w.-]{32,}"),
    _format("Neon API key", "napi_", r"[a-z0-9]{40,}"),
    _format("Netlify token", "nfp_", r"[A-Za-z0-9]{36,}"),
    _format("Prefect key", "pnu_ pnb_", r"[A-Za-z0-9]{36}"),
    _format("Tailscale key", "tskey-", r"[a-z]+-[\w-]{20,}"),
    _format("1Password token", "ops_eyJ", r"[\w=-]{100,}"),
    _format("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    _look("Mapbox token", "sk.eyJ", r"(?<![\w.])sk\.eyJ[\w-]{40,}\.[\w-]{20,}"),
    _format("Weights & Biases key", "wandb_v1_", r"\w{40,}"),
    _format("Kaggle token", "KGAT_", r"[0-9a-f]{32}"),
)

_BASE64_PEM = "LS0tLS1CRUdJTi"
"""`-----BEGIN ` in Base64, as in the configuration of Kubernetes."""

WRITTEN = (
    _look("Fly token", "FlyV1", r"FlyV1 fm\d_[\w+/=,-]{20,}"),
    _at(
        "JSON web token",
        "eyJ",
        r"(?<![\w-])eyJ[\w-]{8,4000}={0,2}\.[\w-]{8,16000}={0,2}\.[\w-]*",
        _web_token,
    ),
    SecretKind(
        "private key",
        ("PRIVATE KEY",),
        # with its end, or as far as it looks like one: the words alone stand in many a text about keys
        lazy_pattern(
            r"-----BEGIN[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:(?:[^-]|-(?!----)){20,}"
            r"-----END[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
            r"|(?:\s|\\[nr]|\d{1,6}[\t→:|])*[A-Za-z0-9+/=]{40}[A-Za-z0-9+/=\s→|\\]*)"
        ),
    ),
    _look(
        "private key",
        _BASE64_PEM,
        # …BEGIN PRIVATE KEY, RSA PRIVATE KEY, EC PRIVATE KEY, OPENSSH PRIVATE KEY, ENCRYPTED PRIVATE KEY
        _BASE64_PEM + r"(?:BQUklWQVRFIEtFWS|BSU0EgUFJJVkFURSBLRVkt|BFQyBQUklWQVRFIEtFWS"
        r"|BPUEVOU1NIIFBSSVZBVEUgS0VZ|BFTkNSWVBURUQgUFJJVkFURSBLRVkt)"
        r"[A-Za-z0-9+/=]{20,}",
    ),
    _look(
        "private key",
        "Private-Lines:",
        r"Private-Lines: \d+\s(?P<secret>[A-Za-z0-9+/=\s]{20,}?)(?=\nPrivate-MAC|\Z)",
        None,
    ),
    _at(
        "password in an address",
        "://",
        r"://[^\s:/?#@\"'<>\\]{0,100}:(?P<secret>(?!\d{1,5}/)[^\s?#\"'<>\\]{1,200})@(?!sha\d+:)(?=[\w\[.-])",
        _fits_password,
    ),
    _at(
        "key in an address",
        "://",
        r"://(?P<secret>[\w-]{20,200})@(?=[\w\[.-])",
        lambda match: looks_random(match["secret"]),
    ),
    _look(
        "password in an address",
        "@tcp( @unix( @localhost @127.0.0.1",
        r"(?<![\w/.:@-])[\w.-]{1,60}:(?P<secret>[^\s:@/\"'<>\\]{3,200})@(?:tcp\(|unix\(|localhost|127\.0\.0\.1)",
        _fits_password,
    ),
    _look(
        "password in a connection string",
        "password= pwd=",
        r"(?im)(?<![A-Za-z_])(?:password|pwd)=(?P<secret>[^;&\s\"'(){]{1,200}|\{[^}\n]{1,200}\})(?=[;&])",
        lambda match: is_password(match["secret"].strip("{}")),
        any_case=True,
    ),
    _look(
        "password in a connection string",
        "password=",
        r"(?m)^(?=.*\b(?:host|dbname)=[^\s,()]+(?:\s|$)).*?\bpassword=(?P<secret>[^;&,\s\"'()]{1,200})(?![^\s\"'])",
        _fits_password,
    ),
    _look(
        "password in a password file",
        ":5432: :*:",
        r"(?m)(?<![^\s\"'])[\w.*-]{1,100}:(?:\d{2,5}|\*):[^:\s]{1,60}:[^:\s]{1,60}:(?P<secret>[^:\s\"']{1,200})(?![^\s\"'])",
        _fits_password,
    ),
    _look(
        "password in a password file",
        "machine",
        r"\bmachine\s+\S+\s+login\s+\S+\s+password\s+(?P<secret>\S+)",
        _fits_password,
    ),
)

LOOKS = (*KEY_FORMATS, *WRITTEN)
"""All kinds that need no name beside them."""

_PASSWORD_IN_ADDRESS = lazy_pattern(r"\w[\w+.-]*://[^/\s@]*:[^/\s@]+@")


def holds_model_key(text: str) -> bool:
    """Return whether `text` has a key for Claude in it."""
    return any(KEY_FORMATS[0].matches(SearchedText(text)))


def has_password_in_address(value: str) -> bool:
    """Return whether a value is an address with a password in it."""
    return _PASSWORD_IN_ADDRESS.match(value) is not None
