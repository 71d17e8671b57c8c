"""Run a script in a page in headless Chromium and read its result."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TRIES = 3  # its clock may run out before a picture is decoded, where the machine is busy


def found_by(page: str, script: str, folder: Path, width: int = 1000) -> dict[str, Any]:
    """The JSON that the script wrote to `<output id="found">`; no other script may run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = page.replace("script-src '", f"script-src 'sha256-{digest}' '")
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"<script>{script}</script></body>"), "utf-8")
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},900",
        "--virtual-time-budget=30000",
        "--dump-dom",
        file.as_uri(),
    ]
    for _ in range(TRIES):
        shown = subprocess.run(command, capture_output=True, timeout=120, check=True)
        found = re.search(r'<output id="found">(.*?)</output>', shown.stdout.decode(), re.S)
        if found:
            data: dict[str, Any] = json.loads(unescape(found[1]))
            return data
    raise AssertionError(f"the steps left nothing in the page: {shown.stderr.decode()[-500:]}")
