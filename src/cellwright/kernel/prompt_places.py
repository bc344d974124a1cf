"""Which of several equal prompts one is: by the cell it stands in, so that a cell that is run again is the same one."""

from __future__ import annotations

from collections import Counter


class PromptPlaces:
    """The places of this kernel's prompts, in the order in which they were first run.

    A cell that asks the same several times (a loop) has a place for each. Where cells have no ids, each run is a place.
    """

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[str, int]]] = {}
        self._execution = ""
        self._asked: Counter[str] = Counter()

    def nth(self, key: str, *, cell_id: str | None, execution: str) -> int:
        """Which of the prompts with `key` this one is, from 1; `execution` names the request that runs the cell."""
        if execution != self._execution:
            self._execution = execution
            self._asked.clear()
        self._asked[key] += 1
        place = (cell_id or execution, self._asked[key])
        places = self._places.setdefault(key, [])
        if place not in places:
            places.append(place)
        return places.index(place) + 1
