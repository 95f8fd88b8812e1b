"""Unjudged chunks of runs are judged as the pool was, and no known judgment is asked again."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import (
    BuildConfig,
    Collection,
    ModelConfig,
    Run,
    SupportJudge,
    build,
    extend,
    write_run,
)
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.extend import Extended, plan_extension
from freshstack_dspy.records import RunRank, ScoredChunk
from freshstack_dspy.stored.manifest import Extension
from tests.recipes.domain import FILES, domain, files_of
from tests.recipes.scripted import Inputs, Said, ScriptedProvider


def extended(
    config: BuildConfig,
    runs: list[Any],
    provider: ScriptedProvider | None = None,
    **options: Any,
) -> Extended:
    return extend(config.out, runs, config, provider=provider or ScriptedProvider(), **options)


def chunk_ids(config: BuildConfig) -> list[str]:
    return list(Collection.load(config.out).corpus.ids)


def written(path: Path, rankings: dict[str, list[str]], name: str = "mine") -> Path:
    """Write a run of these chunks, the first the best."""
    scored = {
        query_id: tuple(ScoredChunk(id_, float(-rank)) for rank, id_ in enumerate(ids))
        for query_id, ids in rankings.items()
    }
    write_run(Run(name, scored), path)
    return path


@pytest.fixture
def config(copied: Callable[[str], BuildConfig]) -> BuildConfig:
    return copied("narrow")


@pytest.fixture
def run(config: BuildConfig, tmp_path: Path) -> Path:
    """A run that finds every chunk for every question."""
    everything = chunk_ids(config)
    return written(tmp_path / "mine.run", {"2": everything, "10": everything, "x": everything})


def unjudged_at(collection: Collection, run: Path, depth: int) -> float | None:
    qrels = collection.qrels(("answerable", "partly_supported", "unanswerable"))
    return evaluate(qrels, run, f"P@{depth}").unjudged[0].mean


def test_after_extending_nothing_in_the_top_of_the_run_is_unjudged(
    config: BuildConfig, run: Path
) -> None:
    before, provider = Collection.load(config.out), ScriptedProvider()
    assert unjudged_at(before, run, 4) == 0.75

    after = extended(config, [run], provider, k=4).collection

    assert unjudged_at(after, run, 4) == 0
    assert set(before.judgments) <= set(after.judgments)
    pairs = {(j.nugget_id, j.chunk_id) for j in after.judgments}
    nuggets = {nugget.nugget_id: nugget.query_id for nugget in after.nuggets}
    top = chunk_ids(config)[:4]
    assert pairs >= {(nugget_id, chunk_id) for nugget_id in nuggets for chunk_id in top}
    asked = sum(len(inputs["chunks"]) for inputs in provider.asked)
    judged = {(j.query_id, j.chunk_id) for j in before.judgments}
    assert asked == len({(q, c) for q in nuggets.values() for c in top} - judged)
    assert after == Collection.load(config.out)


def test_the_manifest_and_the_candidates_say_which_run_brought_them(
    config: BuildConfig, run: Path
) -> None:
    before = {(c.query_id, c.chunk_id): c for c in Collection.load(config.out).pool}

    after = extended(config, [run], k=3).collection

    new = [c for c in after.pool if (c.query_id, c.chunk_id) not in before]
    assert {c.origin for c in new} == {"run"}
    ranks = {id_: rank for rank, id_ in enumerate(chunk_ids(config), 1)}
    for candidate in after.pool:
        rank = ranks[candidate.chunk_id]
        expected = (RunRank(run="mine", rank=rank),) if rank <= 3 else ()
        assert candidate.runs == expected
        if old := before.get((candidate.query_id, candidate.chunk_id)):
            assert candidate.model_copy(update={"runs": ()}) == old
    pairs = len(after.judgments) - len(Collection.load(config.out).nuggets)
    assert after.manifest.extensions == (
        Extension(
            run="mine",
            sha256=hashlib.sha256(run.read_bytes()).hexdigest(),
            depth=3,
            judged=pairs,
            model="openai/scripted",
        ),
    )
    assert after.manifest.ledger["support"].calls > 3


def test_again_changes_nothing_and_asks_nothing(config: BuildConfig, run: Path) -> None:
    extended(config, [run])
    files, silent = files_of(config.out), ScriptedProvider()

    again = extended(config, [run], silent)

    assert (again.changed, silent.calls.total()) == (False, 0)
    assert files_of(config.out) == files


def test_a_question_may_become_answerable(config: BuildConfig) -> None:
    """The pool missed the support that the run found."""
    dial = next(id_ for id_ in chunk_ids(config) if "phase" in id_)
    path = written(config.out.parent / "thin.run", {"x": [dial]}, "thin")

    def support_all(inputs: Inputs) -> object:
        numbers = [nugget["number"] for nugget in inputs["nuggets"]]
        return {
            "verdicts": [
                {"chunk": chunk["number"], "reason": "so it is", "supported": numbers}
                for chunk in inputs["chunks"]
            ]
        }

    after = extended(config, [path], ScriptedProvider(JudgeSupportLevel=support_all))

    slices = {part.query_id: part.slice for part in after.collection.slices}
    assert slices["x"] == "answerable"
    assert "x" in Collection.load(config.out).query_ids()


def test_another_folder_can_be_written_and_the_first_stays(
    config: BuildConfig, run: Path, tmp_path: Path
) -> None:
    files = files_of(config.out)

    extended(config, [run], out=tmp_path / "larger")

    assert files_of(config.out) == files
    assert unjudged_at(Collection.load(tmp_path / "larger"), run, 5) == 0
    with pytest.raises(ConfigError, match="exists"):
        extended(config, [run], out=tmp_path / "larger")


class Notes(NoProgress):
    def __init__(self) -> None:
        self.of_runs: list[str] = []
        self.to_judge: list[str] = []

    def finish(self, *words: object, **_: object) -> None:
        step, *note = map(str, words)
        if step.startswith("run "):
            self.of_runs += note
        if step == "to judge":
            self.to_judge += note


@pytest.fixture
def passages(config: BuildConfig) -> Path:
    """What a retriever finds that cuts the files otherwise, and one result without a place."""
    path = config.out.parent / "own.jsonl"
    with path.open("w") as file:
        for query_id in ("2", "10", "x"):
            found: list[dict[str, Any]] = [
                {"path": name, "text": text[start : start + 25], "start": start, "unit": "chars"}
                for name, text in FILES.items()
                for start in range(0, len(text), 20)
            ]
            for score, one in enumerate([*found, {"path": None}]):
                print(json.dumps({"query_id": query_id, "score": score, **one}), file=file)
    return path


def test_of_passages_the_chunks_that_share_text_with_them_are_judged(
    config: BuildConfig, passages: Path
) -> None:
    before = Collection.load(config.out)
    assert (unjudged_at(before, passages, 20) or 0) > 0.5
    progress = Notes()

    done = extended(config, [passages], k=20, progress=progress)

    assert unjudged_at(done.collection, passages, 20) == pytest.approx(1 / 15)  # the unplaced one
    (note,) = progress.of_runs
    assert note.startswith("3 results in its top 20 are at no known place")
    first = {
        one.run: one.rank for c in done.collection.pool if "phase" in c.chunk_id for one in c.runs
    }
    assert first == {"own": 2}, "the best rank of its passages, below the one without a place"
    assert not extended(config, [passages], k=20).changed


def test_what_it_costs_is_said_before_anything_is_asked(
    config: BuildConfig, passages: Path
) -> None:
    free = config.model_copy(update={"model": ModelConfig(name="extractive/baseline")})
    planned, progress = plan_extension(config.out, [passages], free), Notes()

    done = extend(config.out, [passages], free, progress=progress, keep_labels=True)

    asked = done.collection.manifest.ledger["support"].calls - 3
    assert planned.total.requests == asked > 0
    assert progress.to_judge == [
        f"{done.judged['own']} pairs in {asked} requests, 0 recorded; about $0.0000"
    ]


def test_runs_have_names_of_their_own_and_labels_one_scale(
    config: BuildConfig, run: Path, tmp_path: Path
) -> None:
    extended(config, [run])
    other = written(tmp_path / "other.run", {"2": chunk_ids(config)[:2]})

    with pytest.raises(CollectionError, match="'mine' is the name of two different files"):
        extended(config, [other])
    with pytest.raises(ConfigError, match="no run is named"):
        extended(config, [])
    with pytest.raises(ConfigError, match='scale = "support" and threshold = 1'):
        extended(domain(tmp_path, judge={"scale": "graded_3"}), [run])


def test_what_failed_is_asked_again_when_told_to_and_its_failure_goes_once_it_is_judged(
    config: BuildConfig, run: Path
) -> None:
    silent = ScriptedProvider(JudgeSupportLevel=lambda _: Said("nothing"))
    first = extended(config, [run], silent)
    assert first.failed == len([j for j in first.collection.judgments if j.label is None]) > 0
    assert first.collection.failures

    provider = ScriptedProvider()
    assert extended(config, [run], provider).failed == first.failed
    assert not provider.asked
    second = extended(config, [run], mode="rerecord", failed=True)

    assert (second.failed, second.collection.failures) == (0, ())
    assert unjudged_at(second.collection, run, 5) == 0
    (entry,) = second.collection.manifest.extensions
    assert entry.judged == first.failed


def test_a_build_does_not_undo_an_extension(config: BuildConfig, run: Path) -> None:
    extended(config, [run])
    files = files_of(config.out)

    with pytest.raises(ConfigError, match=r"extended by runs \(mine\).*freshstack refresh"):
        build(config, provider=ScriptedProvider())

    assert files_of(config.out) == files


def test_labels_of_another_judge_are_added_only_where_that_is_said(
    config: BuildConfig, run: Path
) -> None:
    other = config.model_copy(update={"model": ModelConfig(name="openai/other")})
    judge = SupportJudge()
    judge.predict.config = {"temperature": 0.9}
    provider = ScriptedProvider()

    with pytest.raises(ConfigError, match=r"model 'openai/scripted', now 'openai/other'"):
        extend(config.out, [run], other, provider=provider)
    with pytest.raises(ConfigError, match="another program support_judge"):
        extended(config, [run], provider, programs={"support_judge": judge})
    found = extend(config.out, [run], other, provider=provider, keep_labels=True)

    assert found.collection.labels_by == "labels by openai/other and openai/scripted"
