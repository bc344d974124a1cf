"""Parsing that can be stopped gives back all that it took."""

from __future__ import annotations

import tracemalloc

import tree_sitter_bash
from tree_sitter import Language, Parser

from cellwright.permissions.shell.syntax_trees import parse_until

BASH = Language(tree_sitter_bash.language())
TEXT = b"for f in *.csv; do cat <<E | sort > $f\n$f {\nE\ndone\n" * 200


def test_the_tree_is_the_one_that_the_parser_makes_of_the_whole() -> None:
    for source in (TEXT, TEXT[:-3], b"", b"echo 'caf\xc3\xa9'", b"((" * 90):
        tree = parse_until(BASH, source, lambda: False)
        assert tree is not None
        assert str(tree.root_node) == str(Parser(BASH).parse(source).root_node)


def test_a_parse_can_be_stopped_and_the_next_one_is_whole() -> None:
    asked = iter([False, False, True])
    assert parse_until(BASH, TEXT, lambda: next(asked)) is None
    assert next(asked, "it went on") == "it went on"
    tree = parse_until(BASH, TEXT, lambda: False)
    assert tree is not None
    assert not tree.root_node.has_error


def test_no_copy_of_what_was_parsed_stays() -> None:
    parse_until(BASH, TEXT, lambda: False)
    tracemalloc.start()
    try:
        for number in range(40):
            parse_until(BASH, b"# %d\n" % number + TEXT, lambda: False)
            parse_until(BASH, b"a@" * 1_000 + b"%d" % number, lambda: False)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * len(TEXT)
