"""Our transport in the shape that httpx, and with it LiteLLM and the OpenAI SDK, asks for."""

import httpx

from freshstack_dspy.lm.provider.connection import NoReplyError, UnsendableError
from freshstack_dspy.lm.provider.telemetry import describes_the_machine
from freshstack_dspy.lm.provider.transport import Transport

_OURS = ("accept-encoding", "connection", "content-length", "transfer-encoding")
"""Headers that the transport writes itself."""


class OverHttpx(httpx.BaseTransport):
    """httpx over our transport, with each request's own read timeout as its deadline."""

    def __init__(self) -> None:
        self._transport = Transport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Exchange one request for its whole reply.

        Raises:
            httpx.NetworkError: There is none; its cause is a `NoReplyError`.
            httpx.LocalProtocolError: It cannot be sent; its cause is an `UnsendableError`.
        """
        url = request.url
        seconds = request.extensions.get("timeout", {}).get("read")
        headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers.raw]
        try:
            reply = self._transport.send(
                request.method,
                # Without the user and password, which httpx has made a header of.
                f"{url.scheme}://{url.netloc.decode()}{url.raw_path.decode()}",
                [pair for pair in headers if not _left_out(pair[0])],
                request.read(),
                **({"seconds": seconds} if seconds else {}),
            )
        except NoReplyError as error:
            raise httpx.NetworkError(str(error), request=request) from error
        except UnsendableError as error:
            raise httpx.LocalProtocolError(str(error), request=request) from error
        # A redirect is not followed: the prompt, and the key, are for the address that was named.
        kept = [pair for pair in reply.headers if pair[0].lower() != "location"]
        return httpx.Response(reply.status, headers=kept, content=reply.body, request=request)

    def close(self) -> None:
        """Close the idle connections; the next request opens one again."""
        self._transport.close()


def _left_out(header: str) -> bool:
    return header.lower() in _OURS or describes_the_machine(header)
