"""JSON text, byte for byte as `json` writes it: recorded keys depend on it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.request import canonical, indented, quoted

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)


@given(VALUES)
def test_indented_text_is_that_of_json(value: object) -> None:
    assert indented(value) == json.dumps(value, ensure_ascii=False, indent=1)


@given(VALUES)
def test_canonical_text_is_that_of_json(value: object) -> None:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert canonical(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        canonical({"a": [value]})


@given(st.text(st.characters(exclude_categories=())))
def test_a_string_is_quoted_as_json_does(text: str) -> None:
    for one in (text, text * 300):
        assert quoted(one) == json.dumps(one, ensure_ascii=False)


@pytest.mark.parametrize("text", [*map(chr, range(0x100)), "\u2028", "\ud83d", "\ufeff🥶", '"\\/'])
def test_every_character_that_may_need_an_escape(text: str) -> None:
    for one in (text, text * 300):
        assert quoted(one) == json.dumps(one, ensure_ascii=False)
