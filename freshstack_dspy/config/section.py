"""The base of all sections of a configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """The base of all sections: immutable, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
