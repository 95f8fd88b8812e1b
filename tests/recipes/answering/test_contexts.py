"""What a generator is shown: gold chunks in their order, whole chunks as far as they fit."""

from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.imports.importing import import_collection
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.recipes.answering.contexts import Packing, gold_chunks
from freshstack_dspy.recipes.build import build
from freshstack_dspy.records import OmittedChunk
from tests.collection.imports.foreign import freshstack_row, json_lines
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

from .domain_runs import answering, chunk_ids, provider, write

LABELS = {
    "n1": {"a": 1, "b": 1, "d": 1, "e": 0},
    "n2": {"b": 1, "c": 0},
    "n3": {"c": 1},
    "n4": {},
}


def test_gold_chunks_are_those_it_takes_and_then_the_others_that_support_something() -> None:
    assert gold_chunks(Judged(LABELS), 10) == ["b", "c", "a", "d"]
    assert gold_chunks(Judged(LABELS), 2) == ["b", "c"]


def test_the_threshold_says_what_is_gold() -> None:
    graded = {"n1": {"a": 1, "b": 2}, "n2": {"a": 3}}

    assert gold_chunks(Judged(graded, rel=2), 10) == ["a", "b"]
    assert gold_chunks(Judged(graded, rel=3), 10) == ["a"]


def test_where_nothing_supports_there_is_no_gold() -> None:
    assert gold_chunks(Judged({"n1": {"a": 0}}), 10) == []


def long_domain(folder: Path) -> Collection:
    """The domain with a long file, which is one chunk."""
    config = domain(folder, filters={"unsupported_nuggets": "keep"})
    (folder / "corpus" / "docs" / "long.md").write_text("# Long\n\n" + "the dial turns " * 150)
    return build(config, provider=ScriptedProvider())


def test_a_chunk_that_does_not_fit_is_left_out_whole_and_named(tmp_path: Path) -> None:
    collection = long_domain(tmp_path)
    files = ["docs/long.md", "docs/install.md"]
    run = write(collection, tmp_path / "a.run", "a", q2=files, q10=["docs/long.md"])
    text = '[model]\nname = "openai/scripted"\nretries = 0\ncontext = 1500\nmax_tokens = 300\n'

    found = answering(tmp_path / "collection", [run], provider(), tmp_path, text=text)

    ids = chunk_ids(collection)
    (left_out,) = {omitted for one in found.answers for omitted in one.omitted}
    shown = {one.topic_id: (one.references, one.status) for one in found.answers}
    assert left_out == OmittedChunk(chunk_id=ids["docs/long.md"], reason="no_room")
    assert shown == {"2": ((ids["docs/install.md"],), "ok"), "10": ((), "failed")}
    (failure,) = found.failures
    assert "none of the 1 chunks of the context fits beside the question" in failure.message


def test_where_there_is_room_all_is_shown_in_the_order_of_the_run(tmp_path: Path) -> None:
    collection = long_domain(tmp_path)
    ids = chunk_ids(collection)
    ranking = [ids["docs/long.md"], ids["docs/install.md"], ids["docs/dial.md"]]

    context = Packing(collection, ranking, ModelConfig()).context(
        "a", collection.queries[0], ranking
    )

    assert [chunk.chunk_id for chunk in context.chunks] == ranking
    assert not context.omitted


def test_replies_that_leave_no_room_are_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    collection = long_domain(tmp_path)
    model = ModelConfig(name="openai/scripted", context=1024, max_tokens=1000)

    with pytest.raises(ConfigError, match="leave no room"):
        Packing(collection, [], model)


def test_a_collection_without_texts_cannot_be_answered_from(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "f.json", [freshstack_row()])
    standing = import_collection("freshstack", path, tmp_path / "c")

    with pytest.raises(CollectionError, match="has a text, so that there is nothing to answer"):
        Packing(standing, [chunk.chunk_id for chunk in standing.chunks()], ModelConfig())
