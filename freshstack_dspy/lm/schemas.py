"""The JSON schema of an answer: a general one for the prompt, and one of the call for the request.

Servers that decode by a grammar let a model write whatever the schema leaves open, and a small one
then repeats itself until its tokens are used up. The schema of a call leaves it no room: it lists
the numbers that can be named, and bounds lists and texts. The prompt keeps the general schema, so
that the beginning of every prompt of a step is the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

_MARK = "x-bound"


@dataclass(frozen=True)
class Bound:
    """Marks a value, in its annotation, with what the schema of a call says of it.

    Attributes:
        numbers: The input list whose items' `number`s it can be.
        most: The input that says how many items it has, or the number itself.
        times: How many times as many.
        least: Whether it has no fewer either.
        length: The most characters. It is for texts of a sentence: llama.cpp takes fewer than 2,000,
            and outlines makes a state of each, in each item of a list.
        filled: Whether a text is asked for that is not empty, also in the general schema.
    """

    numbers: str | None = None
    most: str | int | None = None
    times: int = 1
    least: bool = False
    length: int | None = None
    filled: bool = False

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        least = {"minLength": 1} if self.filled else {}
        return {**handler(core_schema), **least, _MARK: asdict(self)}


SENTENCE = Bound(length=500)
"""A sentence of 80 words; the longest of the samples has 304 characters."""
Reason = Annotated[str, Bound(length=240, filled=True)]
"""A sentence of why. What it explains stands without it too: a blank one is not sent back."""
NuggetNumber = Annotated[int, Bound(numbers="nuggets")]
ChunkNumber = Annotated[int, Bound(numbers="chunks")]
PassageNumber = Annotated[int, Bound(numbers="passages")]


def without_titles(schema: Any) -> Any:
    """Leave out the titles that Pydantic derives from names: they only repeat them."""
    return _without(schema, lambda name, value: name == "title" and isinstance(value, str))


def without_marks(schema: Any) -> Any:
    """The general schema."""
    return _without(schema, lambda name, _: name == _MARK)


def _without(schema: Any, is_left_out: Callable[[str, Any], bool]) -> Any:
    if isinstance(schema, list):
        return [_without(item, is_left_out) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without(value, is_left_out)
        for name, value in schema.items()
        if not is_left_out(name, value)
    }


def call_schema(marked: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A marked schema with its bounds for these inputs, and without references.

    A bound that the inputs say nothing of is left out.
    """
    definitions = marked.get("$defs", {})

    def bound(node: Any) -> Any:
        if isinstance(node, list):
            return [bound(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            named = definitions[node["$ref"].rpartition("/")[2]]
            node = {**named, **{name: value for name, value in node.items() if name != "$ref"}}
        mark = node.get(_MARK, {})
        made = {name: bound(value) for name, value in node.items() if name not in ("$defs", _MARK)}
        given = inputs.get(mark.get("numbers") or "")
        if isinstance(given, list):
            made["enum"] = sorted({item["number"] for item in given})
        if made.get("type") == "array":
            _bound_list(made, mark, inputs)
        if mark.get("length"):
            made["maxLength"] = mark["length"]
        return made

    schema: dict[str, Any] = bound(dict(marked))
    return schema


def in_order(schema: Any) -> Any:
    """A schema of a call whose lists of one item for each number have these items in their order.

    It leaves a grammar no way to say something twice of one number and nothing of another.
    """
    if isinstance(schema, list):
        return [in_order(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: in_order(value) for name, value in schema.items()}
    properties = schema.get("items", {}).get("properties", {})
    name, numbers = next(((n, p["enum"]) for n, p in properties.items() if "enum" in p), ("", []))
    if name and schema.get("minItems") == schema.get("maxItems") == len(numbers):
        item = schema.pop("items")
        schema["prefixItems"] = [
            {**item, "properties": {**properties, name: {**properties[name], "enum": [number]}}}
            for number in numbers
        ]
    return schema


def _bound_list(made: dict[str, Any], mark: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Bound a list by its mark, or by how many different numbers its items can name."""
    most = mark.get("most")
    most = inputs.get(most) if isinstance(most, str) else most
    item = made["items"]
    if not isinstance(most, int):
        first = (value for value in item.get("properties", {}).values() if "enum" in value)
        named = item if "enum" in item else next(first, {})
        most = len(named["enum"]) if named.get("type") == "integer" else None
    if most is not None:
        most *= mark.get("times", 1)
        made["maxItems"] = most
        if mark.get("least"):
            made["minItems"] = most
    if item.get("enum") == []:  # there is none to name, and an empty `enum` is refused
        made["items"] = {"type": "integer"}
