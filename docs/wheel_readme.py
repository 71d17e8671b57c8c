"""The long description of the wheel: README.md with links that work away from the repository.

hatchling runs this when it builds. The project's address is the setting `address` of
`[tool.hatch.metadata.hooks.custom]` in pyproject.toml. While it is empty, relative links become
plain text and images are left out, so that nothing in the description is broken.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
DETAILS = re.compile(r"<details>.*?</details>\n*", re.S)
COMMENT = re.compile(r"<!--.*?-->\n?", re.S)


def describe_wheel(readme: str, address: str) -> str:
    """Return the long description: relative links and images made absolute, or left out."""
    address = address.rstrip("/")

    def image(match: re.Match[str]) -> str:
        if not _is_relative(match[2]):
            return match[0]
        return f"![{match[1]}]({address}/raw/main/{match[2]})" if address else ""

    def link(match: re.Match[str]) -> str:
        if not _is_relative(match[2]):
            return match[0]
        return f"[{match[1]}]({address}/blob/main/{match[2]})" if address else match[1]

    text = COMMENT.sub("", readme if address else DETAILS.sub("", readme))
    text = LINK.sub(link, IMAGE.sub(image, text))
    return re.sub(r"\n{3,}", "\n\n", text)


def _is_relative(target: str) -> bool:
    """Whether a link leads to a file of the repository."""
    return not target.startswith("#") and "://" not in target


class WheelReadme(MetadataHookInterface):
    """Set the long description and, if the address is known, the project's links."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Change the metadata in place, as hatchling expects."""
        address = str(self.config.get("address", "")).rstrip("/")
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = describe_wheel(readme, address)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if address:
            metadata["urls"] = {
                "Repository": address,
                "Changelog": f"{address}/blob/main/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
