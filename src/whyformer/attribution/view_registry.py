"""The registry of views: every way to show an attribution is one file in `render/views`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from whyformer.errors import OptionError
from whyformer.registry import Registry

if TYPE_CHECKING:
    from whyformer.attribution.attribution import Attribution

    Attributions = Sequence[Attribution] | Mapping[str, Attribution]


ViewType = TypeVar("ViewType")


class View(Protocol):
    """One way to show attributions. Decorate the class with `@view`, which sets the attributes.

    Attributes:
        name: What the view is called in `attribution.render(name)` and in `--name FILE`.
        title: What it gives, for help texts: "a web page".
        suffix: The ending of its files with the dot, or "" if it is not offered as a file.
        media_type: The media type of its files, for downloads.
        is_picture: Whether its files are pictures.
        options: The names of the keyword options that both methods take.
        comparison_options: Those that only `render_comparison` takes, such as "scale".
    """

    name: str
    title: str
    suffix: str
    media_type: str
    is_picture: bool
    options: tuple[str, ...]
    comparison_options: tuple[str, ...]

    def render(self, attribution: Attribution, **options: Any) -> str | bytes:
        """Return one attribution, all of its samples, as text or as the bytes of a file."""

    def render_comparison(self, attributions: Attributions, **options: Any) -> str | bytes:
        """Return several attributions of the same input, side by side."""


views: Registry[Any] = Registry("view", "whyformer.render.views")


def view(
    name: str,
    *,
    title: str,
    suffix: str = "",
    media_type: str = "",
    is_picture: bool = False,
    options: Sequence[str] = (),
    comparison_options: Sequence[str] = (),
) -> Callable[[type[ViewType]], type[ViewType]]:
    """Register a class as a view. See `View` for the arguments and for what the class must have.

    Example:
        >>> @view("loud", title="loud text", suffix=".txt", media_type="text/plain")
        ... class Loud:
        ...     def render(self, attribution):
        ...         return attribution.labels[0].upper()
        ...     def render_comparison(self, attributions):
        ...         return " ".join(map(self.render, attributions))
    """

    def register(view_class: type[ViewType]) -> type[ViewType]:
        declared = view_class()
        for key, value in {
            "name": name,
            "title": title,
            "suffix": suffix,
            "media_type": media_type,
            "is_picture": is_picture,
            "options": tuple(options),
            "comparison_options": tuple(comparison_options),
        }.items():
            setattr(declared, key, value)
        views.register(name, declared)
        return view_class

    return register


def file_views() -> dict[str, View]:
    """Return the views that write files, by name."""
    return {name: found for name, found in views.items() if found.suffix}


def find_view(name: str, options: Mapping[str, Any]) -> View:
    """Return the view of that name. Raise OptionError if it does not take one of the options."""
    found: View = views[name]
    unknown = [key for key in options if key not in found.options]
    if unknown:
        raise OptionError(
            f"view '{name}' has no option {unknown[0]!r}",
            argument=unknown[0],
            remedy=f"Pass one of {', '.join(found.options)}"
            if found.options
            else "Leave it out: this view has no options",
        )
    return found
