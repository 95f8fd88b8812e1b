import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshstack_dspy import export_collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.formats.hugging_face import push_collection
from tests.collection.small import files_of, write_small
from tests.formats.hub_server import TOKEN, Hub, serving_hub

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning:httpx")
NAME = "ada/small"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving_hub() as hub:
        yield hub


@pytest.fixture(autouse=True)
def _plain_path(monkeypatch: pytest.MonkeyPatch, hub: Hub) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)


@pytest.mark.slow
def test_the_command_pushes_the_export_as_one_commit(tmp_path: Path, hub: Hub) -> None:
    collection = write_small(tmp_path / "c")
    export_collection(collection, "hf", tmp_path / "out")
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    words = ["export", str(tmp_path / "c"), "--format", "hf", "--push", NAME]
    done = subprocess.run(
        [sys.executable, "-m", "freshstack_dspy", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **home},
        timeout=120,
    )
    pushed = hub.repositories[NAME]

    assert done.returncode == 0, done.stderr
    assert f"{hub.url}/datasets/{NAME}: " in done.stdout
    assert pushed.private
    assert pushed.files == files_of(tmp_path / "out")
    assert pushed.commits == [f"small, content hash {collection.manifest.content_hash}"]
    # The token goes to the hub, and nowhere else.
    assert {given for _, _, given in hub.requests} == {f"Bearer {TOKEN}"}
    assert TOKEN not in done.stdout + done.stderr
    assert [file for file, data in files_of(tmp_path).items() if TOKEN.encode() in data] == []


@pytest.mark.parametrize(
    ("token", "forbidden", "broken", "message"),
    [
        ("hf_wrong", False, False, "Error: .*401"),
        (TOKEN, True, False, "Error: .*403"),
        (TOKEN, False, True, "BadRequestError: .*the commit failed"),
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
    with pytest.raises(ConfigError, match="does not begin with https"):
        push_collection(collection, "ada/small")
