"""The view `csv`: the table of `Attribution.to_csv`, one row per word or patch."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.attribution import Attribution, view


@view("csv", title="the scores as a table", suffix=".csv", media_type="text/csv")
class Csv:
    """CSV text with a header."""

    def render(self, attribution: Attribution) -> str:
        """Return the rows of all samples."""
        return attribution.to_csv() or ""

    def render_comparison(self, attributions: Sequence[Attribution]) -> str:
        """Return the rows of all attributions; the columns label and method tell them apart."""
        tables = [self.render(attribution).partition("\n") for attribution in attributions]
        return "".join([*tables[0][:2], *(rows for _, _, rows in tables)])
