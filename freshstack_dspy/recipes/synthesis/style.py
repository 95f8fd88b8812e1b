"""The example questions whose style synthetic ones follow."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import decoded, read_lines

SHOWN = 5
"""How many examples one request shows."""
_LONGEST = 8_000
"""Characters of an example; every request would pay for more."""
_JSON_LINES = (".jsonl", ".ndjson")


def read_style(path: Path) -> list[str]:
    """Read example questions, each once, in the order of the file.

    Args:
        path: In UTF-8. In a file of JSON Lines (`.jsonl`, `.ndjson`) a line is a text, or an object
            with `question`, or with `title` and `body` as a query has; in any other file it is
            the question. Blank lines are passed over.

    Raises:
        SourceError: It cannot be read, is not of this form, or holds no question.
    """
    found: list[str] = []
    for number, data in read_lines(path):
        place = f"{path}:{number}"
        text = decoded(data, place).strip()
        if text and path.suffix.lower() in _JSON_LINES:
            text = _question_in(text, place).strip()
            if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise SourceError(f"{place}: holds half a surrogate pair, which is no character")
        if len(text) > _LONGEST:
            raise SourceError(
                f"{place}: {len(text):,} characters; an example has at most {_LONGEST:,}, for "
                "requests are sent with it"
            )
        if text:
            found.append(text)
    if not found:
        raise SourceError(
            f"{path}: holds no question; write one a line, or leave the examples out for "
            "open-ended questions"
        )
    return list(dict.fromkeys(found))


def shown_examples(examples: Sequence[str], seed: int, chunk_ids: Sequence[str]) -> list[str]:
    """Choose the examples for one request: other ones for other chunks, the same ones each time.

    Args:
        examples: All of them.
        seed: Of the sampling.
        chunk_ids: The seeds of the request.

    Returns:
        At most `SHOWN`, in the order given.
    """

    def place(example: str) -> bytes:
        return hashlib.sha256(json.dumps([seed, *chunk_ids, example]).encode()).digest()

    chosen = set(sorted(examples, key=place)[:SHOWN])
    return [example for example in examples if example in chosen]


def _question_in(line: str, place: str) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise SourceError(f"{place}: not valid JSON; a line is a text or an object") from None
    if isinstance(value, dict):
        texts = [value.get("question")] if "question" in value else [
            value.get("title", ""), value.get("body", "")
        ]  # fmt: skip
    else:
        texts = [value]
    if not all(isinstance(text, str) for text in texts) or not any(texts):
        raise SourceError(
            f"{place}: no question; a line is a text, or an object with question, or with title "
            "and body"
        )
    return "\n".join(text for text in texts if text)
