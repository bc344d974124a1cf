"""The bus of one run: each event is published once, and everyone who shows, keeps or counts it has subscribed."""

from __future__ import annotations

from collections.abc import Iterable

from cellwright.events import Emit, Event


class EventBus:
    """Hands each event to every subscriber, in order. On the agent's thread; subscribers must not block.

    What a subscriber raises is raised when all have been told: one that fails leaves no gap in what the others show.
    """

    def __init__(self, subscribers: Iterable[Emit] = ()) -> None:
        self._subscribers = list(subscribers)

    def subscribe(self, subscriber: Emit) -> None:
        """Tell `subscriber`, after those who are there, of every event from now on."""
        self._subscribers.append(subscriber)

    def publish(self, event: Event) -> None:
        """Tell everyone of `event`."""
        failure: BaseException | None = None
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except BaseException as error:  # noqa: BLE001  raised below: how a run ends is the loop's to say
                failure = failure or error
        if failure is not None:
            raise failure
