"""The parts of DSPy used beyond its documented API; `tests/lm/test_dspy_parts.py` tests them.

If a new version of DSPy moves or changes a part, adapt it here.
"""

from typing import Any

from dspy import lm15
from dspy._vendor.lm15.transports import (
    ProtocolError,
    ReadTimeout,
    StdlibTransport,
    TransportError,
    TransportRequest,
    TransportResponse,
)
from dspy.adapters.decision_state import DecisionState
from dspy.clients._litellm import get_litellm
from dspy.clients.engines import LiteLLMEngine
from dspy.clients.engines.litellm_errors import to_lm15_error
from dspy.utils.exceptions import AdapterParseError, LMError
from dspy.utils.saving import get_dependency_versions

__all__ = [
    "AdapterParseError",
    "DecisionState",
    "LMError",
    "LiteLLMEngine",
    "ProtocolError",
    "ReadTimeout",
    "StdlibTransport",
    "TransportError",
    "TransportRequest",
    "TransportResponse",
    "engine_of",
    "get_dependency_versions",
    "get_litellm",
    "lm15",
    "to_lm15_error",
]


def engine_of(lm: Any) -> Any:
    """The object that answers a `dspy.LM(…, engine=…)` or a `DummyLM`; None where DSPy chooses."""
    engine = getattr(lm, "_engine_spec", None)
    return None if isinstance(engine, str) else engine
