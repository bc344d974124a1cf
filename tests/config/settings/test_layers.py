"""The policy of a Jupyter server in the settings of its kernels: it takes away, and nothing else."""

import json
from pathlib import Path

import pytest

from cellwright.config.settings.layers import LABEL, VARIABLE
from cellwright.config.settings.settings import Settings, load_settings, nearest_mode, tool_is_allowed
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.resolve_options import model_of, policy_of
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.tools.built_in_tools import ToolEnvironment
from cellwright.conversation.tools.toolset import all_tools
from cellwright.errors import CellwrightError
from row_tables import for_each_row


@pytest.fixture
def under(own_place: Path, tmp_path: Path):
    """The settings of a folder under a policy; `user` and `machine` are the user's and the machine's own files."""

    def load(policy: object, *, user: object = None, machine: object = None) -> Settings:
        (own_place / ".claude").mkdir(exist_ok=True)
        managed = tmp_path / "managed"
        managed.mkdir(exist_ok=True)
        (own_place / ".claude" / "settings.json").write_text(json.dumps(user or {}))
        (managed / "managed-settings.json").write_text(json.dumps(machine or {}))
        text = policy if isinstance(policy, str) else json.dumps(policy)
        return load_settings(tmp_path, {"HOME": str(own_place), VARIABLE: text}, managed=managed)

    return load


def own(**values: object) -> dict[str, object]:
    return {"cellwright": values}


def test_models_that_are_not_allowed_are_refused_and_it_is_said_by_whom(under):
    settings = under(own(allowedModels=["claude-haiku-*"]))
    with pytest.raises(CellwrightError, match=LABEL):
        model_of(RunOptions(model="claude-opus-5-5"), settings, {})
    with pytest.raises(CellwrightError, match=r"claude-haiku-\*"):
        model_of(RunOptions(), under(own(allowedModels=["claude-haiku-*"]), user={"model": "opus"}), {})
    assert model_of(RunOptions(model="haiku"), settings, {}) == "claude-haiku-5-5"


def test_where_nobody_names_a_model_an_allowed_one_is_taken(under):
    assert model_of(RunOptions(), under(own(allowedModels=["haiku"])), {}) == "claude-haiku-5-5"
    assert model_of(RunOptions(), under(own(allowedModels=["claude-other"])), {}) == "claude-other"
    with pytest.raises(CellwrightError):
        model_of(RunOptions(), under(own(allowedModels=[])), {})


def test_modes_that_are_not_allowed_are_refused_and_not_fallen_into(under, tmp_path):
    settings = under(own(allowedModes=["plan", "default"]), user={"permissions": {"defaultMode": "acceptEdits"}})
    with pytest.raises(CellwrightError, match=LABEL):
        policy_of(RunOptions(mode="acceptEdits"), settings, tmp_path, {})
    policy = policy_of(RunOptions(), settings, tmp_path, {})
    assert (policy.mode, policy.loosest) == ("default", "default")
    assert policy_of(RunOptions(mode="plan"), settings, tmp_path, {}).mode == "plan"


@pytest.mark.parametrize(
    ("allowed", "wanted", "mode"),
    [
        (["plan"], "bypassPermissions", "plan"),
        (["acceptEdits"], "default", "acceptEdits"),
        (["plan", "acceptEdits"], "default", "plan"),
        (None, "acceptEdits", "acceptEdits"),
    ],
)
def test_the_nearest_allowed_mode(under, allowed, wanted, mode):
    assert nearest_mode(wanted, under({} if allowed is None else own(allowedModes=allowed))) == mode


def test_tools_that_are_forbidden_are_not_there(under, tmp_path):
    def names(settings: Settings) -> set[str]:
        tools, _ = all_tools(ToolEnvironment(cwd=tmp_path, settings=settings), ())
        return {tool.name for tool in tools}

    everything = names(under({}))
    assert everything - names(under(own(deniedTools=["Bash", "Web*"]))) == {"Bash", "WebFetch", "WebSearch"}
    assert names(under(own(allowedTools=["Read", "G*"]))) == {"Read", "Grep", "Glob", "Git"} & everything


def test_mcp_servers_are_allowed_by_name(under):
    settings = under(own(allowedMcpServers=["github"]))
    assert tool_is_allowed("mcp__github__search", settings)
    assert not tool_is_allowed("mcp__evil__github__search", settings)
    assert not tool_is_allowed("mcp__github__evil__search", settings)  # of a server "github__evil"
    assert not tool_is_allowed("mcp__evil", settings)
    assert tool_is_allowed("Read", settings)


def test_keys_of_users_settings_can_be_forbidden(under):
    user = {"env": {"ANTHROPIC_BASE_URL": "https://mine", "ANTHROPIC_MODEL": "m", "A": "1"}, "apiKeyHelper": "echo key"}
    settings = under(own(ownCredentials=False), user=user)
    assert settings.env == {"ANTHROPIC_MODEL": "m", "A": "1"}
    assert settings.api_key_helper is None
    assert under({}, user=user).api_key_helper == "echo key"


def test_nobody_gains_by_setting_the_variable(under):
    wish = {
        "permissions": {"defaultMode": "bypassPermissions", "allow": ["Bash"]},
        "apiKeyHelper": "evil",
        "env": {"A": "1"},
        "hooks": {"PreToolUse": [{"hooks": []}]},
        "model": "claude-opus-5-5",
        "cellwright": {"redactSecrets": False, "inlineCompletion": True, "ownCredentials": True},
    }
    assert under(wish) == under({})


def test_the_machines_own_files_go_before_it(under):
    settings = under(own(allowedModels=["opus"]), machine=own(allowedModels=["haiku"]))
    assert settings.allowed_models == ("haiku",)


def test_users_files_cannot_say_what_is_the_administrators(under):
    user = own(allowedModels=["opus"], deniedTools=["Read"], ownCredentials=False)
    settings = under(own(allowedModels=["haiku"]), user=user)
    assert settings.allowed_models == ("haiku",)
    assert settings.denied_tools == ()


@for_each_row("text", ["{", "[]", "3", '"text"', "null", "[" * 100_000])
def test_what_cannot_be_read_allows_nothing_loose(under, text):
    settings = under(text)
    assert settings.bypass_disabled
    assert settings.loosest_mode == "default"
    assert any(VARIABLE in notice for notice in settings.notices)


@pytest.mark.parametrize("said", [{"permissions": 3}, {"cellwright": []}, own(allowedTools=3)])
def test_what_has_another_form_is_told_and_breaks_nothing(under, said):
    assert isinstance(under(said), Settings)


@pytest.mark.parametrize("instead", [None, "{}", '{"cellwright": {"allowedModels": ["opus"]}}'])
def test_what_code_does_to_its_environment_changes_no_policy(own_place, tmp_path, instead):
    environ = {"HOME": str(own_place), VARIABLE: json.dumps(own(allowedModels=["haiku"], deniedTools=["Bash"]))}
    in_force = SettingsInForce(tmp_path, environ, managed=tmp_path / "none")
    in_force.run_begins()
    del environ[VARIABLE]
    if instead is not None:
        environ[VARIABLE] = instead
    in_force.run_ends()
    environ["ANTHROPIC_MODEL"] = "another"  # so that it is read again
    in_force.refresh()
    assert in_force.settings.model == "another"
    assert in_force.settings.allowed_models == ("haiku",)
    assert in_force.settings.denied_tools == ("Bash",)
