"""A canvas of paper that grows downwards, measured in points, drawn by matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from whyformer.errors import InputError
from whyformer.render.colours import LIGHT, Colour, css

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

Align = Literal["left", "center", "right"]
Weight = Literal["normal", "bold"]
Slope = Literal["normal", "italic"]
Format = Literal["png", "svg", "pdf"]

WIDTH = 560.0  # points
MARGIN = 18.0
DPI = 200  # twice what matplotlib draws by default
TALLEST = 2**16 - 1  # pixels: what the canvas can hold

# How files are made, whatever the user's rcParams say. Letters are drawn as shapes in SVG, which
# look the same everywhere, and are whole fonts in PDF, as publishers ask for. No file says when it
# was made: the same picture is the same bytes.
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

# The first that is installed and has the glyph draws it; DejaVu comes with matplotlib.
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
    """A page that grows downwards; everything is placed in points from the top left."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        # Whatever could follow the user's rcParams is said here or in the calls below.
        self.figure = Figure(figsize=(WIDTH / 72, 1), dpi=DPI, facecolor=css(LIGHT.page))
        self.figure.set_layout_engine("none")
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.y = MARGIN
        self.wide = WIDTH  # may be set until the file is made

    def file(self, form: Format = "png") -> bytes:
        """All of it as a file of that form."""
        height = self.y + MARGIN
        if form == "png" and height / 72 * DPI > TALLEST:
            raise InputError(
                f"the picture would be {height / 72 * DPI:.0f} pixels tall and a PNG from here"
                f" ends at {TALLEST}: show fewer samples at once, as in a[0].to_png(), or use"
                " to_html()"
            )
        self.figure.set_size_inches(self.wide / 72, height / 72)
        self.axes.set_xlim(0, self.wide)
        self.axes.set_ylim(height, 0)
        buffer = BytesIO()
        with warnings.catch_warnings(), self._canvas(form) as canvas:
            # A character that no installed font has is drawn as a box, which says it better.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            getattr(canvas, f"print_{form}")(buffer, metadata=_METADATA[form])
        return buffer.getvalue()

    @contextmanager
    def _canvas(self, form: Format) -> Iterator[Any]:
        """The canvas that writes the form, for a while."""
        import matplotlib
        from matplotlib.backends.backend_pdf import FigureCanvasPdf
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        if form == "png":
            yield self.canvas
            return
        vector = {"svg": FigureCanvasSVG, "pdf": FigureCanvasPdf}
        try:
            with matplotlib.rc_context(_SETTINGS):  # its only way to be told
                yield vector[form](self.figure)
        finally:
            self.figure.set_canvas(self.canvas)
            self.figure.set_dpi(DPI)  # a vector canvas leaves it at 72

    def width(self, text: str, font: FontProperties) -> float:
        """How wide the text is, in points."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            size = self.canvas.get_renderer().get_text_width_height_descent(text, font, False)
        return float(size[0]) * 72 / DPI

    def write(
        self, x: float, text: str, font: FontProperties, colour: Colour, align: Align = "left"
    ) -> None:
        """Text whose line starts (or ends) at x, its middle at the current y."""
        self.axes.text(
            x,
            self.y,
            text,
            fontproperties=font,
            color=css(colour),
            ha=align,
            va="center_baseline",
            usetex=False,
            parse_math=False,  # a dollar sign in a word is a dollar sign
        )

    def write_up(self, x: float, text: str, font: FontProperties, colour: Colour) -> None:
        """Text that runs upwards from the current y, its middle at x."""
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
        """The text, its end replaced by an ellipsis where it does not fit."""
        if self.width(text, font) <= room:
            return text
        while text and self.width(text + "…", font) > room:
            text = text[: len(text) * 9 // 10]
        return text + "…"

    def cell(self, x: float, width: float, height: float, colour: Colour) -> None:
        """A box without gaps to its neighbours, its middle at the current y."""
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
        """A rounded box with its middle at the current y."""
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
        """A thin channels_last line, from `top` to `bottom` below the current y."""
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
        """A picture (height, width, 3) with its top at the current y, pixels left as they are."""
        self.axes.imshow(
            picture.numpy(),
            extent=(x, x + width, self.y + height, self.y),
            origin="upper",
            interpolation="nearest",
            aspect="auto",
        )

    def write_paragraph(self, text: str, font: FontProperties, colour: Colour) -> None:
        """A paragraph, broken at spaces to fit the page."""
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
    """The font of that many points, with stand-ins for what DejaVu cannot write."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    families = [name for name in _FONTS if name in installed]
    return font_manager.FontProperties(family=families, size=size, weight=weight, style=style)
