"""What all records have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Whole = Annotated[int, Field(le=2**63 - 1)]
"""An integer that a table can hold; the field that it is the type of says from where on."""
Signed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
"""An integer that a table can hold."""


class Record(BaseModel):
    """The base of all records: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
