"""The report as it stands in the page's frame: it tells the page how high it is."""

from __future__ import annotations

from whyformer.render.html.fragment import Page

# The frame has no origin, so the page cannot look inside: the report tells its height itself.
# At once and when everything has loaded, because a frame out of view observes nothing.
SCRIPT = (
    "const tell = () => parent.postMessage("
    "{height: Math.ceil(document.documentElement.getBoundingClientRect().height)}, '*');"
    "tell();addEventListener('load', tell);"
    "new ResizeObserver(tell).observe(document.documentElement);"
)


def frame_report(report: Page) -> bytes:
    """Return the report with one more script, as UTF-8."""
    return report.with_script(SCRIPT).to_html().encode()
