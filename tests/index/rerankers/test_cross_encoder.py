"""Rerankers in a folder, run for real where the `transformers` extra is installed."""

from pathlib import Path

import pytest

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.connecting import connect_reranker
from freshstack_dspy.index.models import Reranker
from freshstack_dspy.lm.vectors import Access
from tests.index.embedders.hosting import build_config
from tests.index.embedders.tiny_models import tiny_cross_encoder

pytest.importorskip(
    "sentence_transformers", reason="needs the transformers extra", exc_type=ImportError
)
pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own


def reranker(folder: Path) -> Reranker:
    found = connect_reranker(build_config(reranker={"path": folder}), Access("replay"))
    assert found is not None
    return found


def test_each_pair_has_the_score_of_the_library(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    folder = tiny_cross_encoder(tmp_path / "tiny")
    passages = ["red", "green blue", "store"]
    model = CrossEncoder(str(folder), local_files_only=True)
    expected = model.predict([("query", passage) for passage in passages])

    found = reranker(folder).scores("query", passages)

    assert found == pytest.approx(expected.tolist(), abs=1e-5)
    assert reranker(folder).scores("query", []) == []


def test_a_classifier_is_no_reranker(tmp_path: Path) -> None:
    folder = tiny_cross_encoder(tmp_path / "tiny", labels=3)

    with pytest.raises(ConfigError, match="this model gives 3: it is a classifier"):
        reranker(folder).scores("query", ["red", "blue"])
