"""Which engine does the work, and what is said where it cannot."""

import importlib.util

import pytest

from freshstack_dspy.config import EngineConfig
from freshstack_dspy.engines import mapper
from freshstack_dspy.errors import EngineError


def doubled(number: int) -> int:
    return 2 * number


def test_the_local_engine_is_this_machine() -> None:
    assert list(mapper(EngineConfig())(doubled, range(3))) == [0, 2, 4]


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_an_engine_that_is_not_installed_is_named_with_its_extra() -> None:
    with pytest.raises(
        EngineError, match=r"install it with: pip install 'freshstack_dspy\[ray\]'$"
    ):
        mapper(EngineConfig(name="ray"))
