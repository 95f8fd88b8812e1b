"""What all records have in common."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """The base of all records: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
