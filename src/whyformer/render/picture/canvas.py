"""A canvas that grows downwards, measured in points and drawn by matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from whyformer.errors import InputError
from whyformer.render.colours import LIGHT, Colour, Theme, css

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

Align = Literal["left", "center", "right"]
Weight = Literal["normal", "bold"]
Slope = Literal["normal", "italic"]
Format = Literal["png", "svg", "pdf"]

WIDTH = 560.0  # points
MARGIN = 18.0
DPI = 200  # twice the default of matplotlib
TALLEST = 2**16 - 1  # pixels: the limit of matplotlib's Agg canvas

# These override the user's rcParams. SVG has letters as shapes, which look the same everywhere;
# PDF embeds whole fonts, as publishers require. No file has a date: the same picture is the same
# bytes.
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "whyformer",
    "svg.image_inline": True,
    "pdf.fonttype": 42,
    "pdf.compression": 6,
    "pdf.use14corefonts": False,
}
_METADATA: dict[Format, dict[str, str | None]] = {
    "png": {"Software": "whyformer"},
    "svg": {"Creator": "whyformer", "Date": None},
    "pdf": {"Creator": "whyformer", "CreationDate": None},
}

# Each glyph is drawn by the first installed font that has it. DejaVu comes with matplotlib.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
)


class Canvas:
    """A page that grows downwards. Everything is placed in points from the top left."""

    def __init__(self, theme: Theme = LIGHT) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        # Everything that rcParams could change is set here or in the calls below.
        self.figure = Figure(figsize=(WIDTH / 72, 1), dpi=DPI, facecolor=css(LIGHT.page))
        self.figure.set_layout_engine("none")
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.theme = theme  # the colours of scores
        self.y = MARGIN
        self.wide = WIDTH  # may change until the file is made

    def file(
        self, form: Format = "png", size: float | None = None, dpi: int | None = None
    ) -> bytes:
        """Return the bytes of a file in that format.

        A PNG is `size` inches wide, with `dpi` pixels per inch.
        """
        height, dots = self.y + MARGIN, dpi or DPI
        scaled = dots * (1 if size is None else size / (self.wide / 72))
        if form == "png" and height / 72 * scaled > TALLEST:
            raise InputError(
                f"the picture is {height / 72 * scaled:.0f} pixels tall, and {TALLEST} is the"
                " limit",
                remedy="Draw fewer samples, as in a[0].to_png(), or use to_html()",
            )
        self.figure.set_size_inches(self.wide / 72, height / 72)
        self.axes.set_xlim(0, self.wide)
        self.axes.set_ylim(height, 0)
        buffer = BytesIO()
        with warnings.catch_warnings(), self._canvas(form) as canvas:
            # A character that no installed font has is drawn as a box, so no warning is needed.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            more: dict[str, Any] = {}
            if form == "png" and (size, dpi) != (None, None):
                self.figure.set_dpi(scaled)
                more = {"pil_kwargs": {"dpi": (dots, dots)}}
            try:
                getattr(canvas, f"print_{form}")(buffer, metadata=_METADATA[form], **more)
            finally:
                self.figure.set_dpi(DPI)
        return buffer.getvalue()

    @contextmanager
    def _canvas(self, form: Format) -> Iterator[Any]:
        """A scope with the matplotlib canvas that writes the format."""
        import matplotlib
        from matplotlib.backends.backend_pdf import FigureCanvasPdf
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        if form == "png":
            yield self.canvas
            return
        vector = {"svg": FigureCanvasSVG, "pdf": FigureCanvasPdf}
        try:
            with matplotlib.rc_context(_SETTINGS):  # the only way to pass them
                yield vector[form](self.figure)
        finally:
            self.figure.set_canvas(self.canvas)
            self.figure.set_dpi(DPI)  # a vector canvas leaves it at 72

    def width(self, text: str, font: FontProperties) -> float:
        """Return the width of the text in points."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            size = self.canvas.get_renderer().get_text_width_height_descent(text, font, False)
        return float(size[0]) * 72 / DPI

    def write(
        self, x: float, text: str, font: FontProperties, colour: Colour, align: Align = "left"
    ) -> None:
        """Write text that starts (or ends) at x, vertically centred at the current y."""
        self.axes.text(
            x,
            self.y,
            text,
            fontproperties=font,
            color=css(colour),
            ha=align,
            va="center_baseline",
            usetex=False,
            parse_math=False,  # a dollar sign in a word starts no formula
        )

    def write_up(self, x: float, text: str, font: FontProperties, colour: Colour) -> None:
        """Write text upwards from the current y, centred at x."""
        self.axes.text(
            x,
            self.y,
            text,
            fontproperties=font,
            color=css(colour),
            rotation=90,
            ha="center",
            va="bottom",
            usetex=False,
            parse_math=False,
        )

    def cut(self, text: str, font: FontProperties, room: float) -> str:
        """Return the text, cut with an ellipsis if it is wider than `room`."""
        if self.width(text, font) <= room:
            return text
        while text and self.width(text + "…", font) > room:
            text = text[: len(text) * 9 // 10]
        return text + "…"

    def lines(self, text: str, font: FontProperties, room: float) -> list[str]:
        """Return the text in lines that fit into `room`, broken at spaces, else in a word."""
        found, line = [], ""
        for word in text.split(" "):
            longer = f"{line} {word}".strip()
            if line and self.width(longer, font) > room:
                found.append(line)
                longer = word
            while len(longer) > 1 and self.width(longer, font) > room:
                fits = next(
                    n
                    for n in range(len(longer) - 1, 0, -1)
                    if n == 1 or self.width(longer[:n], font) <= room
                )
                found.append(longer[:fits])
                longer = longer[fits:]
            line = longer
        return [*found, line]

    def cell(self, x: float, width: float, height: float, colour: Colour) -> None:
        """Draw a box that touches its neighbours, vertically centred at the current y."""
        from matplotlib.patches import Rectangle

        corner = (x, self.y - height / 2)
        self.axes.add_patch(
            Rectangle(
                corner,
                width,
                height,
                facecolor=css(colour),
                edgecolor=css(LIGHT.page),
                linewidth=0.6,
            )
        )

    def box(self, x: float, width: float, height: float, colour: Colour, dashed: bool) -> None:
        """Draw a rounded box, vertically centred at the current y."""
        from matplotlib.patches import FancyBboxPatch

        self.axes.add_patch(
            FancyBboxPatch(
                (x, self.y - height / 2),
                width,
                height,
                boxstyle=f"round,pad=0,rounding_size={min(3, width / 2, height / 2)}",
                facecolor=css(colour),
                edgecolor=css(LIGHT.text) if dashed else "none",
                linestyle=(0, (2, 2)) if dashed else "solid",
                linewidth=0.8 if dashed else 0,
            )
        )

    def line(self, x: float, top: float, bottom: float) -> None:
        """Draw a thin vertical line from `top` to `bottom` below the current y."""
        self.axes.plot(
            (x, x),
            (self.y + top, self.y + bottom),
            color=css(LIGHT.line),
            linewidth=0.8,
            linestyle="solid",
            marker="",
            solid_capstyle="butt",
        )

    def picture(self, picture: Tensor, x: float, width: float, height: float) -> None:
        """Draw an image (height, width, 3) with its top at the current y, without smoothing."""
        self.axes.imshow(
            picture.numpy(),
            extent=(x, x + width, self.y + height, self.y),
            origin="upper",
            interpolation="nearest",
            aspect="auto",
        )

    def write_paragraph(self, text: str, font: FontProperties, colour: Colour) -> None:
        """Write a paragraph, broken at spaces to fit the page."""
        line = ""
        for word in text.split(" "):
            longer = f"{line} {word}".strip()
            if line and self.width(longer, font) > self.wide - 2 * MARGIN:
                self.write(MARGIN, line, font, colour)
                self.y += 1.5 * font.get_size_in_points()
                longer = word
            line = longer
        self.write(MARGIN, line, font, colour)
        self.y += 1.7 * font.get_size_in_points()


@cache
def font(size: float, weight: Weight = "normal", style: Slope = "normal") -> FontProperties:
    """Return the font in that size, with fallbacks for glyphs that DejaVu does not have."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    families = [name for name in _FONTS if name in installed]
    return font_manager.FontProperties(family=families, size=size, weight=weight, style=style)
