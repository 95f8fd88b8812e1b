"""TREC Auto-Judge, by the plug-in `plugins/autojudge`."""

import pytest

pytest.importorskip("freshstack_autojudge", reason="pip install ./plugins/autojudge")
