"""Looks at a page in headless Chromium, without anything installed beside it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here, so pages are not looked at: apt-get install chromium"
)

#: What a page tells about itself once it is loaded; ``probe`` is JavaScript whose value is taken along.
_ASK = """<script>
addEventListener("load", () => {
  const told = { broken: [], images: document.images.length, width: document.documentElement.scrollWidth };
  for (const image of document.images) {
    if (!image.complete || image.naturalWidth === 0) told.broken.push(image.alt);
  }
  told.probe = (() => { %s })() ?? null;
  const box = document.createElement("pre");
  box.id = "told";
  box.textContent = JSON.stringify(told);
  document.body.append(box);
  if (parent !== window) parent.postMessage(box.textContent, "*");
});
</script></body>"""
#: A phone: the page in a frame as wide as that, since Chromium has no window so narrow.
_PHONE = """<!DOCTYPE html><body><iframe src="%s" width="%d" height="800"></iframe><script>
addEventListener("message", (event) => {
  const box = document.createElement("pre");
  box.id = "told";
  box.textContent = event.data;
  document.body.append(box);
});
</script></body>"""


def look(page: Path, folder: Path, probe: str = "", phone: int | None = None) -> dict[str, Any]:
    """Loads a copy of ``page`` and gives what it tells of itself, with ``console``: its messages.

    Args:
        page: an HTML file.
        folder: where the copy goes.
        probe: JavaScript that returns something, which comes back as ``probe``.
        phone: a width in pixels to look at it with, in place of a desktop's.
    """
    assert CHROMIUM is not None
    copy = folder / f"look-{page.name}"
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", _ASK % probe), encoding="utf-8")
    shown = copy
    if phone is not None:
        shown = folder / f"phone-{page.name}"
        shown.write_text(_PHONE % (copy.as_uri(), phone), encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --enable-logging=stderr --window-size=1200,900 --dump-dom".split()
    # A frame answers after its parent is loaded; virtual time waits for it.
    flags += ["--virtual-time-budget=5000", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run([CHROMIUM, *flags, shown.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told is not None, done.stdout[-2000:]
    console = re.findall(r"CONSOLE\S* (.*)", done.stderr)
    answer: dict[str, Any] = json.loads(unescape(told[1]))
    return answer | {"console": console}
