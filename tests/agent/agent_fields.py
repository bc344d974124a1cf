"""The fields of `AgentSetup` from the names of what its records hold, for scenes that set one or two of them."""

from dataclasses import fields
from typing import Any

from cellwright.agent.agent_setup import FinalAnswer, ModelSettings
from cellwright.agent.spending.run_spending import RunLimits

_RECORDS = {"model_settings": ModelSettings, "limits": RunLimits}


def agent_fields(**options: Any) -> dict[str, Any]:
    """`options`, of which those that are fields of the agent's records are put into these."""
    for name, record in _RECORDS.items():
        given = {each.name: options.pop(each.name) for each in fields(record) if each.name in options}
        if given:
            options[name] = record(**given)
    if "answer_type" in options:
        options["final_answer"] = FinalAnswer(type=options.pop("answer_type"))
    return options
