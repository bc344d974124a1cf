"""A moving picture of a scene, for docs/images: `make pictures` takes it, and `make moving-picture` that one alone.

Time in the picture is the scene's: each frame lasts what a reader needs, however busy the machine is.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab_notebook import TAKE_PICTURES
from PIL import Image, ImageChops

LONGEST_MS = 700
"""How long a frame lasts while the scene waits for something."""
LARGEST_BYTES = 1_500_000

# only what the story needs is in the picture: no menus, no tabs, no status bar
BARE = """
#jp-top-panel, #jp-menu-panel, #jp-bottom-panel, .jp-SideBar, .lm-DockPanel-tabBar, .jp-NotebookPanel-toolbar,
.jp-Notebook-footer { visibility: hidden !important; }
#moving-picture-key {
  position: fixed; z-index: 99999; padding: 8px 18px; border-radius: 8px; opacity: 0;
  background: #d97757; color: #1a1a1a; font: 600 22px system-ui, sans-serif;
}
#moving-picture-key.shown { opacity: 1; }
"""
SHOW_KEY = """([text, clip]) => {
    let key = document.getElementById('moving-picture-key');
    if (!key) {
        key = document.createElement('div');
        key.id = 'moving-picture-key';
        key.style.right = `${innerWidth - clip.x - clip.width + 28}px`;
        key.style.bottom = `${innerHeight - clip.y - clip.height + 28}px`;
        document.body.append(key);
    }
    key.textContent = text || key.textContent;
    key.classList.toggle('shown', Boolean(text));
}"""


class MovingPicture:
    """What a page shows, as frames that each last some milliseconds. Without `make pictures` nothing is taken."""

    def __init__(self, page: Any, clip: dict[str, int]) -> None:
        self.page = page
        self.clip = clip
        self.frames: list[tuple[Image.Image, int]] = []
        self.still: Image.Image | None = None
        if TAKE_PICTURES:
            page.add_style_tag(content=BARE)

    def hold(self, ms: int) -> None:
        """Add what the page shows; what looks like the frame before makes that one last longer."""
        if not TAKE_PICTURES:
            return
        shot = Image.open(io.BytesIO(self.page.screenshot(clip=self.clip))).convert("RGB")
        if self.frames and ImageChops.difference(self.frames[-1][0], shot).getbbox() is None:
            self.frames[-1] = (self.frames[-1][0], self.frames[-1][1] + ms)
        else:
            self.frames.append((shot, ms))

    def hold_still(self, ms: int) -> None:
        """Add what tells most, which readers see who want no motion."""
        self.hold(ms)
        self.still = self.frames[-1][0] if self.frames else None

    def until(self, happened: Callable[[], bool], ms: int = 120) -> None:
        """Film until something has happened; where the picture stands still meanwhile, it is cut short."""
        if not TAKE_PICTURES:
            return
        before = len(self.frames)
        while not happened():
            self.hold(ms)
        self.frames[before:] = [(shot, min(lasts, LONGEST_MS)) for shot, lasts in self.frames[before:]]

    def press(self, label: str, key: str) -> None:
        """Press a key, which the picture names."""
        if TAKE_PICTURES:
            self.page.evaluate(SHOW_KEY, [label, self.clip])
        self.hold(900)
        self.page.keyboard.press(key)
        self.hold(300)
        if TAKE_PICTURES:
            self.page.evaluate(SHOW_KEY, ["", self.clip])

    def save(self, path: Path) -> None:
        """Write the frames as an animated WebP, and the still beside it."""
        if not TAKE_PICTURES:
            return
        assert self.still is not None
        shots = [shot for shot, _ in self.frames]
        lasts = [ms for _, ms in self.frames]
        options = {"lossless": True, "quality": 80, "method": 4, "minimize_size": True}
        shots[0].save(path, save_all=True, append_images=shots[1:], duration=lasts, loop=0, **options)
        self.still.quantize(128).save(path.with_name(f"{path.stem}-still.png"), optimize=True)
        size = path.stat().st_size
        print(f"{path.name}: {len(shots)} frames of {shots[0].size}, {sum(lasts) / 1000:.1f} s, {size:,} bytes")
        assert size <= LARGEST_BYTES
