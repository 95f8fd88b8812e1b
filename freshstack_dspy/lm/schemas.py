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
_BOUNDS = frozenset(
    "minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum "
    "multipleOf minItems maxItems uniqueItems minProperties maxProperties default".split()
)
_OUTSIDE_STRICT = frozenset(
    "allOf oneOf not if then else patternProperties dependentRequired dependentSchemas "
    "propertyNames contains prefixItems unevaluatedProperties".split()
)
_SCALAR = (str, int, float, type(None))

Schema = dict[str, Any]


@dataclass(frozen=True)
class Bound:
    """Marks a value, in its annotation, with its bounds in the schema of a call.

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

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> Schema:
        least = {"minLength": 1} if self.filled else {}
        return {**handler(core_schema), **least, _MARK: asdict(self)}


SENTENCE = Bound(length=500)
"""A sentence of 80 words; the longest of the samples has 304 characters."""
Reason = Annotated[str, Bound(length=240, filled=True)]
"""A sentence of why. What it explains stands without it too: a blank one is not sent back."""
NuggetNumber = Annotated[int, Bound(numbers="nuggets")]
ChunkNumber = Annotated[int, Bound(numbers="chunks")]
PassageNumber = Annotated[int, Bound(numbers="passages")]


def mapped(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """A schema in which each subschema is replaced by what `change` gives, the innermost first."""
    if isinstance(schema, _SCALAR):
        return schema
    if isinstance(schema, list | tuple):
        return [mapped(item, change) for item in schema]
    inner: Schema = {}
    for name, value in schema.items():
        if isinstance(value, _SCALAR):
            inner[name] = value
        elif name in ("properties", "$defs"):  # the names in it are the signature's own
            inner[name] = {key: mapped(each, change) for key, each in value.items()}
        else:
            inner[name] = mapped(value, change)
    return change(inner)


def without(schema: Any, *keywords: str) -> Any:
    """A schema without some keywords."""
    return mapped(
        schema, lambda node: {name: value for name, value in node.items() if name not in keywords}
    )


def without_titles(schema: Any) -> Any:
    """Leave out the titles that Pydantic derives from names: they only repeat them."""
    return without(schema, "title")


def without_marks(schema: Any) -> Any:
    """The general schema."""
    return without(schema, _MARK)


def call_schema(marked: Mapping[str, Any], inputs: Mapping[str, Any]) -> Schema:
    """A marked schema with its bounds for these inputs, and without references.

    Bounds that the inputs do not determine are left out.
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
        inner = {name: bound(value) for name, value in node.items() if name not in ("$defs", _MARK)}
        items = inputs.get(mark.get("numbers") or "")
        if isinstance(items, list):
            inner["enum"] = sorted({item["number"] for item in items})
        if inner.get("type") == "array":
            _bound_list(inner, mark, inputs)
        if mark.get("length"):
            inner["maxLength"] = mark["length"]
        return inner

    schema: Schema = bound(dict(marked))
    return schema


def _bound_list(node: Schema, mark: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Bound a list by its mark, or by how many different numbers its items can name."""
    most, item = mark.get("most"), node["items"]
    if isinstance(most, str):
        most = inputs.get(most)
    if not isinstance(most, int):
        candidates = [item, *item.get("properties", {}).values()]
        named = next((each for each in candidates if "enum" in each), Schema())
        most = len(named["enum"]) if named.get("type") == "integer" else None
    if most is not None:
        node["maxItems"] = most * mark.get("times", 1)
        if mark.get("least"):
            node["minItems"] = node["maxItems"]
    if item.get("enum") == []:  # there is none to name, and an empty `enum` is refused
        node["items"] = {"type": "integer"}


def in_order(schema: Any) -> Any:
    """A schema of a call whose lists of one item for each number have these items in their order.

    So a grammar cannot name one number twice and leave out another.
    """

    def change(node: Schema) -> Schema:
        if "minItems" not in node or "items" not in node:
            return node
        properties = node["items"].get("properties", {})
        name = next((name for name, each in properties.items() if "enum" in each), None)
        numbers = properties[name]["enum"] if name else []
        if name and node.get("minItems") == node.get("maxItems") == len(numbers):
            item = node.pop("items")
            node["prefixItems"] = [
                {**item, "properties": {**properties, name: {**properties[name], "enum": [number]}}}
                for number in numbers
            ]
        return node

    return mapped(schema, change)


def in_strict_form(schema: Any) -> Any:
    """A schema as strict modes want it: closed objects, all properties required, no bounds."""

    def change(node: Schema) -> Schema:
        if "$ref" in node:
            return {"$ref": node["$ref"]}
        strict = {name: value for name, value in node.items() if name not in _BOUNDS}
        if "const" in strict:
            strict["enum"] = [strict.pop("const")]
        if "properties" in strict:
            strict.setdefault("additionalProperties", False)
            strict["required"] = list(strict["properties"])
        return strict

    return mapped(schema, change)


def fits_strict_modes(schema: Any) -> bool:
    """Whether every object of a schema is closed, with all properties required."""
    faults: list[Schema] = []

    def check(node: Schema) -> Schema:
        fits = _OUTSIDE_STRICT.isdisjoint(node)
        if node.get("type") == "object" or "properties" in node:
            is_complete = set(node.get("required", ())) == set(node.get("properties", ()))
            fits = fits and is_complete and node.get("additionalProperties") is False
        if not fits:
            faults.append(node)
        return node

    mapped(schema, check)
    return not faults
