"""A result that presents itself."""

from freshstack_dspy.pages.html import html_fragment
from freshstack_dspy.pages.page import Page


class Shown:
    """A result that gives a page of itself, which a notebook shows."""

    def page(self) -> Page:
        """Give what is shown of it."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_fragment(self.page())
