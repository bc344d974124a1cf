"""`%config Claude` and `c.Claude`: the defaults of the magic's options."""

from __future__ import annotations

from typing import Any, cast

from traitlets import Bool, Enum, Float, Int, TraitError, Unicode, validate
from traitlets.config import Configurable

from cellwright.kernel.magic_line import EFFORTS, FORMATS, MODES, OPTIONS, Format, MagicOptions


class Claude(Configurable):
    """Defaults for `%%claude`; an option in the cell goes before them, None leaves it to the settings files."""

    model = Unicode(None, allow_none=True, help="The model.").tag(config=True)
    mode = Enum(MODES, None, allow_none=True, help="The permission mode.").tag(config=True)
    max_turns = Int(None, allow_none=True, help="At most this many requests to the model in a run.").tag(config=True)
    budget = Float(None, allow_none=True, help="Stop before a run costs more US dollars.").tag(config=True)
    effort = Enum(EFFORTS, None, allow_none=True, help="How hard the model thinks.").tag(config=True)
    quiet = Bool(False, help="Show the answer alone.").tag(config=True)
    format = Enum(FORMATS, "text", help="How a run is shown.").tag(config=True)

    @validate("model", "max_turns", "budget")
    def _as_the_option_reads_it(self, proposal: dict[str, Any]) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        read = OPTIONS[name.replace("_", "-")].read
        if value is None or read is None:
            return value
        try:
            return read(str(value))
        except ValueError as error:
            raise TraitError(f"{name}: {value!r} {error}.") from None

    def options(self) -> MagicOptions:
        """The options of a cell that gives none."""
        return MagicOptions(
            model=self.model,
            mode=self.mode,
            max_turns=self.max_turns,
            budget=self.budget,
            effort=self.effort,
            quiet=self.quiet,
            format=cast("Format", self.format),
        )
