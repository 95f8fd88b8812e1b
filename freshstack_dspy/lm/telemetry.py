"""What LiteLLM, and the libraries that it uses, send or fetch of their own accord, turned off.

DSPy, instructor, LanceDB, bm25s, diskcache, the OpenAI SDK, tiktoken, rich and typer send nothing.
A variable that is set already is left as it is.
"""

import os

_SWITCHES = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # fetches its table of prices when it is imported
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # fetches a list of headers with some calls
    "LITELLM_LOCAL_BLOG_POSTS": "True",  # fetches its news
    "LITELLM_DISABLE_BUG_REPORT_LINK": "True",  # puts a link with a report into its errors
    "LITELLM_LOG": "CRITICAL",  # prints advice, and tracebacks of errors that it raises as well
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_XET_TELEMETRY_ENABLED": "0",
    "DO_NOT_TRACK": "1",
}
_DESCRIBING = ("x-stainless-", "x-pplx-integration", "request-source")


def turn_off() -> None:
    """Set the switches, which are read when the libraries are imported."""
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)


def describes_the_machine(header: str) -> bool:
    """Whether a header tells the provider of the system and the client, and nothing it needs."""
    return header.lower().startswith(_DESCRIBING)
