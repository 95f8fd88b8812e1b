"""A judgment may have a probability; without one it is written as ever, and read from any file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from freshstack_dspy import Judgment
from freshstack_dspy.stored.record_files import Records, schema_of

JUDGMENT = Judgment(
    query_id="q", nugget_id="n", chunk_id="c", label=1, status="ok", reason="So.", call_id=None
)


def test_a_probability_is_written_where_there_is_one() -> None:
    certain = JUDGMENT.model_copy(update={"probability": 0.0})

    assert "probability" not in JUDGMENT.model_dump_json()
    assert Judgment.model_validate_json(certain.model_dump_json()) == certain
    with pytest.raises(ValidationError):
        Judgment(**{**JUDGMENT.model_dump(), "probability": 1.5})


@pytest.mark.parametrize("probability", [None, 0.25])
def test_parquet_with_or_without_the_column_is_read(
    tmp_path: Path, probability: float | None
) -> None:
    judgment = JUDGMENT.model_copy(update={"probability": probability})
    table = pa.Table.from_pylist([judgment.model_dump()], schema_of(Judgment))
    if probability is None:
        table = table.drop_columns("probability")
    pq.write_table(table, tmp_path / "judgments.parquet")

    assert list(Records(tmp_path / "judgments.parquet", Judgment)) == [judgment]
