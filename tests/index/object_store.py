"""A server of S3 on this machine."""

import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest


def _command() -> list[str]:
    if importlib.util.find_spec("moto"):
        return [sys.executable, "-m", "moto.server"]
    found = shutil.which("moto_server")
    return [found] if found else []


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Its address."""
    if not (command := _command()):
        pytest.skip("needs moto_server, of the package moto[server]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = subprocess.Popen([*command, "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def environment_of(server: str) -> dict[str, str]:
    """What LanceDB needs to know of it."""
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "planted-secret-91c7",
    }


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store that has one bucket, `bucket`."""
    from pyarrow.fs import S3FileSystem

    for name, value in environment_of(server).items():
        monkeypatch.setenv(name, value)
    files = S3FileSystem(endpoint_override=server, allow_bucket_creation=True)
    files.create_dir("bucket")
    files.delete_dir_contents("bucket")
    return server
