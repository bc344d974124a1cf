"""An administrator's traits: what they mean, and that none of them can be misread into allowing more."""

import json

import pytest
from traitlets import TraitError
from traitlets.config import Application, Config
from traitlets.config.loader import DeferredConfigList, DeferredConfigString

from cellwright.config.settings.layers import VARIABLE
from cellwright.config.settings.settings import load_settings
from cellwright.server.policy import FEATURES, AdminPolicy, PolicyTraits, ProxyTraits
from cellwright.server.proxy.request_rules import ProxyLimits


class App(PolicyTraits, ProxyTraits, Application):
    pass


def said(**traits: object) -> App:
    return App(config=Config({"App": traits}))


def test_without_a_word_everything_is_the_users_choice():
    policy = said().policy()
    assert policy == AdminPolicy()
    assert policy.environment() == {}
    assert set(policy.to_json()["choices"].values()) == {"user-choice"}
    assert said().proxy_limits(policy) == ProxyLimits()


@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_has_its_trait_and_a_wrong_word_is_refused(feature):
    with pytest.raises(TraitError):
        said(**{f"{feature}_policy": "off"})
    other = {"redact_secrets": "force-on"}.get(feature, "force-off")
    policy = said(**{f"{feature}_policy": other}).policy()
    assert policy.to_json()["choices"][feature] == other
    assert policy.kernel_settings() != {}


@pytest.mark.parametrize(
    "name", ["bash", "python", "web_tools", "mcp", "bypass_permissions", "hooks", "own_credentials"]
)
def test_nobody_is_made_to_let_claude_do_more(name):
    with pytest.raises(TraitError, match="force-on"):
        said(**{f"{name}_policy": "force-on"})


def test_secrets_cannot_be_let_through_by_an_administrator():
    with pytest.raises(TraitError, match="protects"):
        said(redact_secrets_policy="force-off")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (DeferredConfigString("claude-haiku-*"), ("claude-haiku-*",)),
        (DeferredConfigString("claude-haiku-*, opus"), ("claude-haiku-*", "opus")),
        (DeferredConfigList(["claude-haiku-*"]), ("claude-haiku-*",)),
        (["haiku"], ("haiku",)),
        ("haiku", ("haiku",)),
        ([], ()),
    ],
)
def test_lists_are_read_from_files_and_command_lines(text, names):
    assert said(allowed_models=text).policy().allowed_models == names


@pytest.mark.parametrize("wrong", [3, [3], {"a": 1}])
def test_a_list_of_another_form_is_refused(wrong):
    with pytest.raises(TraitError):
        said(allowed_models=wrong)


@pytest.mark.parametrize("wrong", [["ask"], [], ["default", "none"]])
def test_modes_must_be_some_that_there_are(wrong):
    with pytest.raises(TraitError, match="allowed_modes"):
        said(allowed_modes=wrong)


@pytest.mark.parametrize("trait", ["budget_usd_per_day", "budget_usd_per_kernel"])
def test_a_budget_is_no_negative_number(trait):
    with pytest.raises(TraitError):
        said(**{trait: -1.0})
    assert getattr(said(**{trait: 0.0}).proxy_limits(said(**{trait: 0.0}).policy()), trait) == 0.0


def test_a_policy_arrives_in_a_kernels_settings_as_it_was_said(tmp_path):
    app = said(
        bash_policy="force-off",
        mcp_policy="force-off",
        web_tools_policy="force-off",
        python_policy="force-off",
        bypass_permissions_policy="force-off",
        inline_completion_policy="force-off",
        redact_secrets_policy="force-on",
        checkpoints_policy="force-on",
        hooks_policy="force-off",
        own_credentials_policy="force-off",
        allowed_models=["haiku"],
        allowed_modes=["default", "plan"],
        allowed_tools=["Read"],
        allowed_mcp_servers=["github"],
    )
    environ = {"HOME": str(tmp_path), **app.policy().environment()}
    settings = load_settings(tmp_path, environ, managed=tmp_path / "none")
    assert settings.notices == ()
    assert settings.denied_tools == (
        *("Bash", "TaskStop", "Python", "Branch", "NotebookRun", "NotebookVerify", "WebFetch", "WebSearch", "mcp__*"),
    )
    assert settings.bypass_disabled
    assert not settings.inline_completion
    assert settings.redact_secrets
    assert settings.file_checkpointing
    assert settings.allow_managed_hooks_only
    assert settings.allowed_models == ("haiku",)
    assert set(settings.allowed_modes or ()) == {"default", "plan"}
    assert settings.allowed_tools == ("Read",)
    assert settings.allowed_mcp_servers == ("github",)
    assert settings.merged.value("cellwright", "ownCredentials") is False


def test_empty_lists_stay_lists(tmp_path):
    policy = said(allowed_models=[], allowed_tools=[]).policy()
    assert json.loads(policy.environment()[VARIABLE])["cellwright"] == {"allowedModels": [], "allowedTools": []}
    settings = load_settings(tmp_path, {"HOME": str(tmp_path), **policy.environment()}, managed=tmp_path / "none")
    assert (settings.allowed_models, settings.allowed_tools) == ((), ())


def test_what_concerns_requests_is_in_the_proxys_limits():
    limits = {"max_tokens": 100, "max_request_bytes": 5_000, "requests_per_minute": 3, "concurrent_requests": 2}
    budgets = {"budget_usd_per_day": 2.0, "budget_usd_per_kernel": 1.0}
    traits = {**budgets, **{f"proxy_{name}": value for name, value in limits.items()}}
    app = said(web_tools_policy="force-off", mcp_policy="force-off", allowed_models=["haiku"], **traits)
    expected = ProxyLimits(allowed_models=("haiku",), web_tools=False, mcp=False, **limits, **budgets)
    assert app.proxy_limits(app.policy()) == expected
