import os
from pathlib import Path

import pytest

from freshstack_dspy.collection.imports.foreign import read_lines
from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import json_file


def test_a_pipe_is_refused_unopened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")

    with pytest.raises(SourceError, match=r"pipe\.json: cannot be read: not a regular file"):
        json_file(tmp_path / "pipe.json")
    with pytest.raises(SourceError, match=r"pipe\.json: cannot be read: not a regular file"):
        list(read_lines(tmp_path / "pipe.json"))
