"""The nodes of each language's syntax tree that matter to the index, as queries of tree-sitter.

Captures: `callee` is the name of what is called, `import` a whole import, `constant` the name of a variable of a module
or class, `branch` what nests, `arm` what only adds a way (`elif`, `case`), `bool` a chain of `and` and `or`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from cellwright.codebase.parsing.grammars import (
    CPP,
    GO,
    JAVA,
    JAVASCRIPT,
    PYTHON,
    RUST,
    TSX,
    TYPESCRIPT,
    C,
    Grammar,
    language_of,
)
from cellwright.codebase.parsing.symbol_outline import RULES

if TYPE_CHECKING:
    from tree_sitter import Query

_PYTHON = """
(call function: [(identifier) @callee (attribute attribute: (identifier) @callee)])
[(import_statement) (import_from_statement) (future_import_statement)] @import
(module (expression_statement (assignment left: (identifier) @constant)))
(class_definition body: (block (expression_statement (assignment left: (identifier) @constant))))
[(if_statement) (for_statement) (while_statement) (except_clause) (conditional_expression) (match_statement)] @branch
[(elif_clause) (case_clause) (for_in_clause) (if_clause)] @arm
(boolean_operator) @bool
"""
_SCRIPT = """
(call_expression function: [(identifier) @callee (member_expression property: (property_identifier) @callee)])
(new_expression constructor: [(identifier) @callee (member_expression property: (property_identifier) @callee)])
[(import_statement) (export_statement source: (string))] @import
(call_expression function: [(identifier) (import)] @_require arguments: (arguments . (string))
  (#match? @_require "^(require|import)$")) @import
(program (lexical_declaration (variable_declarator name: (identifier) @constant)))
(program (variable_declaration (variable_declarator name: (identifier) @constant)))
(program (export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @constant))))
[(if_statement) (for_statement) (for_in_statement) (while_statement) (do_statement) (catch_clause) (ternary_expression)
 (switch_statement)] @branch
(switch_case) @arm
(binary_expression operator: ["&&" "||" "??"]) @bool
"""
_GO = """
(call_expression function: [(identifier) @callee (selector_expression field: (field_identifier) @callee)])
(import_spec) @import
(source_file (const_declaration (const_spec name: (identifier) @constant)))
(source_file (var_declaration (var_spec name: (identifier) @constant)))
[(if_statement) (for_statement) (expression_switch_statement) (type_switch_statement) (select_statement)] @branch
[(expression_case) (type_case) (communication_case)] @arm
(binary_expression operator: ["&&" "||"]) @bool
"""
_JAVA = """
(method_invocation name: (identifier) @callee)
(object_creation_expression type: (type_identifier) @callee)
(import_declaration) @import
(field_declaration declarator: (variable_declarator name: (identifier) @constant))
[(if_statement) (for_statement) (enhanced_for_statement) (while_statement) (do_statement) (catch_clause)
 (ternary_expression) (switch_expression)] @branch
(switch_label) @arm
(binary_expression operator: ["&&" "||"]) @bool
"""
_RUST = """
(call_expression function: [
  (identifier) @callee
  (field_expression field: (field_identifier) @callee)
  (scoped_identifier name: (identifier) @callee)
  (generic_function function: [(identifier) @callee (scoped_identifier name: (identifier) @callee)])])
(macro_invocation macro: (identifier) @callee)
[(use_declaration) (extern_crate_declaration)] @import
[(const_item name: (identifier) @constant) (static_item name: (identifier) @constant)]
[(if_expression) (for_expression) (while_expression) (loop_expression) (match_expression)] @branch
(match_arm) @arm
(binary_expression operator: ["&&" "||"]) @bool
"""
_C = """
(call_expression function: [(identifier) @callee (field_expression field: (field_identifier) @callee)])
(preproc_include) @import
[(preproc_def name: (identifier) @constant) (preproc_function_def name: (identifier) @constant)]
[(if_statement) (for_statement) (while_statement) (do_statement) (conditional_expression) (switch_statement)] @branch
(case_statement) @arm
(binary_expression operator: ["&&" "||"]) @bool
"""
_CPP = (
    _C
    + """
(call_expression function: (qualified_identifier name: (identifier) @callee))
[(catch_clause) (for_range_loop)] @branch
"""
)

_QUERIES = {
    PYTHON: _PYTHON,
    JAVASCRIPT: _SCRIPT,
    TYPESCRIPT: _SCRIPT,
    TSX: _SCRIPT,
    GO: _GO,
    JAVA: _JAVA,
    RUST: _RUST,
    C: _C,
    CPP: _CPP,
}


@functools.cache
def facts_query(grammar: Grammar) -> Query:
    """The query that finds all of it in one go; `def` are the nodes that may define something."""
    from tree_sitter import Query  # native code

    rules, language = RULES[grammar], language_of(grammar)
    # the rules of a language may name nodes of its dialects
    kinds = [kind for kind in sorted({*rules.kinds, *rules.containers}) if language.id_for_node_kind(kind, True)]
    return Query(language, f"[{' '.join(f'({kind})' for kind in kinds)}] @def\n{_QUERIES[grammar]}")
