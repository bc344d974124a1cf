"""macOS's sandbox: a profile in its own language, which `sandbox-exec` lays on a command and all that it starts.

The later rule counts, so what is hidden and protected comes last, whether it exists or not. It could not be tried where
this was written: the canary of `mechanisms.py` decides whether it is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from cellwright.sandbox.resolved_bounds import Bounds

PROGRAM = "/usr/bin/sandbox-exec"

_ALWAYS = """(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow sysctl-write (sysctl-name "kern.sysv.semmni"))
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow mach-lookup (global-name "com.apple.system.notification_center"))
(allow mach-lookup (global-name "com.apple.system.logger"))
(allow file-read-metadata)
(allow file-ioctl (literal "/dev/null") (literal "/dev/zero"))
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-read-data (literal "/") (literal "/dev/null") (literal "/dev/zero"))
(allow file-read-data (literal "/dev/random") (literal "/dev/urandom"))
"""
_CERTIFICATES = '(allow mach-lookup (global-name "com.apple.trustd.agent") (global-name "com.apple.trustd"))\n'


def arguments(bounds: Bounds, proxy_port: int | None) -> list[str]:
    """Build what comes before a command's own arguments."""
    return [PROGRAM, "-p", profile(bounds, proxy_port)]


def profile(bounds: Bounds, proxy_port: int | None) -> str:
    """The profile that says what `bounds` say; named hosts are reached by the proxy on `proxy_port`."""
    write = (*bounds.write, *bounds.temporary)
    # neither what is protected nor a folder on the way to it may be moved away
    unmoved = set()
    for path in (*bounds.protected, *bounds.hidden):
        for top in bounds.write:
            part = path
            while part.startswith(top + "/"):
                unmoved.add(part)
                part = part.rpartition("/")[0]
    rules = [
        _ALWAYS,
        _rule("allow file-read* file-map-executable", (*bounds.read, *bounds.data, *write)),
        _rule("allow file-write*", write),
        _rule("deny file-read* file-write*", bounds.hidden),
        _rule("deny file-write*", bounds.protected),
        _rule("deny file-write-unlink", sorted(unmoved), kind="literal"),
    ]
    if bounds.network != "none":
        rules.append(_CERTIFICATES)
    if bounds.network == "any":
        rules.append("(allow network-outbound (remote ip))\n(allow system-socket)\n")
        rules.append('(allow network-outbound (literal "/private/var/run/mDNSResponder"))\n')
    elif bounds.network == "hosts" and proxy_port is not None:
        rules.append(f'(allow network-outbound (remote ip "localhost:{proxy_port}"))\n')
    return "".join(rules)


def _rule(action: str, paths: Iterable[str], kind: str = "subpath") -> str:
    named = " ".join(f"({kind} {_string(path)})" for path in paths)
    return f"({action} {named})\n" if named else ""


def _string(text: str) -> str:
    """A string of the profile's language, which has not all escapes of JSON: what is no quote stands as it is."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
