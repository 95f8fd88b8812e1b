"""A result that presents itself."""

from functools import singledispatch
from importlib import import_module
from importlib.util import find_spec
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

        Its view is in `freshstack_dspy.views`, in the module of the name of the result's own, as
        `scores`, or of its room, as `collection`, with the arguments that it takes. Views stand
        above the results, which import none of them.
        """
        names = (each.__module__ for each in type(self).__mro__)
        room, name = next(n.split(".")[1:3] for n in names if n.startswith(_PACKAGE))
        views = (f"{_PACKAGE}views.{each}" for each in (name, room))
        import_module(next(view for view in views if find_spec(view)))
        return page_of(self, *args, **options)

    def _repr_html_(self) -> str:
        return html_fragment(self.page())
