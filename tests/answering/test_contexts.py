"""Contexts and the reports written from them, with the scripts of `test_crux.py`.

The scripted writer repeats its passages, and without any says nothing but that it knows nothing.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, Run, load_config
from freshstack_dspy.answering.contexts import (
    ContextTable,
    Sampling,
    answer_density,
    evaluate_contexts,
)
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.measures.density import oracle_tokens
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.recipes.opening import configured, open_session
from freshstack_dspy.recipes.plan import plan_asking
from freshstack_dspy.stored.contents import Contents
from tests.recipes.scripted import Inputs, Said, ScriptedProvider
from tests.recipes.test_crux import BRIDGE, DAM, built, grade, scripted


def write(inputs: Inputs) -> Any:
    return {"report": " ".join(one["text"] for one in inputs["passages"]) or "I know nothing."}


@pytest.fixture
def made(tmp_path: Path) -> Collection:
    collection: Collection = built(tmp_path, DAM, BRIDGE, crux="sub_questions = 2")
    return collection


def ids(collection: Collection, document: str) -> str:
    return next(one.chunk_id for one in collection.chunks() if f"{document}.md" in one.chunk_id)


def run_of(collection: Collection, name: str, **documents: str) -> Run:
    """A run that ranks documents, by their paths, in the order given."""
    return Run.from_scores(
        {
            query_id: {ids(collection, one): -float(rank) for rank, one in enumerate(of.split())}
            for query_id, of in documents.items()
        },
        name=name,
    )


def table(
    folder: Path,
    collection: Collection,
    *runs: Run,
    writer: Any = write,
    grades: Any = grade,
    **options: Any,
) -> ContextTable:
    provider: ScriptedProvider = scripted(WriteReport=writer, GradeAnswerability=grades)
    config = load_config(folder / "build.toml")
    with open_session(config, provider=provider, searching=False) as session:
        return evaluate_contexts(session, collection, runs, **options)


def test_bounds_and_runs_by_hand(tmp_path: Path, made: Collection) -> None:
    """Of the dam passage 1 answers both questions; of the bridge each passage answers one."""
    runs = [
        run_of(made, "good", dam="dam/1 dam/2", bridge="bridge/2 bridge/1"),
        run_of(made, "half", dam="dam/2 dam/1", bridge="bridge/1 dam/1"),
        run_of(made, "none", dam="bridge/1", bridge="dam/1"),
    ]
    found = table(tmp_path, made, *runs)

    def values(column: str) -> dict[str, float]:
        means = {row: found.values[row].means for row in found.values}
        return {row: of[column] for row, of in means.items() if column in of}

    assert values("Cov(Z)") == {"oracle retrieval": 1, "good": 1, "half": 0.5, "none": 0}
    assert values("Cov(y)") == {
        "direct prompting": 0,
        "oracle result": 1,
        "oracle retrieval": 1,
        "good": 1,
        "half": 0.5,
        "none": 0,
    }
    unjudged = {row: shares["unjudged"] for row, shares in found.chunks.items()}
    assert unjudged == {"oracle retrieval": 0, "good": 0, "half": 1 / 4, "none": 2 / 2}
    required = {row: shares["required"] for row, shares in found.chunks.items()}
    assert required == {"oracle retrieval": 1, "good": 1, "half": 1 / 4, "none": 0}
    kept = {(one.run_id, one.query_id): len(one.chunk_ids) for one in found.reports}
    assert kept["good", "dam"] == 1  # as many as the oracle context has
    assert kept["good", "bridge"] == 2
    assert list(found.correlations) == ["Cov(Z)", "alpha_nDCG", "Den(Z)"]
    assert found.correlations["Cov(Z)"]["Cov(y)"].value == pytest.approx(1)
    assert found.correlations["Den(Z)"]["Den(y)"].value == pytest.approx(1)


def test_a_context_has_k_chunks_or_so_many_tokens(tmp_path: Path, made: Collection) -> None:
    run = run_of(made, "run", dam="dam/2 dam/1", bridge="bridge/1 bridge/2")

    two = table(tmp_path, made, run, k=2)
    assert two.values["run"].means["Cov(Z)"] == 1
    few = table(tmp_path, made, run, tokens=made_tokens(made, "bridge/1"))
    assert few.values["run"].values("Cov(Z)") == {"bridge": 0.5, "dam": 0}


def made_tokens(collection: Collection, document: str) -> int:
    chunk = collection.chunk(ids(collection, document))
    assert chunk is not None
    return chunk.tokens


def test_drawn_contexts_are_those_of_the_seed(tmp_path: Path, made: Collection) -> None:
    """Three of two runs with other measures; the same again, whatever other queries there are."""
    runs = [
        run_of(made, "one", dam="dam/1 dam/2 bridge/1", bridge="bridge/2 bridge/1 dam/1"),
        run_of(made, "two", dam="bridge/1 dam/2 dam/1", bridge="dam/1 bridge/1 bridge/2"),
    ]
    options: Any = {"measures": ["Recall", "P@2"], "k": 2, "sampling": Sampling(3, of=3)}
    found, again = (table(tmp_path, made, *runs, **options) for _ in range(2))
    alone = table(tmp_path, made, *(run.without(["dam"]) for run in runs), **options)

    names = [f"{run}#{number}" for run in ("one", "two") for number in (1, 2, 3)]
    assert list(found.values) == names  # without the bounds
    assert found.reports == again.reports
    contexts = {(one.run_id, one.query_id): one.chunk_ids for one in found.reports}
    assert len(contexts) == len(names) * 2
    for (name, query_id), chunk_ids in contexts.items():
        ranking = next(run for run in runs if name.startswith(run.name)).ids[query_id]
        assert len(chunk_ids) == 2
        assert list(chunk_ids) == [one for one in ranking if one in chunk_ids]
    assert len({contexts[name, "dam"] for name in names}) > 2
    assert not found.dry_run
    for one in alone.reports:
        assert one.chunk_ids == (contexts[one.run_id, "bridge"] if one.query_id == "bridge" else ())
    assert {name: set(taus) for name, taus in found.correlations.items()} == {
        "Recall": {"Cov(y)", "Den(y)"},
        "P@2": {"Cov(y)", "Den(y)"},
    }


def test_more_chunks_than_the_top_has_cannot_be_drawn(made: Collection) -> None:
    with pytest.raises(ConfigError, match="draw fewer"):
        evaluate_contexts(
            None, made, [run_of(made, "run", dam="dam/1")], sampling=Sampling(3, of=5)
        )


def test_another_threshold_holds_for_contexts_and_reports(tmp_path: Path, made: Collection) -> None:
    """The bridge's chunks have 4 instead of 5, and every report has 4 for what it answers."""

    def graded_4(inputs: Inputs) -> Any:
        return json.loads(json.dumps(grade(inputs)).replace('"grade": 5', '"grade": 4'))

    lower = {5: 4, 0: 0}
    judgments = [
        one.model_copy(update={"label": lower[one.label]}) if one.query_id == "bridge" else one
        for one in made.judgments
        if one.label is not None
    ]
    changed = replace(made, judgments=judgments)
    run = run_of(made, "run", dam="dam/1", bridge="bridge/1 bridge/2")
    four, five = (
        table(tmp_path, changed, run, grades=graded_4, threshold=threshold) for threshold in (4, 5)
    )

    assert (four.threshold, five.threshold) == (4, 5)
    assert four.values["run"].values("Cov(Z)") == {"bridge": 1, "dam": 1}
    assert four.values["run"].values("Cov(y)") == {"bridge": 1, "dam": 1}
    assert five.values["run"].values("Cov(Z)") == {"dam": 1}  # nothing answers on the bridge
    assert five.values["run"].values("Cov(y)") == {"dam": 0}
    with pytest.raises(CollectionError, match="above the highest label"):
        table(tmp_path, made, run, threshold=6)


def test_a_report_is_cut_to_the_tokens_of_the_oracle_context(
    tmp_path: Path, made: Collection
) -> None:
    """The answer stands behind the cut, so that it is not rated; people's own report stays whole."""
    long = "Nothing is known of it. " * 20

    def at_the_end(inputs: Inputs) -> Any:
        return {"report": long + write(inputs)["report"]}

    run = run_of(made, "run", dam="dam/1", bridge="bridge/2 bridge/1")
    found = table(tmp_path, made, run, writer=at_the_end)

    reports = {one.query_id: one for one in found.reports if one.run_id == "run"}
    judged = made.qrels().judged("dam")
    assert count_tokens(reports["dam"].text) == oracle_tokens(judged)
    assert (long + reports["dam"].text).startswith(reports["dam"].text)
    assert (reports["dam"].cut_from or 0) > count_tokens(long)
    assert found.values["run"].means["Cov(y)"] == 0
    assert found.values["oracle result"].means["Cov(y)"] == 1
    assert "6 of 8 reports were cut" in page_text(found.page())


def test_density_of_a_report_is_by_the_oracle_context(made: Collection) -> None:
    judged = made.qrels().judged("dam")
    oracle = count_tokens("In March the wall cracked and the village flooded.")

    assert answer_density(1.0, oracle, judged) == 1
    assert answer_density(0.5, oracle, judged, w=1) == 0.5
    assert answer_density(1.0, 4 * oracle, judged) == 0.5
    assert answer_density(0.0, 3, judged) == 0


def test_a_report_that_failed_is_left_out_and_no_0(tmp_path: Path, made: Collection) -> None:
    def refuse(inputs: Inputs) -> Any:
        text = " ".join(one["text"] for one in inputs["passages"])
        return Said("no", "content_filter") if "Ångström" in text else write(inputs)

    run = run_of(made, "run", dam="dam/2", bridge="bridge/1")
    found = table(tmp_path, made, run, writer=refuse)

    assert found.values["run"].values("Cov(y)") == {"bridge": 0.5}
    (failed,) = [one for one in found.reports if one.status != "ok"]
    assert (failed.run_id, failed.query_id, failed.coverage) == ("run", "dam", None)


def test_what_does_not_fit_is_not_shown_and_named(tmp_path: Path, made: Collection) -> None:
    path = tmp_path / "build.toml"
    path.write_text(path.read_text().replace("retries = 0", "retries = 0\ncontext = 1200"))
    path.write_text(path.read_text().replace("retries = 0", "retries = 0\nmax_tokens = 200"))
    long = made.chunk(ids(made, "dam/2"))
    texts = {long.chunk_id: "word " * 2000}
    longer = [
        one.model_copy(update={"text": texts.get(one.chunk_id, one.text)}) for one in made.chunks()
    ]
    with_long = write_collection(
        tmp_path / "long", Contents(**made.records()), longer, made.manifest
    )
    run = run_of(made, "run", dam="dam/2 dam/1", bridge="bridge/1")
    found = table(tmp_path, with_long, run, k=2)
    alone = table(tmp_path, with_long, run_of(made, "run", dam="dam/2"), k=1)

    reports = {one.query_id: one for one in found.reports if one.run_id == "run"}
    assert [(one.chunk_id, one.reason) for one in reports["dam"].omitted] == [
        (long.chunk_id, "no_room")
    ]
    assert reports["dam"].text == "In March the wall cracked and the village flooded."
    assert reports["bridge"].omitted == ()
    (failed,) = (one for one in alone.reports if one.run_id == "run" and one.query_id == "dam")
    assert (failed.status, failed.coverage) == ("failed", None)
    assert "none of the 1 chunks of the context can be shown" in failed.reason


def test_a_plan_counts_what_is_then_asked(tmp_path: Path, made: Collection) -> None:
    run = run_of(made, "run", dam="dam/2 dam/1", bridge="bridge/1")
    config = load_config(tmp_path / "build.toml")
    planned = plan_asking(
        config, lambda session: evaluate_contexts(session, made, [run]), name="a", queries=2
    )
    provider = scripted(WriteReport=write)
    with open_session(config, provider=provider, searching=False) as session:
        evaluate_contexts(session, made, [run])

    asked = [step.requests for step in planned.steps]
    assert asked == [provider.calls["WriteReport"], provider.calls["GradeAnswerability"]]


def test_without_a_session_contexts_alone_are_measured(made: Collection) -> None:
    found = evaluate_contexts(None, made, [run_of(made, "run", dam="dam/2", bridge="bridge/1")])

    assert found.reports == ()
    assert {row: sorted(of.measures) for row, of in found.values.items()} == {
        "oracle retrieval": ["Cov(Z)", "Den(Z)", "alpha_nDCG"],
        "run": ["Cov(Z)", "Den(Z)", "alpha_nDCG"],
    }


@pytest.mark.parametrize("generator", ["openai/writer", None])
def test_it_says_where_a_model_grades_its_own_words(
    tmp_path: Path, made: Collection, generator: str | None
) -> None:
    config = load_config(tmp_path / "build.toml")
    provider, run = scripted(WriteReport=write), run_of(made, "good", dam="dam/1 dam/2")
    models: Any = {"generator": generator} if generator else {}
    config = configured(config, {"models": models})
    with open_session(config, provider=provider, searching=False) as session:
        found = evaluate_contexts(session, made, [run])

    text = page_text(found.page())
    writer = generator or config.model.name
    assert f"reports written by {writer}" in text
    assert f"reports rated by {config.model.name}" in text
    assert ("grades its own words" in text) is (generator is None)


@pytest.mark.parametrize(
    ("settings", "requests", "coverage"),
    [
        ("threshold = 4", 6, 1),
        ("threshold = 5", 6, 0),
        ("shape = 'pairwise'", 12, 1),
        ("shape = 'pairwise'\nvotes = 3", 36, 1),
    ],
)
def test_a_report_is_rated_as_a_passage_is(
    tmp_path: Path, made: Collection, settings: str, requests: int, coverage: float
) -> None:
    """Six reports answer two sub-questions with grade 4, or none; of three votes, one says 0."""
    votes: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(1))

    def graded(inputs: Inputs) -> Any:
        dissents = "votes" in settings and next(votes[str(inputs)]) == 2
        said = grade(inputs)
        for each in said["verdicts"][0]["grades"]:
            each["grade"] = 0 if dissents else min(each["grade"], 4)
        return said

    path = tmp_path / "build.toml"
    path.write_text(f"{path.read_text()}\n[judge]\n{settings}\n")
    provider = scripted(WriteReport=write, GradeAnswerability=graded)
    with open_session(load_config(path), provider=provider, searching=False) as session:
        run = run_of(made, "good", dam="dam/1", bridge="bridge/1 bridge/2")
        found = evaluate_contexts(session, made, [run])

    assert provider.calls["GradeAnswerability"] == requests
    assert found.values["good"].means["Cov(y)"] == coverage
    labels = {nugget.label for each in found.reports for nugget in each.nuggets}
    assert labels == {0, 4}
