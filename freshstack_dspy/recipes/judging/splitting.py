"""A text in parts, cut at line ends: every character is in exactly one of them."""

from collections.abc import Callable


def split_text(text: str, fewest: int, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into parts about as long as each other that all fit.

    Args:
        text: Of whatever length.
        fewest: How many parts to begin with; there are more where one of them does not fit.
        fits: Whether a part is short enough; a single character is taken to be.

    Returns:
        Parts whose concatenation is the text; none is empty unless the text is. A part ends at
        the end of a line where one is near, and inside a line that is too long for a part.
    """
    parts = max(1, fewest)
    while parts < len(text):
        cut = _cut(text, parts)
        if all(map(fits, cut)):
            return cut
        parts += 1 + parts // 8
    return list(text) or [text]


def _cut(text: str, parts: int) -> list[str]:
    """Cut near the places that would make all parts equal, at the nearest line end if possible."""
    bounds = [0]
    for number in range(1, parts):
        even = len(text) * number // parts
        reach = len(text) // (2 * parts)
        before = text.rfind("\n", even - reach, even) + 1
        after = text.find("\n", even, even + reach) + 1
        ends = [end for end in (before, after) if bounds[-1] < end < len(text)]
        bounds.append(min(ends, key=lambda end: abs(end - even), default=even))
    starts = sorted(set(bounds))
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
