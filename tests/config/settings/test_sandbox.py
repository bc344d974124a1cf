"""`sandbox.*`: what counts of each file, where its paths lead, and what is said to be unused."""

from __future__ import annotations

import pytest

from cellwright.permissions.sandboxing import NO_SANDBOX


@pytest.fixture
def sandbox_of(place):
    """The sandbox's settings, with each file's `sandbox` as given; `trusted`: the user trusts the folder."""

    def load(*, trusted=False, **files):
        for where, content in files.items():
            place.say(where, sandbox=content)
        if trusted:
            place.trust()
        return place.load().sandbox

    return load


def test_nothing_set_is_the_default(sandbox_of):
    settings = sandbox_of()
    assert (settings.rules, settings.required) == (NO_SANDBOX, False)


def test_paths_start_at_the_project_or_at_the_users_folder(place, sandbox_of):
    rules = sandbox_of(
        trusted=True,
        user={"filesystem": {"allowWrite": ["./a", "b/../c", "/abs/d/", "//e"], "denyRead": ["~/secrets"]}},
        project={"filesystem": {"allowWrite": ["out"], "denyWrite": ["./src"]}},
        local={"filesystem": {"allowRead": ["../beside"]}},
        managed={"filesystem": {"denyRead": ["/srv"]}},
    ).rules
    home, project = place.home, place.project
    own = home / ".claude"
    assert rules.allow_write == (str(own / "a"), str(own / "c"), "/abs/d", "/e", str(project / "out"))
    assert rules.deny_write == (str(project / "src"),)
    assert rules.deny_read == (str(home / "secrets"), "/srv")
    assert rules.allow_read == (str(home / "beside"),)


def test_before_trust_a_folder_can_only_restrict(sandbox_of):
    project = {
        "enabled": True,
        "excludedCommands": ["curl *"],
        "filesystem": {"allowWrite": ["/"], "allowRead": ["/"], "denyRead": ["keys"], "disabled": True},
        "network": {"allowedDomains": ["*"], "deniedDomains": ["a.example"]},
    }
    before = sandbox_of(project=project).rules
    assert (before.enabled, before.auto_allow) == (True, False)
    assert (before.excluded, before.allow_write, before.allow_read, before.allowed_hosts) == ((), (), (), ())
    assert len(before.deny_read) == len(before.denied_hosts) == 1
    after = sandbox_of(project=project, trusted=True).rules
    assert (after.enabled, after.auto_allow) == (True, True)
    assert (after.excluded, after.allow_write, after.allowed_hosts) == (("curl *",), ("/",), ("*",))
    assert after.allow_read == ("/",)


def test_files_are_set_free_by_the_user_alone_and_then_nothing_is_unasked(place, sandbox_of):
    disabled = {"filesystem": {"disabled": True}}
    folders = sandbox_of(user={"enabled": True}, project=disabled, trusted=True).rules
    assert (folders.allow_write, folders.auto_allow) == ((), True)
    assert any("`sandbox.filesystem.disabled`" in each for each in place.load().notices)
    users = sandbox_of(user={"enabled": True, **disabled}).rules
    assert (users.allow_write, users.allow_read, users.auto_allow) == (("/",), ("/",), False)
    assert sandbox_of(user=disabled).rules.allow_write == ()


@pytest.mark.parametrize("key", ["autoAllowBashIfSandboxed", "allowUnsandboxedCommands"])
def test_false_in_any_file_holds(sandbox_of, key):
    field = {"autoAllowBashIfSandboxed": "auto_allow", "allowUnsandboxedCommands": "allow_unsandboxed"}[key]
    assert getattr(sandbox_of(user={key: True}).rules, field) is True
    assert getattr(sandbox_of(project={key: False}, local={key: True}).rules, field) is False


def test_the_administrator_goes_before_everybody(sandbox_of):
    managed = {
        "enabled": True,
        "failIfUnavailable": True,
        "filesystem": {"allowManagedReadPathsOnly": True, "allowRead": ["/data"]},
        "network": {"allowManagedDomainsOnly": True, "allowedDomains": ["ours.example"]},
    }
    user = {
        "enabled": False,
        "failIfUnavailable": False,
        "filesystem": {"allowRead": ["/etc"]},
        "network": {"allowedDomains": ["theirs.example"]},
    }
    settings = sandbox_of(managed=managed, user=user)
    assert (settings.required, settings.managed_hosts_only) == (True, True)
    rules = settings.rules
    assert (rules.enabled, rules.allow_read) == (True, ("/data",))
    assert (rules.allowed_hosts, rules.ask_hosts) == (("ours.example",), False)


def test_a_denied_host_that_cannot_be_read_leaves_none_allowed(place, sandbox_of):
    network = {"allowedDomains": ["a.example"], "deniedDomains": ["https://b.example/x", "c.example"]}
    rules = sandbox_of(user={"network": network}).rules
    assert (rules.allowed_hosts, rules.denied_hosts) == ((), ("c.example",))
    assert any("every host" in each for each in place.load().notices)


def test_each_setting_that_is_not_used_is_named_once(place, sandbox_of):
    sandbox_of(
        user={
            "bwrapPath": "/x/bwrap",
            "credentials": {"files": [{"path": "~/.netrc", "mode": "deny"}], "envVars": [{"name": "A"}]},
            "network": {"allowLocalBinding": True, "tlsTerminate": {"caCertPath": "a", "caKeyPath": "b"}},
            "somethingNew": 1,
        }
    )
    named = [notice.split("`")[1] for notice in place.load().notices]
    assert sorted(named) == [
        "sandbox.bwrapPath",
        "sandbox.credentials",
        "sandbox.network.allowLocalBinding",
        "sandbox.network.tlsTerminate",
        "sandbox.somethingNew",
    ]


def test_a_pattern_in_a_path_is_told(place, sandbox_of):
    assert sandbox_of(user={"filesystem": {"denyRead": ["**/.env"]}}).rules.deny_read
    assert any("`Read(**/.env)`" in each for each in place.load().notices)


def test_a_run_that_takes_the_sandbox_away_does_not_loosen_itself(place):
    place.say("user", sandbox={"enabled": True, "filesystem": {"denyRead": ["/srv"]}})
    in_force = place.in_force()
    in_force.run_begins()
    place.say("user", sandbox={"filesystem": {"allowWrite": ["/"]}})
    in_force.run_ends()
    rules = in_force.settings.sandbox.rules
    assert (rules.enabled, rules.deny_read, rules.allow_write) == (True, ("/srv",), ())
    assert len(in_force.quarantined) == 3
