"""Take the pictures of the explorer in docs/explorer.md, with Chromium.

PYTHONPATH=. python docs/explorer_pictures.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import urlencode

from tests.explorer.conftest import serve
from tests.explorer.visitor import Visitor
from whyformer.explorer.app import create_app

FOLDER = Path(__file__).parent / "images"
ASKED = {
    "explorer_text": {
        "model": "sst2",
        "methods": "libragrad,gae,rollout",
        "text": "a gripping, beautifully acted film",
    },
    "explorer_answer": {
        "model": "reader",
        "methods": "libragrad",
        "text": "David placed the brown lamp in the kitchen. Olga left the green lamp in the attic."
        " Where can I find the green lamp?",
    },
}


def main() -> None:
    """Write every picture."""
    visitor = Visitor(Path(tempfile.mkdtemp()))
    try:
        for client in serve(create_app()):
            for name, asked in ASKED.items():
                visitor.open(f"{client.server.url}?{urlencode(asked)}")
                visitor.wait_for_end()
                (FOLDER / f"{name}.png").write_bytes(visitor.view())
                print(f"wrote {name}.png")
    finally:
        visitor.close()


if __name__ == "__main__":
    main()
