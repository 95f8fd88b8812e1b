"""Which language a text is in."""

import sys

import pytest

from freshstack_dspy import languages
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.languages import language_of


def test_of_one_language_nothing_is_detected() -> None:
    assert language_of("", ["de"]) == "de"
    assert language_of("How?", []) is None


def test_a_detector_that_is_missing_is_named_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    languages._detector.cache_clear()

    with pytest.raises(ConfigError, match=r"pip install 'freshstack_dspy\[languages\]'; or say"):
        language_of("Warum ist der Server nicht erreichbar?", ["de", "en"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Login schlägt nach Update fehl", "de"),
        ("Login fails after update", "en"),
        (
            "Warum liefert `get_user_name()` hier nichts?\n\n```python\nfor a in the_list: pass\n```",
            "de",
        ),
        ("更新后无法登录", "zh"),
        ("使用Node.js运行服务器，请联系help@example.org或见https://example.org。", "zh"),
        ("Pourquoi le serveur ne répond-il plus ?", None),  # in none of them
        ("502", None),
        ("`pip install x`", None),
        ("API Key", None),  # too short
        ("https://example.org/die/der/das", None),
    ],
)
def test_a_text_is_in_one_of_the_languages_or_undetermined(text: str, found: str | None) -> None:
    assert language_of(text, ["de", "en", "zh"]) == found


def test_a_language_that_the_detector_does_not_know_is_named() -> None:
    with pytest.raises(ConfigError, match="languages names 'xx', which is not told apart"):
        language_of("Warum ist der Server nicht erreichbar?", ["de", "xx"])
