"""Parsing a project's texts: nothing of it is kept, and a text in pieces has the tree that it has whole."""

from __future__ import annotations

import gc
import threading
import tracemalloc

from tree_sitter import Parser

from cellwright.codebase.facts import facts_of
from cellwright.codebase.grammars import CPP, PIECE_BYTES, PYTHON, language_of, parse
from cellwright.codebase.references import python_names


def test_what_was_parsed_is_not_kept_in_memory() -> None:
    text = b"class Server:\n    def stop(self):\n        return self.stop()\n\n" * 900
    tracemalloc.start()
    try:
        for find in (lambda text: facts_of(PYTHON, text), lambda text: python_names(text, "Server")):
            find(text + b"# once")
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for again in range(6):
                find(text + b"# again" * again)
            gc.collect()  # other threads of the tests allocate, too: six copies that are kept would be far above that
            assert tracemalloc.get_traced_memory()[0] - before < 3 * len(text)
    finally:
        tracemalloc.stop()


def test_a_text_parsed_in_pieces_beside_other_threads_has_the_tree_that_it_has_parsed_whole() -> None:
    method = b'    def stop(self):\n        """Stop\n\n        it, "now".\n        """\n        return self.stop()\n\n'
    texts = [
        (PYTHON, b"class Server:\n" + b"#" * shift + b"\n" + method * (2 * PIECE_BYTES // len(method)))
        for shift in range(0, len(method), 7)
    ]
    texts += [
        (PYTHON, texts[0][1] + b"def broken(:\n"),
        (CPP, b"/* " + b"x" * PIECE_BYTES + b"\n */ int last() {}\n"),
        (PYTHON, b"x = [" + b"f(1), " * PIECE_BYTES + b"]"),
    ]
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        for grammar, text in texts:
            whole = Parser(language_of(grammar)).parse(text).root_node
            assert str(parse(grammar, text).root_node) == str(whole)
    finally:
        done.set()
        other.join()
