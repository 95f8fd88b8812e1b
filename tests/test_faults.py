"""The faults that Pydantic found, as a message tells them."""

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from freshstack_dspy.faults import first_fault


class Table(BaseModel):
    """A record with a check of its own."""

    format: str

    @field_validator("format")
    @classmethod
    def _known(cls, value: str) -> str:
        raise ValueError(f"{value!r} is not one of 'beir', 'trec'")


def test_a_check_of_our_own_speaks_without_pydantics_beginning() -> None:
    with pytest.raises(ValidationError) as caught:
        Table(format="parquet")

    assert first_fault(caught.value) == "format: 'parquet' is not one of 'beir', 'trec'"
