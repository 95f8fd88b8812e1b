"""A question as the signatures show it to a model, and the base of what stands in prompts."""

import reprlib
from typing import Self

from pydantic import BaseModel, ConfigDict

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.records import Query


class PromptPart(BaseModel):
    """A part of a question or an answer; it has no other fields than these."""

    model_config = ConfigDict(extra="forbid")


class ShownQuestion(PromptPart):
    """A question as a model is shown it, without the fields that are empty."""

    title: str = ""
    body: str = ""
    asked: str = ""
    """The date, as 2017-05-16."""
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: Query) -> Self:
        """What a model is shown of a query; never its answer."""
        if not isinstance(query, Query):
            raise ConfigError(
                f"the query is {reprlib.repr(query)}; give a Query, such as Query(query_id='1', "
                "title='…', body='…', answer='…')"
            )
        day = (query.asked_at or "")[:10]
        return cls(title=query.title, body=query.body, asked=day, tags=query.tags)

    @property
    def text(self) -> str:
        """Title and body, as `Query.text`."""
        return f"{self.title} {self.body}".strip()
