"""A check of the doctor, and its finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warning", "problem"]
"""`warning`: something does less than it could, or only perhaps; `problem`: something does not work."""


class Finding(Struct, frozen=True):
    """`found` is what there is, `advice` what to do about it: empty where all is well."""

    name: str
    status: Status
    found: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "status": self.status, "found": self.found, "advice": self.advice}


class Check(Struct, frozen=True):
    """One check, by the name of what it looks at. `run` may block; `online`: it asks somebody on the network."""

    name: str
    run: Callable[[], Finding]
    online: bool = False
