"""A result that presents itself."""

from abc import ABC, abstractmethod

from freshstack_dspy.pages.html import html_fragment
from freshstack_dspy.pages.page import Page


class Shown(ABC):
    """A result that gives a page of itself, which a notebook shows."""

    @abstractmethod
    def page(self) -> Page:
        """Give what is shown of it."""

    def _repr_html_(self) -> str:
        return html_fragment(self.page())
