"""A result that presents itself."""

from functools import singledispatch
from importlib import import_module
from typing import Any

from freshstack_dspy.pages.html import html_fragment
from freshstack_dspy.pages.page import Page

_PACKAGE = "freshstack_dspy."


@singledispatch
def page_of(result: object, *_: Any, **__: Any) -> Page:
    """Give the page of a result, by the view that is registered for its type.

    Raises:
        TypeError: There is no view of such a result.
    """
    raise TypeError(f"{type(result).__name__} has no page")


class Shown:
    """A result that gives a page of itself, which a notebook shows."""

    def page(self, *args: Any, **options: Any) -> Page:
        """Give its page, as a terminal, a notebook and files show it.

        The views of the results of a room, as `collection`, are in `freshstack_dspy.views` under
        its name, with the arguments that they take. They stand above the results, which import
        none of them.
        """
        names = (each.__module__ for each in type(self).__mro__)
        room = next(name.split(".")[1] for name in names if name.startswith(_PACKAGE))
        import_module(f"{_PACKAGE}views.{room}")
        return page_of(self, *args, **options)

    def _repr_html_(self) -> str:
        return html_fragment(self.page())
