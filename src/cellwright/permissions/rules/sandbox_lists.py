"""The sandbox by rules about files and pages, as in Claude Code: where commands may write, which hosts they reach.

A rule for `Edit` or `Read` that names one file or one folder with all below it goes into the lists of paths. One with
wildcards does not: a sandbox knows no patterns, and a list that is wider than its rule would grant what nobody granted.
Deny rules with wildcards are kept by the policy itself (`Confinement.hides`, `Confinement.protects`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from cellwright.permissions.rules.domain_pattern import AddressProblem, read_host
from cellwright.permissions.rules.path_pattern import ANY_DEPTH, PatternProblem, compile_pattern
from cellwright.permissions.rules.rule import EDITORS, READERS, Rule
from cellwright.permissions.sandboxing import SandboxRules


def with_rules(
    sandbox: SandboxRules, *, deny: Iterable[Rule], ask: Iterable[Rule], allow: Iterable[Rule], cwd: str
) -> SandboxRules:
    """The sandbox's lists with what the rules add to them; `cwd` is what relative paths start from."""
    deny, allow = tuple(deny), tuple(allow)
    return replace(
        sandbox,
        allow_write=_joined(sandbox.allow_write, _paths(allow, {"Edit"}, cwd, grants=True)),
        deny_write=_joined(sandbox.deny_write, _paths(deny, EDITORS, cwd, grants=False)),
        deny_read=_joined(sandbox.deny_read, _paths(deny, READERS, cwd, grants=False)),
        allowed_hosts=_joined(sandbox.allowed_hosts, _hosts(allow)),
        denied_hosts=_joined(sandbox.denied_hosts, _hosts(deny)),
        asked_hosts=_joined(sandbox.asked_hosts, _hosts(ask)),
    )


def _joined(listed: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*listed, *more)))


def _paths(rules: Iterable[Rule], tools: Iterable[str], cwd: str, *, grants: bool) -> Iterator[str]:
    for rule in rules:
        if rule.tool not in tools or rule.specifier is None:
            continue
        try:
            # also a restriction is wanted as it is spelled here, not in the folded spelling it is compared in
            pattern = compile_pattern(rule.specifier, source_root=rule.source_root or cwd, cwd=cwd, restricts=False)
        except PatternProblem:  # told where the rule itself is read
            continue
        if pattern.parts == (ANY_DEPTH,):
            yield from pattern.bases
        elif not pattern.parts:
            # the rule grants one file, and a list all that is below a folder
            yield from (base for base in pattern.bases if not grants or os.path.isfile(base))  # noqa: PTH113


def _hosts(rules: Iterable[Rule]) -> Iterator[str]:
    for rule in rules:
        key, _, domain = (rule.specifier or "").partition(":")
        if not rule.is_about_hosts or key.strip().lower() != "domain":
            continue
        try:
            read_host(domain)
        except AddressProblem:
            continue
        yield domain.strip()
