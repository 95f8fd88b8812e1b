"""The outline of a text, by its kind."""

from collections.abc import Iterable

from freshstack_dspy.chunking.boundaries import Boundary, Fits
from freshstack_dspy.chunking.code import code_outline
from freshstack_dspy.chunking.headings import asciidoc_outline, latex_outline, org_outline
from freshstack_dspy.chunking.kinds import FileKind, is_language
from freshstack_dspy.chunking.prose import markdown_outline, rst_outline

_OF_PROSE = {
    "markdown": markdown_outline,
    "rst": rst_outline,
    "asciidoc": asciidoc_outline,
    "org": org_outline,
    "latex": latex_outline,
}


def outline_of(kind: FileKind, data: bytes, fits: Fits, *, parse: bool) -> Iterable[Boundary]:
    """Give the places where a text's structure begins anew; none for plain text.

    Args:
        kind: Of the text.
        data: UTF-8.
        fits: Whether a range of bytes needs no cut.
        parse: Whether code is parsed; otherwise it counts as plain text.
    """
    if kind in _OF_PROSE:
        return _OF_PROSE[kind](data)
    if parse and is_language(kind):
        return code_outline(data, kind, fits)
    return ()
