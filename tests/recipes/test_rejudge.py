"""Another judge over the same pairs: new labels, compared with the old ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

from freshstack_dspy import BuildConfig, Collection, import_collection, rejudge
from freshstack_dspy.collection.diff import Difference, JudgmentChange
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.formats.validate import validate
from freshstack_dspy.recipes.rejudge import Rejudged
from tests.formats.foreign import freshstack, freshstack_row, json_lines
from tests.recipes.domain import files_of
from tests.recipes.scripted import ScriptedProvider, question_of


def imported(folder: Path, first: str = "Call it twice.", second: str = "Call it, or not.") -> Path:
    path = freshstack(folder / "f")
    texts = [("docs/a b.md_0_5", first), ("docs/c.md_3_9", second)]
    json_lines(path / "corpus.jsonl", [{"_id": id_, "text": text} for id_, text in texts])
    import_collection("freshstack", path, folder / "c")
    return folder / "c"


def again(path: Path, folder: Path, judge: str = "") -> tuple[Rejudged, Collection, Difference]:
    """Judge by the baseline; the result, and its collection and difference."""
    (folder / "judge.toml").write_text(f'[model]\nname = "extractive/baseline"\n[judge]\n{judge}\n')
    rejudged = rejudge(path, folder / "judge.toml", folder / "new")
    assert rejudged.collection is not None
    assert rejudged.difference is not None
    return rejudged, rejudged.collection, rejudged.difference


def test_the_same_pairs_get_new_labels(tmp_path: Path) -> None:
    known = Collection.load(imported(tmp_path, first="alpha"))

    rejudged, new, difference = again(tmp_path / "c", tmp_path)

    old_pairs, new_pairs = (
        [(one.nugget_id, one.chunk_id) for one in each.judgments] for each in (known, new)
    )
    assert old_pairs == new_pairs
    assert rejudged.agreement is not None
    assert rejudged.agreement.pairs == 2
    assert repr(rejudged) == "Rejudged(extractive/baseline: 2 pairs, share agreed 0.500)"
    assert "compared with the labels before: 2 pairs" in rejudged._repr_html_()
    assert difference.judgments.changed == 1  # "alpha" says nothing of calling
    assert new.recipe == "rejudge:import:freshstack"
    assert all(judgment.call_id for judgment in new.judgments)
    assert validate(tmp_path / "new").faults == ()


@pytest.mark.parametrize("threshold", [1, 5])
def test_labels_of_two_scales_are_compared_as_support(tmp_path: Path, threshold: int) -> None:
    known = Collection.load(imported(tmp_path))

    scale = f'scale = "graded_5"\nthreshold = {threshold}'
    rejudged, new, difference = again(tmp_path / "c", tmp_path, scale)

    now = {(one.nugget_id, one.chunk_id): one.label for one in new.judgments}
    others = {
        (one.nugget_id, one.chunk_id)
        for one in known.judgments
        if (one.label or 0) != int((now[one.nugget_id, one.chunk_id] or 0) >= threshold)
    }
    raw = [one for one in known.judgments if one.label != now[one.nugget_id, one.chunk_id]]
    assert len(raw) >= len(others)
    changed = [one.before for one in difference.changes if isinstance(one, JudgmentChange)]
    assert {(one.nugget_id, one.chunk_id) for one in changed if one} == others
    assert rejudged.agreement is not None
    counts = rejudged.agreement.confusion.counts
    off = sum(map(sum, counts)) - sum(row[place] for place, row in enumerate(counts))
    assert difference.judgments.changed == off == len(others)
    assert rejudged.on_support
    assert set(rejudged.agreement.confusion.labels) <= {0, 1}
    assert new.manifest.scale.name == "graded_5"


def test_a_chunk_without_a_text_is_not_asked_about(tmp_path: Path) -> None:
    imported(tmp_path, second="")

    rejudged, new, _ = again(tmp_path / "c", tmp_path)

    assert rejudged.agreement is not None
    assert (rejudged.textless, rejudged.agreement.pairs) == (1, 1)
    assert [one.status for one in new.judgments] == ["ok", "failed"]


def test_what_cannot_be_judged_or_would_be_written_over(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "f.json", [freshstack_row()])
    import_collection("freshstack", path, tmp_path / "c")

    with pytest.raises(CollectionError, match="no judged chunk has a text"):
        again(tmp_path / "c", tmp_path)
    (tmp_path / "new").mkdir()
    with pytest.raises(ConfigError, match="exists"):
        again(tmp_path / "c", tmp_path)


def test_a_sample_is_judged_chunk_by_chunk_and_nothing_written(
    copied: Callable[[str], BuildConfig],
) -> None:
    """Batches agree with single judging where the judge looks at each chunk for itself."""
    config, provider = copied("usual"), ScriptedProvider()
    files = files_of(config.out)

    rejudged = rejudge(config.out, config, sample=5, provider=provider)

    assert [len(inputs["chunks"]) for inputs in provider.asked] == [1] * 5
    assert rejudged.agreement is not None
    assert rejudged.agreement.pairs == sum(len(inputs["nuggets"]) for inputs in provider.asked)
    assert len({question_of(inputs) for inputs in provider.asked}) == 3
    exact = rejudged.agreement.metrics["share agreed"].judge
    assert exact is not None
    assert exact.value == 1.0
    assert (rejudged.collection, files_of(config.out)) == (None, files)
