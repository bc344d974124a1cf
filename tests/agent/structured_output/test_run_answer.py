"""The text of a run: messages that continue one another are one answer."""

from cellwright.agent.structured_output.run_answer import MAX_CONTINUATIONS, MAX_PAUSES, RunAnswer


def says(text: str) -> list[dict[str, str]]:
    return [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": text}]


def test_a_message_replaces_the_one_before_it_unless_that_was_cut_off() -> None:
    answer = RunAnswer(None)
    answer.take(says("Let me look."))
    answer.take(says("Tide is "))
    assert answer.text == "Tide is "
    assert answer.cut_off(continues=True)
    answer.take(says("high."))
    assert answer.text == "Tide is high."
    answer.take(says("Done."))
    assert answer.text == "Done."


def test_a_run_is_given_up_after_so_many_pauses_and_cuts() -> None:
    answer = RunAnswer(None)
    assert [answer.pause() for _ in range(MAX_PAUSES + 1)] == [True] * MAX_PAUSES + [False]
    cuts = [answer.cut_off(continues=False) for _ in range(MAX_CONTINUATIONS + 1)]
    assert cuts == [True] * MAX_CONTINUATIONS + [False]
