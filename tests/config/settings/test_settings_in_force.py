"""Settings that change while a conversation goes on: taken over at the next prompt, never loosened by its own run."""

from __future__ import annotations

import json
import os

import pytest

from cellwright.config.settings.layers import Layer
from cellwright.config.trust.trust_store import trust_file

HOOK = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh"}]}]}


def allowed(in_force):
    return [str(rule) for rule in in_force.settings.allow]


def denied(in_force):
    return [str(rule) for rule in in_force.settings.deny]


@pytest.fixture
def running(place):
    """A conversation that has been asked all it has to ask."""

    def start(**users):
        place.say("user", **{"permissions": {"allow": ["Bash(make)"], "deny": ["Bash(rm *)"]}, **users})
        in_force = place.in_force()
        assert in_force.question() is None
        return in_force

    return start


def rewritten(file, text):
    """Put `text` into `file` so that its size and its time of change stay what they were, as a liar would."""
    before = file.stat()
    file.write_text(text, "utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_changed_file_counts_at_the_next_prompt(running, place):
    in_force = running()
    settings = in_force.settings
    in_force.refresh()
    assert in_force.settings is settings
    place.write("user", {"allow": ["Bash(make)", "Bash(ls)"], "defaultMode": "acceptEdits"})
    in_force.refresh()
    assert allowed(in_force) == ["Bash(make)", "Bash(ls)"]
    assert (in_force.settings.default_mode, denied(in_force)) == ("acceptEdits", [])
    assert in_force.question() is None


def test_a_change_that_hides_its_time_and_size_is_seen(running, place):
    in_force = running()
    text = place.file("user").read_text("utf-8")
    rewritten(place.file("user"), text.replace("Bash(make)", "Bash(nuke)"))
    in_force.refresh()
    assert allowed(in_force) == ["Bash(nuke)"]


def test_files_that_appear_and_disappear_are_seen(running, place):
    in_force = running()
    place.write("project", {"deny": ["Python"]})
    in_force.refresh()
    assert denied(in_force) == ["Bash(rm *)", "Python"]
    place.file("project").unlink()
    in_force.refresh()
    assert denied(in_force) == ["Bash(rm *)"]


def test_model_and_effort_of_files_hold_until_the_next_session(running, place):
    in_force = running(model="opus", effortLevel="low")
    place.say("user", model="haiku", effortLevel="max", language="Deutsch")
    in_force.refresh(session_has_begun=True)
    settings = in_force.settings
    assert (settings.model, settings.effort, settings.language) == ("opus", "low", "Deutsch")
    place.say("user", model="haiku", effortLevel="max", language="English")
    in_force.refresh()
    assert (in_force.settings.model, in_force.settings.effort) == ("haiku", "max")


def test_a_model_that_the_user_sets_in_a_cell_counts_at_once(running, place):
    in_force = running(model="opus")
    layer = Layer(scope="config", label="c.Claude", root=in_force.cwd, folder=in_force.cwd)
    place.given.append((layer, {"model": "haiku"}))
    in_force.refresh(session_has_begun=True)
    assert in_force.settings.model == "haiku"
    place.given.clear()
    in_force.refresh(session_has_begun=True)
    assert in_force.settings.model == "opus"


LOOSER = [
    ({"permissions": {"allow": ["Bash(make)", "Bash"], "deny": ["Bash(rm *)"]}}, "new: allow rule Bash"),
    ({"permissions": {"allow": ["Bash(make)"]}}, "gone: deny rule Bash(rm *)"),
    ({"permissions": {"deny": ["Bash(rm *)"], "defaultMode": "bypassPermissions"}}, "new: permission mode bypass"),
    ({"permissions": {"deny": ["Bash(rm *)"], "additionalDirectories": ["/"]}}, "write in: /"),
    ({"permissions": {"deny": ["Bash(rm *)"]}, "env": {"A": "1"}}, "new: environment variable A"),
    ({"permissions": {"deny": ["Bash(rm *)"]}, "apiKeyHelper": "evil"}, "API key: evil"),
    (
        {
            "permissions": {"deny": ["Bash(rm *)"]},
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "evil"}]}]},
        },
        "evil",
    ),
    ({"permissions": {"deny": ["Bash(rm *)"]}, "disableAllHooks": True}, "disableAllHooks"),
]


@pytest.mark.parametrize("where", ["user", "local"])
@pytest.mark.parametrize(("content", "named"), LOOSER, ids=[named for _, named in LOOSER])
def test_what_a_run_loosens_waits_for_the_user(place, where, content, named):
    before = {"permissions": {"allow": ["Bash(make)"], "deny": ["Bash(rm *)"], "defaultMode": "default"}}
    place.say(where, **before, hooks=HOOK)
    place.trust()
    in_force = place.in_force()
    settings = in_force.settings
    in_force.run_begins()
    place.say(where, **content)
    in_force.run_ends()
    asked = ""
    while (question := in_force.question()) is not None:
        asked += question.detail
        in_force.answer(question, yes=False)
    assert named.removeprefix("new: ") in asked
    now = in_force.settings
    assert set(allowed(in_force)) <= {str(rule) for rule in settings.allow}
    assert denied(in_force) == ["Bash(rm *)"]
    assert (now.default_mode, now.env, now.api_key_helper) == ("default", {}, None)
    assert (now.hooks, now.disable_all_hooks, now.additional_directories) == (settings.hooks, False, ())


def test_what_the_user_confirms_is_taken_over(running, place):
    in_force = running()
    in_force.run_begins()
    place.write("user", {"allow": ["Bash"]})
    in_force.run_ends()
    assert (allowed(in_force), denied(in_force)) == ([], ["Bash(rm *)"])
    in_force.answer(in_force.question(), yes=True)
    assert (allowed(in_force), denied(in_force)) == (["Bash"], [])
    assert in_force.question() is None


def test_a_no_is_not_asked_for_again_but_a_further_change_is(running, place):
    in_force = running()
    in_force.run_begins()
    place.write("user", {"allow": ["Bash"], "deny": ["Bash(rm *)"]})
    in_force.run_ends()
    in_force.answer(in_force.question(), yes=False)
    in_force.run_begins()
    place.write("user", {"allow": ["Bash", "Python"], "deny": ["Bash(rm *)"]})
    in_force.run_ends()
    question = in_force.question()
    assert "Python" in question.detail
    assert "Bash" not in question.detail
    assert allowed(in_force) == []


def test_what_tightens_counts_at_once(running, place):
    in_force = running()
    in_force.run_begins()
    place.write(
        "user",
        {"deny": ["Bash(rm *)", "Python"], "ask": ["Edit"], "defaultMode": "plan"}
        | {"blockWritesOutsideWorkingDirectories": True},
    )
    in_force.run_ends()
    settings = in_force.settings
    assert denied(in_force) == ["Bash(rm *)", "Python"]
    assert ([str(rule) for rule in settings.ask], settings.default_mode) == (["Edit"], "plan")
    assert settings.block_writes_outside
    assert allowed(in_force) == []


def test_a_file_that_a_run_breaks_keeps_its_restrictions(running, place):
    in_force = running()
    in_force.run_begins()
    place.write_text("user", "{")
    in_force.run_ends()
    assert denied(in_force) == ["Bash(rm *)"]
    assert "gone: deny rule" in in_force.question().detail


def test_what_the_user_changes_between_runs_is_the_users(running, place):
    in_force = running()
    in_force.run_begins()
    in_force.run_ends()
    place.write("user", {"allow": ["Bash"]})
    in_force.refresh()
    assert in_force.question() is None
    assert allowed(in_force) == ["Bash"]


def test_what_a_run_left_running_may_still_be_writing(running, place):
    in_force = running()
    in_force.run_begins()
    in_force.run_ends(goes_on=True)
    place.write("user", {"allow": ["Bash"], "deny": ["Bash(rm *)"]})
    in_force.refresh()
    assert "allow rule Bash" in in_force.question().detail
    assert allowed(in_force) == []


@pytest.mark.parametrize("ended", [False, True])
def test_what_the_user_says_in_the_page_counts_whatever_goes_on(running, place, ended):
    in_force = running()
    layer = Layer(scope="config", label="c.Claude", root=place.project, folder=place.project)
    in_force.run_begins()
    if ended:  # and has left something running
        in_force.run_ends(goes_on=True)
    place.write("user", {"allow": ["Bash"], "deny": ["Bash(rm *)"]})
    with in_force.users_change():
        place.given.append((layer, {"permissions": {"defaultMode": "acceptEdits"}}))
    if not ended:
        assert in_force.settings.default_mode == "acceptEdits"
        in_force.run_ends()
    in_force.refresh()
    assert (in_force.settings.default_mode, allowed(in_force)) == ("acceptEdits", [])
    assert "acceptEdits" not in in_force.question().detail


def test_a_change_that_a_run_sees_is_the_users_or_waits(running, place):
    in_force = running()
    users = True
    in_force.run_begins(lambda: users)
    place.write("user", {"allow": ["Bash(make)", "Bash(ls)"], "deny": ["Bash(rm *)"]})
    in_force.look()
    assert allowed(in_force) == ["Bash(make)", "Bash(ls)"]
    users = False
    place.write("user", {"allow": ["Bash"], "deny": ["WebFetch"]})
    in_force.look()
    assert (allowed(in_force), denied(in_force)) == ([], ["Bash(rm *)", "WebFetch"])
    in_force.run_ends()
    assert [each.partition(":")[0] for each in in_force.quarantined] == ["new", "gone"]


def test_looking_at_the_settings_during_a_run_takes_nothing_over(running, place):
    in_force = running()
    in_force.run_begins()
    place.write("user", {"allow": ["Bash"], "deny": ["Bash(rm *)"]})
    in_force.refresh()
    in_force.run_ends()
    in_force.refresh()
    assert allowed(in_force) == []
    assert "allow rule Bash" in in_force.question().detail


def test_a_rule_that_the_user_allowed_during_the_run_is_the_users(running, place):
    in_force = running()
    in_force.run_begins()
    in_force.save_rules(["Bash(npm test)"])
    in_force.run_ends()
    assert in_force.question() is None
    assert allowed(in_force) == ["Bash(make)", "Bash(npm test)"]
    in_force.run_begins()
    place.write("local", {"allow": ["Bash(npm test)", "Bash"]})
    in_force.run_ends()
    assert "allow rule Bash" in in_force.question().detail
    assert allowed(in_force) == ["Bash(make)", "Bash(npm test)"]


def test_an_answer_about_trust_that_a_run_writes_itself_is_none(place):
    place.say("project", hooks=HOOK, env={"A": "1"})
    in_force = place.in_force()
    in_force.answer(in_force.question(), yes=False)
    in_force.run_begins()
    place.trust()  # not through this conversation's question
    in_force.run_ends()
    assert (in_force.settings.hooks, in_force.settings.env) == ((), {})
    assert "./guard.sh" in in_force.question().detail


def test_a_claude_code_state_that_a_run_writes_itself_is_no_trust(place):
    place.say("project", hooks=HOOK)
    in_force = place.in_force()
    in_force.answer(in_force.question(), yes=False)
    in_force.run_begins()
    state = {"projects": {str(place.project): {"hasTrustDialogAccepted": True}}}
    (place.home / ".claude.json").write_text(json.dumps(state), "utf-8")
    place.say("project", hooks=HOOK, model="opus")
    in_force.run_ends()
    assert in_force.settings.hooks == ()


def test_a_config_that_code_of_the_run_sets_waits(running, place):
    in_force = running()
    layer = Layer(scope="config", label="c.Claude", root=place.project, folder=place.project)
    in_force.run_begins()
    place.given.append((layer, {"permissions": {"defaultMode": "bypassPermissions", "allow": ["Python"]}}))
    in_force.run_ends()
    assert (in_force.settings.default_mode, allowed(in_force)) == ("default", ["Bash(make)"])
    assert "permission mode bypassPermissions" in in_force.question().detail


def test_a_restart_does_not_help_what_a_run_wrote(running, place):
    in_force = running()
    in_force.run_begins()
    place.say("user", permissions={"allow": ["Bash"]}, env={"TOKEN_OF": "s3cr3t"})
    in_force.run_ends()
    again = place.in_force()
    assert (allowed(again), denied(again), again.settings.env) == ([], ["Bash(rm *)"], {})
    assert "s3cr3t" not in trust_file().read_text("utf-8")
    again.answer(again.question(), yes=False)
    again = place.in_force()
    again.answer(again.question(), yes=True)
    for each in (again, place.in_force()):
        assert (allowed(each), denied(each), each.settings.env) == (["Bash"], [], {"TOKEN_OF": "s3cr3t"})
        assert each.question() is None


def test_what_is_held_back_in_one_project_does_not_hold_in_another(place, tmp_path):
    place.say("project", permissions={"deny": ["Bash"]})
    in_force = place.in_force()
    in_force.run_begins()
    place.say("project", permissions={})
    in_force.run_ends()
    assert denied(place.in_force()) == ["Bash"]
    assert denied(place.in_force(tmp_path)) == []


@pytest.mark.parametrize(
    "held", [7, {}, {"new": 7, "gone": []}, {"new": [7], "gone": {"x": 7, "y": {"scope": "user"}}}]
)
def test_a_damaged_record_holds_nothing(running, place, held):
    place.trust()
    trust_file().parent.mkdir(parents=True, exist_ok=True)
    trust_file().write_text(json.dumps({"held_back": held}), "utf-8")
    assert allowed(running()) == ["Bash(make)"]


def test_a_new_session_asks_again_about_what_was_refused(place):
    place.say("project", hooks=HOOK)
    in_force = place.in_force()
    in_force.answer(in_force.question(), yes=False)
    assert in_force.question() is None
    in_force.ask_again()
    assert in_force.question() is not None


def test_a_variable_that_is_set_later_counts_at_the_next_prompt(running, place):
    in_force = running()
    place.environ["ANTHROPIC_MODEL"] = "haiku"
    in_force.refresh()
    assert in_force.settings.model == "haiku"
