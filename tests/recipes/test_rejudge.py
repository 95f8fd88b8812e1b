"""Every judged pair is judged again, and no other; the labels of before are the reference."""

from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.diff import Difference, JudgmentChange
from freshstack_dspy.collection.imports import import_collection
from freshstack_dspy.collection.validate import validate
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.agreement import weighted_kappa
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.rejudge import LabelAgreement, Rejudged, label_agreement, rejudge
from tests.collection.imports.foreign import beir, freshstack, freshstack_row, json_lines
from tests.recipes.domain import domain, files_of
from tests.recipes.scripted import ScriptedProvider


def again(path: Path, folder: Path, judge: str = "") -> Rejudged:
    (folder / "judge.toml").write_text(f'[model]\nname = "extractive/baseline"\n[judge]\n{judge}\n')
    return rejudge(path, folder / "judge.toml", folder / "new")


def agreement(old: Collection, new: Collection) -> LabelAgreement:
    return label_agreement(old.judgments, new.judgments, old.manifest.scale, new.manifest.scale)


def collection_of(rejudged: Rejudged) -> Collection:
    assert rejudged.collection is not None
    return rejudged.collection


def difference_of(rejudged: Rejudged) -> Difference:
    assert rejudged.difference is not None
    return rejudged.difference


def test_the_same_pairs_get_new_labels(tmp_path: Path) -> None:
    known = import_collection("freshstack", freshstack(tmp_path / "f"), tmp_path / "c")

    rejudged = again(tmp_path / "c", tmp_path)

    pairs = [[(one.nugget_id, one.chunk_id) for one in each.judgments] for each in
             (known, collection_of(rejudged))]  # fmt: skip
    assert pairs[0] == pairs[1]
    assert rejudged.agreement.pairs == 2
    assert difference_of(rejudged).judgments.changed == 1  # "alpha" says nothing of calling twice
    assert collection_of(rejudged).recipe == "rejudge:import:freshstack"
    assert all(judgment.call_id for judgment in collection_of(rejudged).judgments)
    assert validate(tmp_path / "new").faults == ()


def test_labels_of_two_scales_are_compared_as_support(tmp_path: Path) -> None:
    import_collection("beir", beir(tmp_path / "b"), tmp_path / "c")

    rejudged = again(tmp_path / "c", tmp_path, 'scale = "graded_5"')

    assert rejudged.agreement.on_support
    assert {one.label for one in rejudged.agreement.classes} <= {0, 1}
    assert collection_of(rejudged).manifest.scale.name == "graded_5"


@pytest.mark.parametrize("threshold", [1, 5])
def test_a_label_of_another_scale_is_a_change_only_where_support_is_another(
    tmp_path: Path, threshold: int
) -> None:
    path = freshstack(tmp_path / "f")
    texts = [("docs/a b.md_0_5", "Call it twice."), ("docs/c.md_3_9", "Call it, or not.")]
    json_lines(path / "corpus.jsonl", [{"_id": id_, "text": text} for id_, text in texts])
    known = import_collection("freshstack", path, tmp_path / "c")

    rejudged = again(tmp_path / "c", tmp_path, f'scale = "graded_5"\nthreshold = {threshold}')

    now = {(one.nugget_id, one.chunk_id): one.label for one in collection_of(rejudged).judgments}
    others = [
        one
        for one in known.judgments
        if (one.label or 0) != int((now[one.nugget_id, one.chunk_id] or 0) >= threshold)
    ]
    raw = [one for one in known.judgments if one.label != now[one.nugget_id, one.chunk_id]]
    assert len(raw) > len(others)
    changed = [
        one.before
        for one in difference_of(rejudged).changes
        if isinstance(one, JudgmentChange) and one.before
    ]
    assert {(one.nugget_id, one.chunk_id) for one in changed} == {
        (one.nugget_id, one.chunk_id) for one in others
    }
    counts = rejudged.agreement.confusion.counts
    off = sum(map(sum, counts)) - sum(row[place] for place, row in enumerate(counts))
    assert difference_of(rejudged).judgments.changed == off == len(others)


def test_a_chunk_without_a_text_is_not_asked_about(tmp_path: Path) -> None:
    path = freshstack(tmp_path / "f")
    texts = [{"_id": "docs/a b.md_0_5", "text": "alpha"}, {"_id": "docs/c.md_3_9", "text": ""}]
    json_lines(path / "corpus.jsonl", texts)
    import_collection("freshstack", path, tmp_path / "c")

    rejudged = again(tmp_path / "c", tmp_path)

    assert (rejudged.textless, rejudged.agreement.pairs) == (1, 1)
    assert [one.status for one in collection_of(rejudged).judgments] == ["ok", "failed"]


def test_a_collection_without_texts_cannot_be_judged(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "f.json", [freshstack_row()])
    import_collection("freshstack", path, tmp_path / "c")

    with pytest.raises(CollectionError, match="no judged chunk has a text"):
        again(tmp_path / "c", tmp_path)


def test_what_stands_is_not_written_over(tmp_path: Path) -> None:
    import_collection("beir", beir(tmp_path / "b"), tmp_path / "c")
    (tmp_path / "new").mkdir()

    with pytest.raises(ConfigError, match="exists"):
        again(tmp_path / "c", tmp_path)


def test_grades_are_compared_by_their_distance_too(tmp_path: Path) -> None:
    path = freshstack(tmp_path / "f")
    texts = [("docs/a b.md_0_5", "Call it twice."), ("docs/c.md_3_9", "Call it, or not.")]
    json_lines(path / "corpus.jsonl", [{"_id": id_, "text": text} for id_, text in texts])
    known = import_collection("freshstack", path, tmp_path / "c")
    (tmp_path / "graded").mkdir()
    graded_ = again(tmp_path / "c", tmp_path / "graded", 'scale = "graded_3"')
    graded = collection_of(graded_)

    yes_and_no = agreement(known, known)
    of_grades = agreement(graded, graded)
    of_two_scales = agreement(known, graded)

    assert yes_and_no.weighted == {}
    assert of_two_scales.weighted == {}
    assert of_two_scales.on_support_kappa == of_two_scales.kappa
    labels = [one.label for one in graded.judgments]
    assert of_grades.weighted == {
        weights: weighted_kappa([(label or 0, label or 0) for label in labels], weights)
        for weights in ("linear", "quadratic")
    }


def test_a_sample_is_judged_one_by_one_and_nothing_written(tmp_path: Path) -> None:
    """Batches agree with single judging where the judge looks at each chunk for itself."""
    known = build(domain(tmp_path), provider=ScriptedProvider())
    files, provider = files_of(tmp_path / "collection"), ScriptedProvider()

    rejudged = rejudge(
        tmp_path / "collection",
        tmp_path / "build.toml",
        shape="pairwise",
        sample=5,
        provider=provider,
    )

    judged = [(len(inputs["nuggets"]), len(inputs["chunks"])) for inputs in provider.asked]
    assert set(judged) == {(1, 1)}
    assert rejudged.agreement.pairs == len(judged) >= 5
    assert len({inputs["question"] for inputs in provider.asked}) == len(known.queries)
    assert rejudged.agreement.exact.value == 1.0
    assert (rejudged.collection, files_of(tmp_path / "collection")) == (None, files)
