"""What the start of a process's conversation leaves behind."""

import json
import subprocess
import sys

STARTED = """
import gc, json
from cellwright.conversation.process_conversation import starting_up
with starting_up():
    imported = [[] for _ in range(300_000)]
young = sum(len(gc.get_objects(generation)) for generation in (0, 1))
print(json.dumps([gc.isenabled(), gc.get_freeze_count(), young < len(imported)]))
"""


def test_what_a_start_made_is_not_looked_through_by_the_next_collections() -> None:
    # in a process of its own: this one's objects are frozen
    shown = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True).stdout
    assert json.loads(shown) == [True, 0, True]
