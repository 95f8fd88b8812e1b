"""What is left of a provider's message once it holds no secret."""

import base64
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.lm.engine import presentable

KEY = "sk-planted/0123456789+ab=="
WITH_KEY = ModelConfig(name="openai/a", api_key=SecretStr(KEY))


@pytest.mark.parametrize(
    "echoed",
    [
        KEY,
        quote(KEY),
        quote(KEY, safe=""),
        quote_plus(KEY),
        base64.b64encode(KEY.encode()).decode(),
        base64.b64encode(f":{KEY}".encode()).decode(),
        base64.b64encode(f"{KEY}:".encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
    ],
)
def test_a_key_is_left_out_however_it_is_written(echoed: str) -> None:
    """A provider echoes the header; a client the address, or its Basic authorization."""
    assert presentable(f"bad key {echoed.rstrip('=')}", WITH_KEY) == "bad key [key]"


@given(st.integers(12, len(KEY)))
def test_a_key_that_a_client_cut_is_left_out_too(length: int) -> None:
    assert presentable(f"body starts: {KEY[:length]}", WITH_KEY) == "body starts: [key]"


def test_quotes_and_escapes_do_not_hide_a_key() -> None:
    model = ModelConfig(name="openai/a", api_key=SecretStr('pla"nted\\word'))

    assert presentable(r'{"said": "pla\"nted\\word"}', model) == '{"said": "[key]"}'


@pytest.mark.parametrize("between", ["\0", "\u200b", "\u00ad", "\ufeff"])
def test_what_does_not_print_hides_no_key(between: str) -> None:
    """It is left out of the message; UTF-16 that is read as UTF-8 has a zero in every other place."""
    assert presentable(f"bad key {between.join(KEY)}", WITH_KEY) == "bad key [key]"


def test_a_secret_with_spaces_is_left_out_of_a_message_on_one_line() -> None:
    model = ModelConfig(name="openai/a", api_key=SecretStr("two  planted\u00adwords"))

    assert presentable("no two  planted\u00adwords here", model) == "no [key] here"


def test_a_token_in_the_place_of_the_user_is_a_secret() -> None:
    model = ModelConfig(name="openai/a", api_base="https://plant42@gateway/v1")

    assert presentable("no https://plant42@gateway/v1", model) == "no https://[key]@gateway/v1"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "openai_api_key",
        "MY_KEY_2",
        "DB_PASS",
    ],
)
def test_the_secrets_of_the_environment_are_left_out(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "planted-in-env")

    assert presentable("no planted-in-env", ModelConfig()) == "no [key]"


def test_the_passwords_of_addresses_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPORATE_PROXY", "http://me:planted%21word@proxy:3128")
    basic = base64.b64encode(b"me:planted!word").decode()

    assert presentable(f"planted%21word planted!word {basic}", ModelConfig()) == "[key] [key] [key]"


def test_a_placeholder_does_not_garble_a_message() -> None:
    model = ModelConfig(name="openai/a", api_key=SecretStr("none"))

    assert presentable("none of these", model) == "none of these"


def test_a_message_is_one_short_line_without_control_characters() -> None:
    assert presentable("a\n\tb\x1b[0m\u202ec", ModelConfig()) == "a b[0mc"
    assert len(presentable("x" * 9999, ModelConfig())) == 400
