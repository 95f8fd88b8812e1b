"""What comes of an exchange with a server: the whole reply in time, or the reason why not."""

import gzip
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme

from freshstack_dspy.lm import engine as connections
from freshstack_dspy.lm.engine import HttpReply, NoReplyError, Transport, UnsendableError, watched
from tests.lm.chat_server import ChatServer

from .raw_server import Speech, heard, saying, silent, speaking, trickling

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthere"
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def exchanged(url: str, seconds: float = 5.0, body: bytes = b"{}", **headers: str) -> HttpReply:
    transport = Transport()
    try:
        return transport.send("POST", url, list(headers.items()), body, seconds)
    finally:
        transport.close()


@pytest.mark.parametrize(
    "speech",
    [
        trickling(b""),
        trickling(b"HTTP/1.1 200 OK\r\nX-Long: "),
        trickling(LONG),
        trickling(CHUNKED + b"fffff\r\n"),
        trickling(b"HTTP/1.1 200 OK\r\n\r\n"),
        silent(),
        silent(LONG),
    ],
)
def test_whatever_takes_longer_ends_at_the_deadline_with_the_connection_closed(
    speech: Speech,
) -> None:
    """A timeout of a socket begins anew with every byte; this is one from the beginning."""
    with speaking(speech) as server:
        with pytest.raises(NoReplyError, match=r"no whole reply within 0\.3 s") as caught:
            exchanged(f"http://{server.address}/v1", 0.3)

        assert caught.value.maybe_billed
        assert server.hung_up.wait(10)


def test_a_request_that_nobody_reads_ends_at_the_deadline_unbilled() -> None:
    given_up = threading.Event()

    def read_nothing(_: socket.socket) -> None:
        given_up.wait(10)

    with speaking(read_nothing) as server:
        with pytest.raises(NoReplyError, match="no whole reply within") as caught:
            exchanged(f"http://{server.address}/v1", 0.3, b"x" * 50_000_000)
        given_up.set()

        assert not caught.value.maybe_billed


def test_a_server_that_never_accepts_ends_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(3)]
        for other in waiting:
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        with pytest.raises(NoReplyError, match=r"no connection to .* in time") as caught:
            exchanged(f"http://127.0.0.1:{full.getsockname()[1]}/v1", 0.3)
        for other in waiting:
            other.close()

    assert not caught.value.maybe_billed


def test_a_handshake_without_an_answer_ends_at_the_deadline() -> None:
    with speaking(silent()) as server:
        with pytest.raises(NoReplyError, match=r"no connection to .* in time") as caught:
            exchanged(f"https://{server.address}/v1", 0.3)

        assert server.hung_up.wait(10)
    assert not caught.value.maybe_billed


def test_the_exchanges_of_one_attempt_share_its_deadline() -> None:
    with speaking(silent()) as server, watched(0.3) as wire:
        for _ in range(2):
            with pytest.raises(NoReplyError, match=r"within 0\.3 s|in time"):
                exchanged(f"http://{server.address}/v1", 60.0)

    assert isinstance(wire.failure, NoReplyError)
    assert wire.reply is None


@pytest.mark.parametrize(
    ("speech", "said"),
    [
        (saying(), "broke before there was a whole reply"),
        (saying(LONG + b"short"), "broke before there was a whole reply"),
        (saying(CHUNKED + b"5\r\nthe"), "broke before there was a whole reply"),
        (saying(CHUNKED + b"zz\r\nthere\r\n0\r\n\r\n"), "broke before|cannot be read"),
        (saying(b"SSH-2.0-OpenSSH\r\n"), "cannot be read"),
        (saying(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"\r\n"), "cannot be read"),
        (saying(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000), "cannot be read"),
        (
            saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno"),
            "cannot be read",
        ),
    ],
)
def test_a_reply_that_is_not_whole_may_have_been_billed(speech: Speech, said: str) -> None:
    with speaking(speech) as server, pytest.raises(NoReplyError, match=said) as caught:
        exchanged(f"http://{server.address}/v1")

    assert caught.value.maybe_billed


def test_a_reply_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_LONGEST_BODY", 1 << 20)
    bomb = gzip.compress(bytes(1 << 22))
    compressed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb
    for speech in (saying(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1 << 22)), saying(compressed)):
        with speaking(speech) as server, pytest.raises(NoReplyError, match="longer than 1 MiB"):
            exchanged(f"http://{server.address}/v1")


@pytest.mark.parametrize(
    "speech",
    [
        saying(OK),
        saying(CHUNKED + b"2\r\nth\r\n3\r\nere\r\n0\r\n\r\n"),
        saying(b"HTTP/1.0 200 OK\r\n\r\nthere"),
        saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"there")),
        saying(b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
        saying(OK[:9], OK[9:30], OK[30:]),
    ],
)
def test_whatever_way_a_reply_is_framed_it_is_read_whole(speech: Speech) -> None:
    with speaking(speech) as server:
        reply = exchanged(f"http://{server.address}/v1?a=b", Authorization="Bearer planted")

        assert (reply.status, reply.read(), b"".join(reply)) == (200, b"there", b"there")
        assert server.requests[0].startswith(b"POST /v1?a=b HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"Authorization: Bearer planted\r\n" in server.requests[0]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9/v1", r"no connection to 127\.0\.0\.1:9 \(Connection refused\)"),
        ("https://127.0.0.1:9/v1", r"no connection to 127\.0\.0\.1:9 \(Connection refused\)"),
        ("http://nowhere.invalid/v1", r"there is no host 'nowhere\.invalid'"),
    ],
)
def test_where_nobody_is_nothing_can_have_been_billed(url: str, said: str) -> None:
    with pytest.raises(NoReplyError, match=said) as caught:
        exchanged(url)

    assert not caught.value.maybe_billed


@pytest.mark.parametrize(
    "key", ["planted\nkey", "planted\x00key", "planted — key", "planted\n key"]
)
def test_a_key_that_no_header_may_hold_is_said_without_the_key(key: str) -> None:
    with speaking(saying(OK)) as server, pytest.raises(UnsendableError) as caught:
        exchanged(f"http://{server.address}/v1", Authorization=f"Bearer {key}")

    assert "plant" not in str(caught.value)


def test_a_connection_is_used_again_and_not_when_the_server_has_closed_it() -> None:
    def twice(connection: socket.socket) -> None:
        connection.sendall(OK)
        heard(connection)
        connection.sendall(OK)

    with speaking(twice) as server:
        transport = Transport()
        for number in range(4):
            url = f"http://{server.address}/v1"

            assert transport.send("POST", url, [], b"{}", 5.0).body == b"there"
            assert number % 2 == 0 or server.closed.acquire(timeout=10)
        transport.close()

        assert len(server.requests) == 2


def test_a_connection_that_the_server_means_to_close_is_not_kept() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with speaking(saying(closing)) as server:
        transport = Transport()
        for _ in range(3):
            transport.send("POST", f"http://{server.address}/v1", [], b"{}", 5.0)

        assert len(server.requests) == 3
        assert not any(transport._idle.values())


def test_many_threads_share_a_transport() -> None:
    """As many requests as [model] concurrency allows, none of which waits for a connection."""
    together = threading.Barrier(64)

    def all_at_once(connection: socket.socket) -> None:
        together.wait(30)
        connection.sendall(OK)

    with speaking(all_at_once) as server, ThreadPoolExecutor(64) as pool:
        transport = Transport()
        url = f"http://{server.address}/v1"
        replies = pool.map(lambda _: transport.send("POST", url, [], b"{}", 30.0), range(64))

        assert [reply.body for reply in replies] == [b"there"] * 64
        transport.close()


def test_an_attempt_holds_what_came_last() -> None:
    with speaking(saying(OK)) as server, watched(5.0) as wire:
        reply = exchanged(f"http://{server.address}/v1")

        assert (wire.reply, wire.failure) == (reply, None)


class TestProxy:
    """The environment's proxy, with its password."""

    def test_a_plain_request_goes_through_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with speaking(saying(OK)) as proxy:
            monkeypatch.setenv("http_proxy", f"http://me:pass%21@{proxy.address}")

            assert exchanged("http://models.invalid/v1").body == b"there"
            assert proxy.requests[0].startswith(b"POST http://models.invalid:80/v1 HTTP/1.1\r\n")
            assert b"Host: models.invalid" in proxy.requests[0]
            assert b"Proxy-Authorization: Basic bWU6cGFzcyE=\r\n" in proxy.requests[0]

    def test_it_is_left_out_for_the_hosts_that_are_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with speaking(saying(OK)) as server:
            assert exchanged(f"http://{server.address}/v1").body == b"there"

    def test_a_refused_tunnel_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with speaking(saying(b"HTTP/1.1 403 Forbidden\r\n\r\n")) as proxy:
            monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
            with pytest.raises(NoReplyError, match="the proxy said 403 Forbidden"):
                exchanged("https://models.invalid/v1")

            assert proxy.requests[0].startswith(b"CONNECT models.invalid:443 HTTP/1.1\r\n")

    def test_a_kind_that_is_not_known_is_said_without_its_password(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("https_proxy", "socks5://me:planted@127.0.0.1:9")
        with pytest.raises(UnsendableError, match="of kind 'socks5'") as caught:
            exchanged("https://models.invalid/v1")

        assert "planted" not in str(caught.value)


def test_a_server_without_tls_is_said(server: ChatServer) -> None:
    with pytest.raises(NoReplyError, match="no TLS with") as caught:
        exchanged(server.api_base.replace("http:", "https:"))

    assert not caught.value.maybe_billed


def test_tls_is_spoken_with_those_only_whose_certificate_is_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    certificate = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(certificate))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(served)
    with speaking(saying(OK), served) as server:
        with pytest.raises(NoReplyError, match=r"is not trusted .* SSL_CERT_FILE"):
            exchanged(f"https://{server.address}/v1")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        connections._tls.cache_clear()

        assert exchanged(f"https://{server.address}/v1").body == b"there"

    connections._tls.cache_clear()
