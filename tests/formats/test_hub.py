"""Pushing to the hub of Hugging Face, of which this is a stand-in."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from freshstack_dspy import export_collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.formats.hugging_face import push_collection
from tests.collection.small import files_of, write_small

NAME, TOKEN = "ada/small", "hf_secret_of_a_test"


class Hub:
    """What was asked for, with which token; the status of an error to raise."""

    status = 0

    def __init__(self) -> None:
        self.created: dict[str, Any] = {}
        self.uploaded: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}

    def __call__(self, endpoint: str, token: str) -> "Hub":
        self.endpoint, self.token = endpoint, token
        return self

    def create_repo(self, name: str, **options: Any) -> None:
        self.created = {"name": name, **options}
        if self.status:
            request = httpx.Request("POST", self.endpoint)
            response = httpx.Response(self.status, request=request)
            message = f"refused:\n{self.token}"
            raise httpx.HTTPStatusError(message, request=request, response=response)

    def upload_folder(self, *, folder_path: Path, **options: Any) -> None:
        self.uploaded, self.files = options, files_of(folder_path)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", hub)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.org/")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return hub


def test_the_export_is_pushed_as_one_commit(tmp_path: Path, hub: Hub) -> None:
    collection = write_small(tmp_path / "c")
    export_collection(collection, "hf", tmp_path / "out")

    assert push_collection(tmp_path / "c", NAME) == f"https://hub.example.org/datasets/{NAME}"
    assert hub.created == {"name": NAME, "repo_type": "dataset", "private": True, "exist_ok": False}
    assert hub.files == files_of(tmp_path / "out")
    message = f"small, content hash {collection.manifest.content_hash}"
    assert (hub.uploaded["repo_id"], hub.uploaded["commit_message"]) == (NAME, message)
    assert not hub.uploaded["delete_patterns"]
    push_collection(tmp_path / "c", NAME, replace=True)
    assert hub.created["exist_ok"]
    assert hub.uploaded["delete_patterns"] == "*.parquet"
    assert [file for file, data in files_of(tmp_path).items() if TOKEN.encode() in data] == []


@pytest.mark.parametrize(("status", "message"), [(401, "refused"), (409, "the data set exists")])
def test_what_the_hub_refuses_is_said_in_one_line_without_the_token(
    tmp_path: Path, hub: Hub, status: int, message: str
) -> None:
    hub.status = status
    with pytest.raises(CollectionError, match=message) as error:
        push_collection(write_small(tmp_path / "c"), NAME)

    assert TOKEN not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HF_TOKEN", " ", "set HF_TOKEN"),
        ("HF_ENDPOINT", "http://hub.example.org", "does not begin with https"),
    ],
)
def test_without_a_token_or_over_plain_http_nothing_is_sent(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        push_collection(write_small(tmp_path / "c"), NAME)
    assert not hub.created
