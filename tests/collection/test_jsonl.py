"""The one line that stands for a record."""

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.files import canonical_json, canonical_line
from freshstack_dspy.records import Judgment, Query

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, TEXTS, st.integers(0, 2**63 - 1))
def test_a_line_is_the_canonical_json_of_the_fields(one: str, other: str, number: int) -> None:
    """Pydantic writes it, and Python's own JSON is the oracle: any text, no space, no escape."""
    records = (
        Judgment(
            query_id=one,
            nugget_id=other,
            chunk_id="c",
            label=number,
            status="ok",
            reason=one + other,
            call_id=None,
        ),
        Query(query_id="q", title=one, body=other, answer="a", tags=(one, other)),
    )

    for record in records:
        assert canonical_line(record) == canonical_json(record.model_dump()) + "\n"


def test_control_characters_and_separators_are_written_as_python_writes_them() -> None:
    every = "".join(map(chr, range(0x100))) + "\u2028\u2029\ufeff\uffff\U0001f600"
    record = Query(query_id="q", title=every, body="", answer="a")

    assert canonical_line(record) == canonical_json(record.model_dump()) + "\n"
