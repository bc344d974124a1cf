"""`--schema NAME`: the type an answer has to be, found in the user's namespace, and where its value goes."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.errors import CellwrightError, ErrorCode

if TYPE_CHECKING:
    from cellwright.agent.structured_output.answer import AnswerType
    from cellwright.conversation.run_options import Result
    from cellwright.kernel.magic.line import MagicOptions

_OF_ANNOTATIONS = (
    ast.Expression,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Tuple,
    ast.List,
    ast.BinOp,
    ast.BitOr,
    ast.UnaryOp,
    ast.USub,
    ast.Constant,
    ast.Load,
)


def check_annotation(text: str) -> str:
    """`text`, if it reads as a name or an annotation; nothing is evaluated. Raises ValueError that says what it is not."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    named = tree is not None and isinstance(tree.body, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp)
    if tree is None or not named or not all(isinstance(node, _OF_ANNOTATIONS) for node in ast.walk(tree)):
        raise ValueError("is not the name of a model, nor an annotation such as list[Model]")
    return text


def named_type(text: str, namespace: Mapping[str, Any]) -> AnswerType:
    """The type that `text` (a name or annotation) stands for in the user's `namespace`.

    Raises `CellwrightError` INVALID_PARAMETERS where a name is not there, or is nothing that an answer can be.
    """
    from cellwright.agent.structured_output.answer import answer_type  # most cells have no schema

    known = {**vars(builtins), **namespace}
    code = compile(text, "<--schema>", "eval")
    try:
        # an annotation of the user's own cell: names, subscripts and `|` are all that it holds
        given = eval(code, {"__builtins__": {}}, known)
    except NameError as error:
        message = (
            f"--schema {text}: there is no {error.name} in this kernel. Run the cell that defines it. Nothing was sent."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message) from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"--schema {text}: {type(error).__name__}: {error}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message) from None
    return answer_type(given, text)


def keep_result(result: Result, options: MagicOptions, namespace: dict[str, Any]) -> None:
    """Put the result where the options want it: with a type its value alone, shown where no name was given for it."""
    typed = options.schema is not None
    if options.out is not None:
        namespace[options.out] = result.value if typed else result
    # in the other formats the answer is there as JSON already; of the background it would land in another cell
    elif typed and options.format == "text" and not options.background:
        from IPython.display import display

        display(result.value)
