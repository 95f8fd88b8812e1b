"""The chunks of a collection that stands, in place of cutting the same files again."""

from pathlib import Path

import pytest

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.corpus import CutCorpus, cut_corpus
from freshstack_dspy.recipes.fingerprints import fingerprint_inputs
from freshstack_dspy.recipes.progress import Silence
from freshstack_dspy.recipes.standing_chunks import standing_chunks

from .domain import domain
from .scripted import ScriptedProvider


def standing(config: BuildConfig) -> CutCorpus | None:
    return standing_chunks(config, fingerprint_inputs(config))


@pytest.fixture
def built(tmp_path: Path) -> BuildConfig:
    config = domain(tmp_path)
    build(config, provider=ScriptedProvider())
    return config


def test_they_are_those_that_cutting_gives(built: BuildConfig, tmp_path: Path) -> None:
    """Also for a build with other questions, another judge and other filters."""
    other = domain(
        tmp_path,
        judge={"batch": 1},
        model={"name": "openai/other"},
        queries={"limit": 1},
        filters={"unsupported_nuggets": "keep"},
    )
    cut = cut_corpus(other, Silence())

    for config in (built, other):
        found = standing(config)

        assert found is not None
        assert found.chunks == sorted(cut.chunks, key=lambda chunk: chunk.chunk_id)
        assert found.skipped == cut.skipped


@pytest.mark.parametrize("setting", [{"max_tokens": 64}, {"max_file_bytes": 10_000}])
def test_other_cutting_is_done(built: BuildConfig, tmp_path: Path, setting: dict[str, int]) -> None:
    assert standing(built) is not None

    assert standing(domain(tmp_path, chunking=setting)) is None


def test_other_files_are_cut(built: BuildConfig, tmp_path: Path) -> None:
    (tmp_path / "corpus/src/phase.py").write_text("pass\n")

    assert standing(built) is None


@pytest.mark.parametrize("name", ["corpus.parquet", "skipped.jsonl", "manifest.json"])
def test_a_damaged_collection_is_not_believed(built: BuildConfig, name: str) -> None:
    path = built.out / name
    path.write_bytes(path.read_bytes()[:-9] + b"}\n")

    assert standing(built) is None


def test_without_a_collection_there_are_none(tmp_path: Path) -> None:
    assert standing(domain(tmp_path)) is None
