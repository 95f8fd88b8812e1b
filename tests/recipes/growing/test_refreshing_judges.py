"""What a refresh does where the judge is another, or said other things."""

import shutil
from pathlib import Path

import pytest

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.growing.refreshing import refresh
from tests.recipes.domain import domain, files_of
from tests.recipes.scripted import Inputs, ScriptedProvider

from .refreshing import WHOLE, put, refreshed


def test_labels_of_another_judge_are_not_mixed_unless_it_is_wished(
    config: BuildConfig, tmp_path: Path
) -> None:
    files = files_of(config.out)
    other = domain(tmp_path, pool=WHOLE, model={"name": "openai/other"}, nuggets={"limit": 3})
    put(other, "docs/dial.md", "# The dial\n\nThe dial shows the phase of Mars.\n")

    with pytest.raises(ConfigError) as caught:
        refreshed(other)
    assert files_of(config.out) == files
    found = refresh(other, keep_labels=True, provider=ScriptedProvider())

    assert "model 'openai/scripted', now 'openai/other'; nuggets.limit = 10, now 3" in str(
        caught.value
    )
    assert "--keep-labels" in str(caught.value)
    assert found.collection.manifest.model == "openai/other"
    assert found.collection.manifest.earlier_models == ("openai/scripted",)


@pytest.mark.parametrize("keep_labels", [True, False])
def test_labels_of_another_scale_are_never_kept(
    config: BuildConfig, tmp_path: Path, keep_labels: bool
) -> None:
    other = domain(tmp_path, pool=WHOLE, judge={"scale": "graded_3"})

    with pytest.raises(ConfigError, match=r"'graded_3'.*'binary'"):
        refresh(other, keep_labels=keep_labels, provider=ScriptedProvider())


def test_for_another_threshold_nothing_is_judged_again_but_closed_book_answers(
    config: BuildConfig, tmp_path: Path
) -> None:
    graded = {"scale": "graded_3", "batch": 3}
    shutil.rmtree(config.out)
    build(domain(tmp_path, pool=WHOLE, judge=graded), provider=graded_provider())
    strict, provider = domain(tmp_path, judge={**graded, "threshold": 3}), graded_provider()

    found = refreshed(strict, provider)

    assert all("model/" in inputs["chunks"][0]["path"] for inputs in provider.asked)
    assert found.collection.manifest.scale.threshold == 3
    assert found.difference.judgments.changed == 0
    assert found.difference.resliced > 0


def graded_provider() -> ScriptedProvider:
    def grade(inputs: Inputs) -> object:
        return {
            "verdicts": [
                {
                    "chunk": chunk["number"],
                    "reason": "whether the words are there",
                    "grades": [
                        {
                            "nugget": nugget["number"],
                            "grade": 2 * (nugget["text"].lower() in chunk["text"].lower()),
                        }
                        for nugget in inputs["nuggets"]
                    ],
                }
                for chunk in inputs["chunks"]
            ]
        }

    return ScriptedProvider(GradeSupport=grade)


def test_chunks_that_were_judged_alone_too_are_not_asked_about_again(
    config: BuildConfig, tmp_path: Path
) -> None:
    shutil.rmtree(config.out)
    comparing = domain(tmp_path, pool=WHOLE, judge={"compare": 4})
    before = build(comparing, provider=ScriptedProvider())
    assert before.single_judgments
    paths = {chunk.chunk_id: chunk.path for chunk in before.chunks()}
    shutil.rmtree(config.cache.path)
    put(config, "docs/dial.md", "# The dial\n\nThe dial shows the phase of Mars.\n")
    provider = ScriptedProvider()

    found = refreshed(comparing, provider)

    titles = {query.query_id: query.title for query in before.queries}
    known = {(titles[one.query_id], paths[one.chunk_id]) for one in before.single_judgments}
    alone = {
        (inputs["question"].splitlines()[0], inputs["chunks"][0]["path"].removeprefix("dial/"))
        for inputs in provider.asked
        if len(inputs["chunks"]) == 1
    }
    assert {path for _, path in alone & known} <= {"docs/dial.md"}, "which is another now"
    kept = set(before.single_judgments) & set(found.collection.single_judgments)
    assert kept


def test_what_a_refresh_judged_alone_is_not_compared_with_itself(
    config: BuildConfig, tmp_path: Path
) -> None:
    """The one new chunk of each question has a call of its own; those kept stood in batches."""
    shutil.rmtree(config.out)
    comparing = domain(tmp_path, pool=WHOLE, judge={"compare": 500})
    before = build(comparing, provider=ScriptedProvider())
    assert len({(one.query_id, one.chunk_id) for one in before.single_judgments}) == len(
        before.pool
    )
    put(config, "docs/dial.md", "# The dial\n\nThe dial shows the phase of Mars.\n")

    found = refreshed(comparing).collection

    new = {one.chunk_id for one in found.pool} - {one.chunk_id for one in before.pool}
    assert len(new) == 1
    assert not new & {one.chunk_id for one in found.single_judgments}
    old = {one.chunk_id for one in before.pool} & {one.chunk_id for one in found.pool}
    assert {one.chunk_id for one in found.single_judgments} == old
    again = refreshed(comparing)
    assert not again.changed, "what was judged alone by the refresh before is known to be"


def test_labels_at_another_temperature_are_not_mixed_and_a_larger_window_is_no_obstacle(
    config: BuildConfig, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"model\.temperature = 0\.1, now 0\.9"):
        refreshed(domain(tmp_path, pool=WHOLE, model={"temperature": 0.9}))

    larger = domain(tmp_path, pool=WHOLE, model={"context": 100_000, "max_tokens": 8000})
    assert refreshed(larger).difference.is_empty
