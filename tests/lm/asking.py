"""Requests and typed questions to try the client with."""

from typing import Annotated, Any

import dspy
from dspy.lm15 import Config, Message, Request, Response, Usage
from pydantic import AfterValidator, BaseModel, Field, ValidationInfo

from freshstack_dspy.errors import TransientModelError
from freshstack_dspy.lm.typed import TypedAdapter, named


def request(text: str = "hello", **config: Any) -> Request:
    """A plain request to the scripted model."""
    return Request(
        model="openai/scripted",
        messages=(Message.user(text),),
        system="be brief",
        config=Config(**config),
    )


class City(BaseModel):
    """A city."""

    name: str = Field(min_length=2)
    people: int = Field(ge=0)


def _in_the_country(cities: list[City], info: ValidationInfo) -> list[City]:
    country = (info.context or {}).get("country", "")
    for city in cities:
        if country == "Atlantis":
            raise ValueError(f"{city.name} is not in {country}")
    return cities


@named
class ListCities(dspy.Signature):
    """List cities."""

    country: str = dspy.InputField()
    cities: Annotated[list[City], AfterValidator(_in_the_country)] = dspy.OutputField(
        min_length=1, max_length=2
    )


PROSE = "Bern has 137,000 people."
BERN = '{"cities": [{"name": "Bern", "people": 137000}]}'


def ask_cities(lm: Any, country: str = "Switzerland", **config: Any) -> Any:
    """Ask the typed question."""
    with dspy.context(lm=lm, adapter=TypedAdapter()):
        return dspy.Predict(ListCities)(country=country, config=config)


class Scribe:
    """A provider, or somebody else's engine, that replies in turn; None is a reply that is lost."""

    def __init__(self, *replies: str | None, usage: Usage | None = None) -> None:
        self.replies = list(replies)
        self.usage = usage or Usage()
        self.asked: list[str] = []

    def complete(self, asked: Request) -> Response:
        """Reply; a lost request may have been worked on."""
        self.asked.append(asked.messages[0].text or "")
        text = self.replies.pop(0)
        if text is None:
            error = TransientModelError("the line went dead")
            error.maybe_billed = True
            raise error
        return Response(
            id=None,
            model=asked.model,
            message=Message.assistant(text),
            finish_reason="stop",
            usage=self.usage,
        )
