"""The events of a branch as outputs of a notebook, as many as are kept of one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cellwright.kernel.branches.messages import Cleared, Event, Failed, Shown, Stream

Output = dict[str, Any]

MOST_TEXT = 1_000_000
"""Characters that are printed by one call."""
MOST_DISPLAYED = 32_000_000
"""Bytes of the displays of one call, pictures included."""
MOST_DISPLAYS = 1_000


class BranchOutputs:
    """Collects them; `on_output` gets each as it comes."""

    def __init__(self, on_output: Callable[[Output], None] | None) -> None:
        self._on_output = on_output
        self._outputs: list[Output] = []
        self._ids: list[str] = []
        self._text = self._displayed = self._displays = 0
        self._clear_before_next = False

    def add(self, event: Event) -> bool:
        """Take `event` in; False if that is more than one call may give."""
        match event:
            case Stream(name, text):
                self._text += len(text)
                self._put_text(name, text)
            case Shown():
                self._displayed += len(msgspec.json.encode([event.data, event.metadata]))
                self._displays += 1
                self._put_display(event)
            case Failed(ename, evalue, traceback):
                self._text += sum(map(len, traceback)) + len(evalue)
                self._put({"output_type": "error", "ename": ename, "evalue": evalue, "traceback": traceback})
            case Cleared(wait):
                self._clear_before_next = wait
                if not wait:
                    self._clear()
                self._report({"output_type": "clear_output", "wait": wait})
            case _:
                pass
        return self._text <= MOST_TEXT and self._displayed <= MOST_DISPLAYED and self._displays <= MOST_DISPLAYS

    def finished(self) -> list[Output]:
        """The outputs as a notebook keeps them."""
        return self._outputs

    def _put_text(self, name: str, text: str) -> None:
        self._before_next()
        last = self._outputs[-1] if self._outputs else {}
        if last.get("name") == name:
            last["text"] += text
        else:
            self._keep({"output_type": "stream", "name": name, "text": text})
        self._report({"output_type": "stream", "name": name, "text": text})

    def _put_display(self, shown: Shown) -> None:
        output: Output = {"output_type": "display_data", "data": shown.data, "metadata": shown.metadata}
        if shown.result:
            output |= {"output_type": "execute_result", "execution_count": None}
        told = {**output, "transient": {"display_id": shown.display_id}} if shown.display_id else output
        if not shown.update:
            self._before_next()
            self._keep(output, shown.display_id)
            self._report(told)
            return
        for index, display_id in enumerate(self._ids):
            if display_id == shown.display_id:
                self._outputs[index] = output
        self._report({**told, "output_type": "update_display_data"})

    def _put(self, output: Output) -> None:
        self._before_next()
        self._keep(output)
        self._report(output)

    def _keep(self, output: Output, display_id: str = "") -> None:
        self._outputs.append(output)
        self._ids.append(display_id)

    def _before_next(self) -> None:
        if self._clear_before_next:
            self._clear_before_next = False
            self._clear()

    def _clear(self) -> None:
        self._outputs.clear()
        self._ids.clear()

    def _report(self, output: Output) -> None:
        if self._on_output is not None:
            self._on_output(output)
