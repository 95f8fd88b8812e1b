"""The Pydantic model and the JSON schema of a signature's answer."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

_inputs: ContextVar[dict[str, Any] | None] = ContextVar("freshstack_inputs", default=None)
_tolerating: ContextVar[bool] = ContextVar("freshstack_tolerating", default=False)


class Answer(BaseModel):
    """The base of answer models: no unknown fields, and validators see the question's inputs."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Validate with the inputs of `validating_against` as the validation context."""
        return super().model_validate_json(
            json_data, **{**options, "context": options.get("context") or _inputs.get()}
        )


@contextmanager
def validating_against(inputs: dict[str, Any]) -> Iterator[None]:
    """Let the validators of all answers inside see these inputs, whoever calls them."""
    token = _inputs.set(inputs)
    try:
        yield
    finally:
        _inputs.reset(token)


@contextmanager
def tolerating_lesser_faults() -> Iterator[None]:
    """Let the validators inside pass faults that are worth a re-ask, but not the whole reply."""
    token = _tolerating.set(True)
    try:
        yield
    finally:
        _tolerating.reset(token)


def tolerates_lesser_faults() -> bool:
    """Whether no better reply came: a validator then passes what the program will count."""
    return _tolerating.get()


@functools.lru_cache(maxsize=256)
def answer_model(signature: Any) -> type[Answer]:
    """The Pydantic model of a signature's outputs, with all their constraints and validators."""
    fields: dict[str, Any] = {}
    for name, field in signature.output_fields.items():
        annotation: Any = field.annotation
        for constraint in field.metadata:
            annotation = Annotated[annotation, constraint]
        fields[name] = (annotation, Field(description=description(field) or None))
    model: type[Answer] = create_model(signature.__name__, __base__=Answer, **fields)
    return model


@functools.lru_cache(maxsize=256)
def answer_schema(signature: Any) -> dict[str, Any]:
    """The JSON schema of a signature's answer, as the prompt and the request hold it."""
    schema: dict[str, Any] = _without_titles(answer_model(signature).model_json_schema())
    return schema


def description(field: FieldInfo) -> str:
    """What the signature says of a field; DSPy writes `${name}` where it says nothing."""
    extra = field.json_schema_extra
    text = str(extra.get("desc", "")) if isinstance(extra, dict) else ""
    return "" if text.startswith("${") else text


def _without_titles(schema: Any) -> Any:
    """Leave out the titles that Pydantic derives from names: they only repeat them."""
    if isinstance(schema, dict):
        return {
            name: _without_titles(value)
            for name, value in schema.items()
            if not (name == "title" and isinstance(value, str))
        }
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    return schema
