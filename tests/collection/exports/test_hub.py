"""Pushing a data set; the library's client is replaced, and its signatures are checked."""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, create_autospec

import httpx
import huggingface_hub
import pytest
from huggingface_hub.errors import HfHubHTTPError

from freshstack_dspy.collection.exports import export_collection, push_collection
from freshstack_dspy.errors import CollectionError, ConfigError
from tests.collection.small import files_of, write_small

NAME, TOKEN = "ada/small", "hf_secret_of_a_test"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.org")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    client: MagicMock = create_autospec(huggingface_hub.HfApi)
    monkeypatch.setattr(huggingface_hub, "HfApi", client)
    return client


def test_an_export_is_pushed_as_one_commit(tmp_path: Path, hub: MagicMock) -> None:
    collection = write_small(tmp_path / "c")
    export_collection(collection, "hf", tmp_path / "out")
    uploads: list[dict[str, bytes]] = []
    api = hub.return_value
    api.upload_folder.side_effect = lambda **given: uploads.append(files_of(given["folder_path"]))

    address = push_collection(tmp_path / "c", NAME)

    assert address == f"https://hub.example.org/datasets/{NAME}"
    assert address == push_collection(collection, NAME, replace=True)
    assert uploads == [files_of(tmp_path / "out")] * 2
    hub.assert_called_with(endpoint="https://hub.example.org", token=TOKEN)
    created = [call.kwargs for call in api.create_repo.call_args_list]
    assert [(one["private"], one["exist_ok"]) for one in created] == [(True, False), (True, True)]
    first, second = (call.kwargs for call in api.upload_folder.call_args_list)
    assert first["commit_message"] == f"small, content hash {collection.manifest.content_hash}"
    assert (first["delete_patterns"], second["delete_patterns"]) == (None, "*.parquet")


def refusal(status: int) -> HfHubHTTPError:
    request = httpx.Request("POST", "https://hub.example.org")
    response: Any = httpx.Response(status, request=request)
    return HfHubHTTPError(f"two lines\nwith {TOKEN}", response=response)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (refusal(401), "the hub does not know the token"),
        (refusal(403), "the token of HF_TOKEN may not write there"),
        (refusal(409), "the data set exists; name another, or add --replace"),
        (refusal(400), "HfHubHTTPError: two lines with …"),
        (httpx.ConnectError("no route"), "ConnectError: no route"),
    ],
)
def test_what_the_hub_refuses_is_said_in_one_line(
    tmp_path: Path, hub: MagicMock, error: Exception, message: str
) -> None:
    hub.return_value.create_repo.side_effect = error
    with pytest.raises(CollectionError) as caught:
        push_collection(write_small(tmp_path / "c"), NAME)

    assert message in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("endpoint", "token", "fault"),
    [("https://hub.example.org", " ", "set HF_TOKEN"), ("http://hub.example.org", TOKEN, "https")],
)
def test_without_a_token_or_over_plain_http_nothing_is_sent(
    tmp_path: Path,
    hub: MagicMock,
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str,
    token: str,
    fault: str,
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(ConfigError, match=fault):
        push_collection(write_small(tmp_path / "c"), NAME)

    hub.assert_not_called()
