"""A container that a folder chooses waits for trust, and so does a file of the folder that the user's own settings name."""

from __future__ import annotations

import json


def image_of(in_force):
    found = in_force.settings.sandbox.container.container
    return "" if found is None else found.image


def test_a_folders_container_waits_for_trust(place):
    place.say("project", sandbox={"container": "python:3.12"})
    in_force = place.in_force()
    assert image_of(in_force) == ""
    assert "run in: python" in in_force.question().detail
    in_force.answer(in_force.question(), yes=True)
    assert image_of(in_force) == "python:3.12"


def test_the_users_own_needs_none(place):
    place.say("user", sandbox={"container": "python:3.12"})
    in_force = place.in_force()
    assert image_of(in_force) == "python:3.12"
    assert in_force.question() is None


def test_a_folders_file_is_the_folders_word_whoever_names_it(place):
    file = place.project / "devcontainer.json"
    script = place.project / "setup.sh"
    file.write_text(json.dumps({"image": "one", "postCreateCommand": ["sh", "setup.sh"]}), "utf-8")
    script.write_text("true\n", "utf-8")
    place.say("user", sandbox={"container": {"devcontainer": str(file)}})
    in_force = place.in_force()
    assert image_of(in_force) == ""
    shown = in_force.question().detail
    assert "image one" in shown
    assert "sh setup.sh" in shown
    in_force.answer(in_force.question(), yes=True)
    assert image_of(in_force) == "one"
    for changed, content in ((file, json.dumps({"image": "two"})), (script, "rm -rf x\n")):
        before = changed.read_text("utf-8")
        changed.write_text(content, "utf-8")
        assert image_of(place.in_force()) == "", changed.name
        changed.write_text(before, "utf-8")
    assert image_of(place.in_force()) == "one"
