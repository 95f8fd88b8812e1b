import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshstack_dspy.collection.exports import export_collection, push_collection
from freshstack_dspy.errors import CollectionError, ConfigError
from tests.collection.exports.hub_server import TOKEN, Hub, serving_hub
from tests.collection.small import files_of, write_small

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning:httpx")
NAME = "ada/small"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving_hub() as hub:
        yield hub


@pytest.fixture(autouse=True)
def _plain_path(monkeypatch: pytest.MonkeyPatch, hub: Hub) -> None:
    """Large files go by LFS: xet's protocol is a library of its own that speaks to other servers."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)


@pytest.mark.slow
def test_the_command_pushes_the_export_as_one_commit(tmp_path: Path, hub: Hub) -> None:
    collection = write_small(tmp_path / "c")
    export_collection(collection, "hf", tmp_path / "out")
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "freshstack_dspy", "push", tmp_path / "c", NAME, "--private"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **home},
        timeout=120,
    )
    pushed = hub.repositories[NAME]
    asked = [given for method, _, given in hub.requests if method != "PUT"]

    assert done.returncode == 0, done.stderr
    assert f"{hub.url}/datasets/{NAME}: small pushed" in done.stdout
    assert pushed.private
    assert pushed.files == files_of(tmp_path / "out")
    assert pushed.commits == [f"small, content hash {collection.manifest.content_hash}"]
    # The token goes to the hub, not to where the files are put, and nowhere else.
    assert set(asked) == {f"Bearer {TOKEN}"}
    assert {given for method, _, given in hub.requests if method == "PUT"} == {""}
    assert TOKEN not in done.stdout + done.stderr
    assert [file for file, data in files_of(tmp_path).items() if TOKEN.encode() in data] == []


def test_a_data_set_that_exists_is_left_alone_unless_told_to_update(
    tmp_path: Path, hub: Hub
) -> None:
    collection = write_small(tmp_path / "c")
    address = push_collection(collection, NAME)
    pushed = hub.repositories[NAME]
    pushed.files["corpus/test-old.parquet"] = b"of an older collection"
    pushed.files["notes.txt"] = b"by hand"
    before = dict(pushed.files)
    with pytest.raises(CollectionError, match="the data set exists; name another, or add --update"):
        push_collection(collection, NAME)

    assert before == pushed.files
    assert address == push_collection(collection, NAME, update=True)
    assert not pushed.private
    assert set(before) - set(pushed.files) == {"corpus/test-old.parquet"}


@pytest.mark.parametrize(
    ("token", "forbidden", "broken", "message"),
    [
        ("hf_wrong", False, False, "the token of HF_TOKEN is not known there"),
        (TOKEN, True, False, "the token of HF_TOKEN may not write there"),
        (TOKEN, False, True, "the hub answers 400: BadRequestError: .*the commit failed"),
    ],
)
def test_what_the_hub_refuses_is_said_in_one_line(
    tmp_path: Path,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    token: str,
    forbidden: bool,
    broken: bool,
    message: str,
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    hub.forbidden, hub.broken = forbidden, broken
    with pytest.raises(CollectionError, match=message) as error:
        push_collection(write_small(tmp_path / "c"), NAME)

    assert token not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_hub_that_is_not_there_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_hub() as gone:
        pass
    monkeypatch.setenv("HF_ENDPOINT", gone.url)

    with pytest.raises(CollectionError, match=f"{NAME} could not be pushed to {gone.url}"):
        push_collection(write_small(tmp_path / "c"), NAME)


@pytest.mark.parametrize(
    "repo_id", ["small", "a/b/c", "../x", "a/..", "ada/sm all", "ada/", "a/" + "b" * 96, "a..b/c"]
)
def test_what_is_no_name_of_a_data_set_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo_id: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)

    with pytest.raises(ConfigError, match="is no name of a data set"):
        push_collection(write_small(tmp_path / "c"), repo_id)


def test_without_a_token_or_over_plain_http_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = write_small(tmp_path / "c")
    monkeypatch.setenv("HF_TOKEN", " ")
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    with pytest.raises(ConfigError, match="set HF_TOKEN"):
        push_collection(collection, "ada/small")

    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example.org")
    with pytest.raises(ConfigError, match="in plain text"):
        push_collection(collection, "ada/small")


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("http://[::1", "which is no address"),
        ("https://hub.example.org:port", "which is no address"),
        ("https://", "which is no address"),
        ("https://ada:hunter2@hub.example.org", "a user, a query or a fragment"),
        ("ada:hunter2@hub.example.org", "a user, a query or a fragment"),
        ("https://hub.example.org/?key=hunter2", "a user, a query or a fragment"),
        ("https://hub.example.org/#hunter2", "a user, a query or a fragment"),
    ],
)
def test_an_endpoint_that_is_no_plain_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str, said: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)

    with pytest.raises(ConfigError, match=said) as caught:
        push_collection(write_small(tmp_path / "c"), NAME)

    assert "hunter2" not in str(caught.value)
