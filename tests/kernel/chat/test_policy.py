"""The models, modes and tools that the panel offers under an administrator's policy."""

import json

import pytest

from cellwright.config.settings.layers import LABEL, VARIABLE
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.panel_state import Choices
from cellwright.kernel.magic.options import Claude


@pytest.fixture
def under(tmp_path, own_place):
    made = []

    def choices(**own) -> tuple[Choices, Conversation]:
        environ = {"HOME": str(own_place), VARIABLE: json.dumps({"cellwright": own})}
        conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
        made.append(conversation)
        return Choices(conversation, Claude()), conversation

    yield choices
    for conversation in made:
        conversation.close()


def test_forbidden_models_are_not_offered_and_not_taken(under):
    choices, _ = under(allowedModels=["haiku", "claude-own-model"])
    assert [each["id"] for each in choices.models] == ["claude-haiku-5-5", "claude-own-model"]
    assert choices.model == "claude-haiku-5-5"
    with pytest.raises(CellwrightError, match=LABEL):
        choices.set({"model": "claude-opus-5-5"})
    assert choices.model == "claude-haiku-5-5"


def test_forbidden_modes_are_not_offered_and_not_taken(under):
    choices, _ = under(allowedModes=["default", "plan"])
    assert [each["id"] for each in choices.modes] == ["default", "plan"]
    with pytest.raises(CellwrightError, match=LABEL):
        choices.set({"mode": "acceptEdits"})
    choices.set({"mode": "plan"})
    assert choices.mode == "plan"


def test_forbidden_tools_are_not_in_the_conversation(under):
    _, free = under()
    _, bound = under(deniedTools=["Bash", "Web*"])
    names = [{tool.name for tool in each.tools.of(RunOptions())} for each in (free, bound)]
    assert names[0] - names[1] == {"Bash", "WebFetch", "WebSearch"}
