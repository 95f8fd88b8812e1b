import subprocess
import sys
import types
from pathlib import Path

from freshstack_dspy import measures

ROOT = Path(__file__).resolve().parents[2]


def test_the_public_names_are_those_that_are_visible() -> None:
    visible = {
        name
        for name, value in vars(measures).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert visible == set(measures.__all__)


def test_importing_the_measures_loads_nothing_heavy() -> None:
    code = "import sys, freshstack_dspy.measures; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()

    assert "freshstack_dspy.measures" in loaded
    assert not {"numpy", "scipy", "sklearn", "pyndeval", "pytrec_eval"} & set(loaded)
