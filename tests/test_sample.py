"""The sample: it is rebuilt from its recorded replies, and the README tells the truth about it."""

import json
from collections import Counter
from pathlib import Path

import pytest

from freshstack_dspy import Collection, build, evaluate, load_config, retrieve

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "examples/quickstart"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return rebuilt("quickstart", tmp_path_factory.mktemp("sample"))


def rebuilt(name: str, folder: Path) -> Collection:
    """Build an example from its recorded replies alone."""
    config = load_config(ROOT / f"examples/{name}/build.toml")
    elsewhere = config.model_copy(
        update={
            "out": folder / "collection",
            "index": config.index.model_copy(update={"path": folder / "index"}),
            "cache": config.cache.model_copy(update={"path": folder / "cache"}),
        }
    )
    return build(elsewhere, mode="replay")


def test_the_readme_names_its_content(sample: Collection) -> None:
    assert sample.manifest.content_hash in README


def test_two_questions_cannot_be_answered_from_the_corpus(sample: Collection) -> None:
    unanswerable = [part.query_id for part in sample.slices if part.slice == "unanswerable"]

    assert Counter(part.slice for part in sample.slices) == {
        "answerable": 12,
        "partly_supported": 4,
        "unanswerable": 2,
    }
    assert unanswerable == ["1017", "1018"]


@pytest.mark.parametrize("retriever", ["bm25", "hybrid"])
def test_the_readme_prints_what_its_retrievers_reach(
    sample: Collection, retriever: str, tmp_path: Path
) -> None:
    evaluation = evaluate(sample.qrels(), retrieve(sample, retriever, index_path=tmp_path))
    lines = README.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith(f"│ {retriever}.run "))

    rows = [line.split("│")[2:-1] for line in lines[place : place + 3]]
    columns = [[*filter(None, map(str.strip, column))] for column in zip(*rows, strict=True)]
    assert [f"{value:.4f}" for value in evaluation.means.values()] == [one[0] for one in columns]
    shares = [f"unjudged {of.mean:.1%}" for of in evaluation.unjudged]
    assert shares == [one[-1] for one in columns]


def test_every_label_of_support_has_its_words_in_the_files(sample: Collection) -> None:
    supporting = [one for one in sample.judgments if one.label]
    for one in supporting:
        chunk = sample.chunk(one.chunk_id)
        data = (QUICKSTART / "corpus" / chunk.source / chunk.path).read_bytes()
        assert one.evidence
        for start, end in one.evidence:
            assert chunk.start_byte <= start < end <= chunk.end_byte
            assert data[start:end].decode(chunk.encoding).strip() in chunk.text
    assert len(supporting) == sample.manifest.counts.evidence == 284


def test_every_written_answer_is_used(sample: Collection) -> None:
    """What is written for a chunk that is no longer pooled would be dead weight."""
    pooled = Counter(candidate.query_id for candidate in sample.pool)
    for path in sorted((QUICKSTART / "answers").glob("*.json")):
        written = json.loads(path.read_text(encoding="utf-8"))
        assert len(written["verdicts"]) == pooled[path.stem], path.name


def test_the_example_of_recipe_crux_is_rebuilt_from_its_replies(tmp_path: Path) -> None:
    made = rebuilt("crux", tmp_path)

    assert {(one.query_id, one.nuggets, one.supported) for one in made.slices} == {
        ("aldby", 6, 5),
        ("tarn", 6, 5),
    }
    (failure,) = made.failures
    assert failure.message.endswith("says what its document does not: 2019, Zurich")


def test_nuggets_of_questions_without_answers_come_from_passages(tmp_path: Path) -> None:
    made = rebuilt("nuggets", tmp_path)

    assert {part.query_id: (part.slice, part.nuggets) for part in made.slices} == {
        "1003": ("answerable", 5),
        "1006": ("answerable", 5),
        "1011": ("answerable", 5),
        "1018": ("unanswerable", 0),
    }
    assert not made.failures
    supporting = {(one.nugget_id, one.chunk_id) for one in made.judgments if one.label}
    for nugget in made.nuggets:
        assert nugget.chunk_ids
        assert {(nugget.nugget_id, chunk_id) for chunk_id in nugget.chunk_ids} <= supporting
