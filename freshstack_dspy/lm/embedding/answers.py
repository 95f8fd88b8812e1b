"""What embedders and rerankers send, validated: as many numbers as were asked for, in their order."""

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.embedding.figures import MOST_DIMENSIONS
from freshstack_dspy.lm.reply import MOST_TOKENS

if TYPE_CHECKING:
    from numpy.typing import NDArray


class UnusableError(Exception):
    """An answer that is none."""


class RefusedError(ReplyError):
    """The provider refused a request as it is; another may be answered."""


class Vectors(NamedTuple):
    """The vectors of some texts, in their order."""

    matrix: "NDArray[Any]"
    """Shape (texts, dimensions), float32: finite, no row all zero."""
    tokens: int | None
    """As the provider counted them, if it did."""


class Scores(NamedTuple):
    """The scores of some passages, in their order."""

    scores: "NDArray[Any]"
    """Shape (passages,), float64: finite."""
    tokens: int | None
    """As the provider counted them, if it did."""
    units: int | None
    """Search units, as some providers bill; see `RerankPrice`."""


def vectors_of(answer: Any, count: int) -> Vectors:
    """Read the vectors of so many texts, each as numbers or as base64 of float32.

    Raises:
        UnusableError: They are not as many, not as long as each other, or hold no direction.
    """
    import numpy as np

    items = _in_order(_list_of(answer, "data"), count, "vectors", "texts")
    rows = [_vector(_field(item, "embedding")) for item in items]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1:
        raise UnusableError(f"its vectors have different lengths: {lengths[:5]}")
    if not 1 <= lengths[0] <= MOST_DIMENSIONS:
        raise UnusableError(f"its vectors have {lengths[0]:,} numbers")
    matrix = np.stack(rows)
    if not np.isfinite(matrix).all():
        raise UnusableError("a vector holds a number that is not finite")
    if not matrix.any(axis=1).all():
        raise UnusableError("a vector is all zero")
    usage = _field(answer, "usage")
    return Vectors(matrix, _count(_field(usage, "prompt_tokens"), _field(usage, "total_tokens")))


def scores_of(answer: Any, count: int) -> Scores:
    """Read the scores of so many passages.

    Raises:
        UnusableError: Some passage has no score, or two, or one that is no finite number.
    """
    import numpy as np

    items = _in_order(_list_of(answer, "results"), count, "scores", "passages")
    scores = _numbers([_field(item, "relevance_score") for item in items], "<f8")
    if not np.isfinite(scores).all():
        raise UnusableError("a score is not finite")
    meta = _field(answer, "meta")
    billed, counted = _field(meta, "billed_units"), _field(meta, "tokens")
    tokens = _count(_field(billed, "total_tokens"), _field(counted, "input_tokens"))
    return Scores(scores, tokens, _count(_field(billed, "search_units")))


def _list_of(answer: Any, name: str) -> list[Any]:
    found = _field(answer, name)
    if not isinstance(found, list):
        raise UnusableError(f"there is no list of {name} in what it sent")
    return found


def _in_order(items: Sequence[Any], count: int, what: str, whose: str) -> list[Any]:
    """The items by their index, which must be each once."""
    if len(items) != count:
        raise UnusableError(f"it sent {len(items):,} {what} for {count:,} {whose}")
    places = [_field(item, "index") for item in items]
    if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
        raise UnusableError(f"the indexes of its {what} are not those of the {whose}")
    ordered: list[Any] = [None] * count
    for place, item in zip(places, items, strict=True):
        ordered[place] = item
    return ordered


def _vector(value: Any) -> "NDArray[Any]":
    import numpy as np

    if not isinstance(value, str):
        return _numbers(value, "<f4")
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    except (binascii.Error, ValueError):
        raise UnusableError("a vector is no base64 of float32") from None


def _numbers(value: Any, kind: str) -> "NDArray[Any]":
    import numpy as np

    try:
        found = np.asarray(value)
    except (ValueError, TypeError):
        found = np.empty(0, dtype=object)
    if found.ndim != 1 or (found.dtype.kind not in "fi" and len(found)):
        raise UnusableError("it sent something else than a list of numbers")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
        return found.astype(kind)


def _field(value: Any, name: str) -> Any:
    """A field of an object or a dictionary, or None."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _count(*candidates: Any) -> int | None:
    """The first that is a count; LiteLLM puts 0 where the provider does not say."""
    counts = (one for one in candidates if type(one) is int and 0 < one <= MOST_TOKENS)
    return next(counts, None)
