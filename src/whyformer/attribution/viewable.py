"""The `to_...` methods that an attribution and a comparison share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, overload

from whyformer.attribution.view_registry import View, find_view
from whyformer.errors import InputError


class Viewable(ABC):
    """Base class of results that every view can show."""

    @abstractmethod
    def _render(self, view: View, options: dict[str, Any]) -> str | bytes:
        """Return this as the view shows it."""

    def render(self, view: str, path: str | Path | None = None, **options: Any) -> Any:
        """Show this as one of the registered views.

        Args:
            view: The name of the view: "html", "png", "svg", "pdf", "json", "terminal", ...
            path: The file to write. If None, the content is returned.
            **options: Options of the view, such as `subwords=True` for pictures.

        Returns:
            The content as text or bytes, or None if it was written to `path`.

        Raises:
            UnknownNameError: If there is no such view.
            OptionError: If the view does not take one of the options.
            InputError: If the folder of `path` does not exist.

        Example:
            >>> a = whyformer.explain("a gripping film")
            >>> a.render("svg", "why.svg", subwords=True)
        """
        content = self._render(find_view(view, options), options)
        if path is None:
            return content
        write_file(content, path)
        return None

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path) -> None: ...
    def to_html(self, path: str | Path | None = None) -> str | None:
        """Return a self-contained web page, or write it to `path` and return None."""
        html: str | None = self.render("html", path)
        return html

    @overload
    def to_json(self, path: None = None) -> str: ...
    @overload
    def to_json(self, path: str | Path) -> None: ...
    def to_json(self, path: str | Path | None = None) -> str | None:
        """Return all numbers as JSON text, or write it to `path` and return None."""
        text: str | None = self.render("json", path)
        return text

    @overload
    def to_png(self, path: None = None, **options: Any) -> bytes: ...
    @overload
    def to_png(self, path: str | Path, **options: Any) -> None: ...
    def to_png(self, path: str | Path | None = None, **options: Any) -> bytes | None:
        """Return a picture as PNG bytes, or write it to `path` and return None.

        Args:
            path: The file to write. If None, the bytes are returned.
            **options: `size`, the width in inches. `dpi`, the pixels per inch, 200 by default.
                `colours`, the name of a diverging colour map of matplotlib such as "RdBu_r".
                `specials=False` leaves out tokens such as [CLS]. `photo`, the original photo for
                the overlay instead of what the model saw of it: a path, an image, or a list with
                one per sample. `subwords=True` shows the tokens of each word.

        Returns:
            The PNG, or None if it was written to `path`.

        Raises:
            OptionError: If an option is unknown or has a bad value.
            InputError: If the folder of `path` does not exist, or `photo` is another photo.

        Example:
            >>> a = whyformer.explain("a gripping film")
            >>> a.to_png("why.png", size=5, dpi=300, colours="PuOr_r", specials=False)
        """
        return self._picture("png", path, options)

    @overload
    def to_svg(self, path: None = None, **options: Any) -> bytes: ...
    @overload
    def to_svg(self, path: str | Path, **options: Any) -> None: ...
    def to_svg(self, path: str | Path | None = None, **options: Any) -> bytes | None:
        """Return the picture as SVG bytes, or write it to `path` and return None.

        Options are those of `to_png` but `size` and `dpi`.
        """
        return self._picture("svg", path, options)

    @overload
    def to_pdf(self, path: None = None, **options: Any) -> bytes: ...
    @overload
    def to_pdf(self, path: str | Path, **options: Any) -> None: ...
    def to_pdf(self, path: str | Path | None = None, **options: Any) -> bytes | None:
        """Return the picture as PDF bytes, or write it to `path` and return None.

        Options are those of `to_png` but `size` and `dpi`.
        """
        return self._picture("pdf", path, options)

    def to_terminal(self) -> str:
        """Return coloured text for a terminal."""
        return str(self.render("terminal"))

    def _picture(self, view: str, path: str | Path | None, options: dict[str, Any]) -> bytes | None:
        content: bytes | None = self.render(view, path, **options)
        return content

    def _repr_html_(self) -> str:
        return str(self.render("notebook"))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return what a notebook stores: HTML, and a picture for places that show no HTML."""
        shown = {"text/html": "notebook", "image/png": "notebook_picture"}
        return {
            kind: self.render(view)
            for kind, view in shown.items()
            if (not include or kind in include) and kind not in (exclude or ())
        }


def write_file(content: str | bytes, path: str | Path) -> None:
    """Write the content to `path`, text as UTF-8. Raise InputError if the folder is missing."""
    check_folder(path)
    Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())


def check_folder(path: str | Path) -> None:
    """Raise InputError if the folder that `path` is in does not exist."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise InputError(
            f"cannot write {str(path)!r}: there is no folder {str(folder)!r}",
            argument="path",
            remedy="Create the folder first, or choose another path",
        )
