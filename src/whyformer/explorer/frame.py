"""The report inside the explorer's frame, with a script that talks to the page."""

from __future__ import annotations

from whyformer.render.html.fragment import Page

# The frame has no origin, so the page cannot look inside: the report sends its height.
# At once and when everything has loaded, because a frame out of view observes nothing.
SCRIPT = (
    "const send = () => parent.postMessage("
    "{height: Math.ceil(document.documentElement.getBoundingClientRect().height)}, '*');"
    "send();addEventListener('load', send);"
    "new ResizeObserver(send).observe(document.documentElement);"
    # A word of the answer that was clicked in the page: the report recolours the prompt.
    "addEventListener('message', ({source, data}) => {"
    "if (source !== parent || !Number.isInteger(data?.word)) return;"
    "const said = document.querySelectorAll('.said .word');"
    "const streams = [...document.querySelectorAll('.stream')];"
    "const own = streams.find((e) => e.querySelector('h3')?.textContent === 'generated');"
    "(said.length ? said : own?.querySelectorAll('.words .word') ?? [])[data.word]?.click();"
    "});"
)


def frame_report(report: Page) -> bytes:
    """Return the report with one more script, as UTF-8."""
    return report.with_script(SCRIPT).to_html().encode()
