"""People's labels go with what they are of: through edited documents and other cuts."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from freshstack_dspy import (
    BuildConfig,
    Collection,
    HumanLabel,
    agree,
    build,
    rechunk,
    refresh,
)
from freshstack_dspy.calibration.correction import correct
from freshstack_dspy.calibration.following import follow, in_full
from freshstack_dspy.calibration.label_files import import_labels
from freshstack_dspy.files import encode_records
from freshstack_dspy.labelling.label_file import LabelFile
from freshstack_dspy.records import LabelTask
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

STEPS = ("Open the case.", "Lift the glass.", "Turn the wheel.", "Wait for noon.", "Close it.")
MANUAL = "".join(
    f"# Step {number}\n\n{step} {'The dial must not move while you do that. ' * 12}\n\n"
    for number, step in enumerate(STEPS, 1)
)


@pytest.fixture
def config(tmp_path: Path) -> BuildConfig:
    """Three questions over a folder with a manual that is cut into several chunks."""
    config = domain(tmp_path, pool={"depth": 20, "top_k": 20}, chunking={"max_tokens": 150})
    (tmp_path / "corpus/docs/manual.md").write_text(MANUAL)
    questions = [
        {"query_id": str(number), "title": f"{step} How?", "body": "dial case", "answer": step}
        for number, step in enumerate(STEPS)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions))
    return config


def labels_of(collection: Collection) -> tuple[HumanLabel, ...]:
    """Labels of every judged pair, of which every seventh differs from the judge's, with texts."""
    labels = [
        HumanLabel(
            query_id=one.query_id,
            nugget_id=one.nugget_id,
            chunk_id=one.chunk_id,
            annotator="ana",
            label=(one.label or 0) if place % 7 else 2 - (one.label or 0),
            evidence=one.evidence,
        )
        for place, one in enumerate(collection.judgments)
    ]
    found = in_full(labels, collection)
    return tuple(one for one in found if isinstance(one, HumanLabel))


def kappa(collection: Collection, labels: Sequence[HumanLabel]) -> float:
    found = agree(collection, labels).metrics["kappa"].judge
    assert found is not None
    assert found.value is not None
    return found.value


def test_labels_follow_passages_that_moved(config: BuildConfig, tmp_path: Path) -> None:
    """Lines above shift every offset of a file; one passage is edited, and its labels are lost."""
    before = build(config, provider=ScriptedProvider())
    labels, path = labels_of(before), tmp_path / "corpus/docs/manual.md"
    was = kappa(before, labels)

    path.write_text(f"# New\n\nThree lines\nthat are new\n{'and long. ' * 130}\n\n{MANUAL}")
    after = refresh(config, provider=ScriptedProvider()).collection
    moved = [one for one in labels if one.chunk_id not in after.corpus.ids]
    assert len(moved) > len(STEPS)
    found = agree(after, labels)
    assert (found.labels, found.lost, found.unjudged) == (len(labels), {}, ())
    assert kappa(after, labels) == pytest.approx(was)
    now = follow(labels, after, after.corpus).labels
    words = {after.chunk(one.chunk_id).text_at(*span) for one in now for span in one.evidence}
    assert words == {words for one in labels for words in one.marked} != set()
    assert correct(after, labels).pairs == len(labels)

    (tmp_path / "corpus/docs/dial.md").write_text("# The dial\n\nThe dial shows Mars.\n")
    edited = refresh(config, provider=ScriptedProvider()).collection
    found = agree(edited, labels)
    [(why, lost)] = found.lost.items()
    assert "edited" in why
    assert {chunk_id.rpartition("/")[2][:7] for *_, chunk_id in lost} == {"dial.md"}
    assert found.labels + len(lost) == len(labels)
    first = next(iter(found.page().parts))
    assert f"{len(lost)} of {len(labels)} labels left out" in str(first)


def test_marked_words_are_followed_where_the_passage_is_edited_around_them(
    config: BuildConfig, tmp_path: Path
) -> None:
    """By the rule of `refresh`; labels without support of such a passage are lost."""
    before, path = build(config, provider=ScriptedProvider()), tmp_path / "corpus/docs/manual.md"
    labels = [one for one in labels_of(before) if "# Step 3" in (one.chunk or "")]
    path.write_text(MANUAL.replace("# Step 3", "# The third step"))
    after = refresh(config, provider=ScriptedProvider()).collection

    now, lost = follow(labels, after, after.corpus)

    (label,) = now
    assert after.chunk(label.chunk_id).text.startswith("# The third step")
    assert [path.read_bytes()[slice(*span)].decode() for span in label.evidence] == [STEPS[2][:-1]]
    assert {one.label for of in lost.values() for one in of} >= {0}


def test_labels_follow_their_evidence_into_other_chunks(
    config: BuildConfig, tmp_path: Path
) -> None:
    """As the judge's do; marked words that are in no chunk as a whole are said to be lost."""
    before = build(config, provider=ScriptedProvider())
    labels = labels_of(before)
    after = rechunk(before, 64, tmp_path / "cut").collection
    found = agree(after, labels)
    judged = {(one.query_id, one.nugget_id, one.chunk_id): one for one in after.judgments}
    followed, lost = follow(labels, after, after.corpus)
    assert found.labels == len(followed) > len(labels)
    unmarked = {(one.label, one.evidence) for of in lost.values() for one in of}
    assert all(label and not evidence for label, evidence in unmarked)
    for one in followed:
        verdict = judged[one.query_id, one.nugget_id, one.chunk_id]
        assert not one.label or one.evidence == verdict.evidence or not verdict.label
    assert kappa(after, labels) == pytest.approx(kappa(before, labels), abs=0.2)

    merged = rechunk(before, 2000, tmp_path / "whole").collection
    assert agree(merged, labels).metrics["kappa"].judge


def test_labels_without_texts_go_by_their_ids_and_can_get_their_texts(
    config: BuildConfig, tmp_path: Path
) -> None:
    """`import-labels` writes the texts, by which they are then followed."""
    before = build(config, provider=ScriptedProvider())
    texts = ("question", "nugget", "chunk", "path")
    bare = [
        one.model_copy(update={**dict.fromkeys(texts), "marked": ()}) for one in labels_of(before)
    ]
    file = tmp_path / "bare.jsonl"
    file.write_bytes(encode_records(bare))
    whole = import_labels([file], "freshstack", before)
    manual = tmp_path / "corpus/docs/manual.md"
    manual.write_text(f"# New\n\n{'A new line. ' * 100}\n\n{MANUAL}")
    after = refresh(config, provider=ScriptedProvider()).collection

    lost = agree(after, bare).lost
    assert [*lost] == ["of a chunk id that is not there, and without the chunk's text"]
    assert agree(after, whole.labels).lost == {}  # type: ignore[arg-type]


def test_the_labels_file_of_an_earlier_state_opens_and_keeps_what_is_lost(
    config: BuildConfig, tmp_path: Path
) -> None:
    before = build(config, provider=ScriptedProvider())
    labels, file = labels_of(before), tmp_path / "ana.jsonl"
    file.write_bytes(data := encode_records(labels))
    manual = tmp_path / "corpus/docs/manual.md"
    manual.write_text(f"# New\n\n{'A new line. ' * 100}\n\n{MANUAL.replace('Lift', 'Raise')}")
    after = refresh(config, provider=ScriptedProvider()).collection
    pairs = {
        ("support", one.query_id, one.nugget_id, one.chunk_id): LabelTask(
            kind="support",
            query_id=one.query_id,
            nugget_id=one.nugget_id,
            chunk_id=one.chunk_id,
        )
        for one in after.judgments
    }
    opened = LabelFile(file, "ana", pairs, after)
    opened.close()
    lost = follow(labels, after, after.corpus).lost
    assert len(opened.labels) == len(labels) - sum(map(len, lost.values()))
    assert [*opened.others] == [one for of in lost.values() for one in of] != []
    assert file.read_bytes() == data
