"""What holds for every test: no network but the loopback, no home, no keys."""

import asyncio
import functools
import gc
import importlib.metadata
import os
import socket
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import diskcache.core
import pytest
import trustme
import typer
import typer.main
from hypothesis import settings

# No deadlines: a busy machine is no failure.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("nightly", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("FRESHSTACK_TESTS", "quick"))
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PROVIDER_SETTINGS = ("_API_KEY", "_API_BASE", "_BASE_URL", "_PROXY", "_proxy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What all tests import stays: it is not searched for garbage again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def _network_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stray call fails at once, instead of costing money or depending on somebody's server."""

    def guarded(name: str) -> Any:
        connect = getattr(socket.socket, name)

        def local_only(self: socket.socket, address: Any) -> Any:
            if self.family != socket.AF_UNIX and address[0] not in _LOOPBACK:
                raise AssertionError(f"a test tried to reach {address!r}; the network is off")
            return connect(self, address)

        return local_only

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(name))


@pytest.fixture(autouse=True)
def _nothing_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The user's home, caches and keys neither help a test nor are touched by it."""
    home = _home(tmp_path_factory)
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "DSPY_CACHEDIR"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    for name in list(os.environ):
        if name.endswith(_PROVIDER_SETTINGS):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_made_twice_that_is_always_the_same() -> Iterator[None]:
    """Parser and installed packages; and no test depends on what a power cut leaves behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        installed = functools.cache(importlib.metadata.packages_distributions)
        patch.setattr(importlib.metadata, "packages_distributions", installed)
        patch.setattr(os, "fsync", lambda _: None)
        patch.setitem(diskcache.core.DEFAULT_SETTINGS, "sqlite_synchronous", 0)
        yield


@pytest.fixture(autouse=True, scope="session")
def _certificates_are_few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each HTTP client reads all that it trusts; those of the machine take longer than a test."""
    path = _home(tmp_path_factory) / "certificates.pem"
    trustme.CA().cert_pem.write_to_path(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield


@pytest.fixture(autouse=True)
def _event_loop_is_closed() -> Iterator[None]:
    """LiteLLM asks for the thread's event loop, and would leave one behind unclosed."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    return home
