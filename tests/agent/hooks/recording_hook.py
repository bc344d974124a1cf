"""A hook that remembers what it was told, and the calls and answers that scenes of hooks share."""

from cellwright.agent.tool import ToolAccess
from cellwright.events import Notice
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, use

SHELL = ToolAccess("shell", "command")


class RecordingHook:
    """A hook that remembers what it was told and answers `answer`."""

    def __init__(self, answer=None):
        self.answer = answer
        self.inputs = []

    async def __call__(self, hook_input, tool_use_id, context):
        self.inputs.append(hook_input)
        return self.answer

    @property
    def events(self):
        return [told["hook_event_name"] for told in self.inputs]


def specific(event, **fields):
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def texts(message):
    return [block["text"] for block in message["content"] if block["type"] == "text"]


def notices(played):
    return [event.message for event in played.of(Notice)]


def asking(*rules, **options):
    return PermissionPolicy(mode="default", **options)


CALL = [use("change", name="x"), say("Done.")]
