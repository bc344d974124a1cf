"""Images and PDFs as tests need them: real ones."""

from __future__ import annotations

import io
from typing import Any

import pypdf
from PIL import Image
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject


def noise(mode: str, width: int, height: int) -> Image.Image:
    """An image that does not compress, the same each time."""
    grey = Image.effect_noise((width, height), 100)
    return grey.convert(mode) if mode != "RGB" else Image.merge("RGB", (grey, grey.rotate(180), grey.transpose(0)))


def picture(kind: str, width: int = 8, height: int = 6, mode: str = "RGB", **options: Any) -> bytes:
    """An image file; `noisy` for one that stays large."""
    image = noise(mode, width, height) if options.pop("noisy", False) else Image.new(mode, (width, height))
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def pdf(*pages: str, password: str = "", filler: int = 0) -> bytes:
    """A PDF with a page for each text; `filler` bytes more on each that do not compress."""
    writer = pypdf.PdfWriter()
    for number, text in enumerate(pages):
        page = writer.add_blank_page(200, 200)
        stream = DecodedStreamObject()
        extra = f"%{Image.effect_noise((filler, 1), number + 1).tobytes().hex()}\n" if filler else ""
        stream.set_data(f"{extra}BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
        named = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): named})}
        )
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
