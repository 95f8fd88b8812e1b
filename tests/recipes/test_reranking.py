"""Chunks of any retriever reranked by a scripted model: recorded, planned, deferred, counted."""

import json
import logging
from math import log2
from pathlib import Path
from typing import Any

import dspy
import pytest

from freshstack_dspy import (
    BuildConfig,
    Collection,
    build,
    evaluate,
    plan,
    read_run,
    retrieve,
    retrieve_all,
)
from freshstack_dspy.config import load_judging
from freshstack_dspy.errors import ConfigError, DeferredError, IndexingError
from freshstack_dspy.index.models import Models
from freshstack_dspy.index.reranking import Mmr
from freshstack_dspy.lm.batch.deferred import requests_file
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.recipes.opening import search_models
from freshstack_dspy.recipes.provenance import export_replies

from .conftest import Built
from .domain import domain, files_of
from .scripted import SCRIPTS, Inputs, ScriptedProvider
from .test_deferred import by_hand, hand_in

NARROW = {"techniques": ["question"], "depth": 5, "top_k": 3}


def backwards(inputs: Inputs) -> Any:
    """The best is the last: n passages are turned around by windows of any size."""
    return {"ranking": [passage["number"] for passage in reversed(inputs["passages"])]}


def reset_first(inputs: Inputs) -> Any:
    """The passages that speak of resetting twice come first."""
    passages = sorted(inputs["passages"], key=lambda each: "twice" not in each["text"])
    return {"ranking": [passage["number"] for passage in passages]}


def reranking(folder: Path, *retrievers: str, **reranker: Any) -> BuildConfig:
    settings = {"method": "listwise", "depth": 4, "window": 2, "step": 1, **reranker}
    pool = {**NARROW, "retrievers": [*retrievers]}
    return domain(folder, pool=pool, reranker=settings)


def test_a_build_reranks_as_planned_and_replays_to_the_same_bytes(tmp_path: Path) -> None:
    config = reranking(tmp_path / "live", "bm25", "hybrid+rerank")
    provider = ScriptedProvider(RankPassages=reset_first)
    (planned,) = (step for step in plan(config).steps if step.step == "reranking")
    live = build(config, provider=provider)
    export_replies(config, tmp_path / "used.jsonl")
    elsewhere = reranking(tmp_path / "there", "bm25", "hybrid+rerank")
    cache = elsewhere.cache.model_copy(update={"bundles": (tmp_path / "used.jsonl",)})
    replayed = build(elsewhere.model_copy(update={"cache": cache}), mode="replay")

    assert provider.calls["RankPassages"] == planned.requests == 3 * 3  # 4 chunks by windows of 2
    ledger = live.manifest.ledger["reranking"]
    assert (ledger.calls, ledger.completed, ledger.failed) == (9, 0, 0)
    assert replayed.manifest.ledger["reranking"].cached == 9
    assert replayed.manifest.models == live.manifest.models
    assert replayed.manifest.reasked == live.manifest.reasked
    changed = {"manifest.json", "SHA256SUMS"}
    there = files_of(elsewhere.out).items()
    assert {item for item in files_of(config.out).items() if item[0] not in changed} == {
        item for item in there if item[0] not in changed
    }


@pytest.mark.parametrize("method", ["listwise", "setwise", "pointwise"])
def test_deferred_rounds_go_on_until_all_is_reranked(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each, what the searches of all queries ask next is written down together."""
    asks = {"RankPassages": reset_first, "ChooseBestPassage": choose, "GradeRelevance": grade}
    for task, script in asks.items():
        monkeypatch.setitem(SCRIPTS, task, script)
    keys = {"listwise": {"window": 2, "step": 1}, "setwise": {"top_k": 2}, "pointwise": {}}
    sections: Any = {
        "pool": {**NARROW, "retrievers": ["bm25+rerank"]},
        "reranker": {"method": method, "depth": 4, **keys[method]},
    }
    live_config = domain(tmp_path / "live", **sections)
    provider = ScriptedProvider()
    build(live_config, provider=provider)
    config = domain(tmp_path / "deferred", **sections)
    rounds, said = list[dict[str, int]](), list[bool]()
    for _ in range(20):
        try:
            build(config, mode="defer")
        except DeferredError as error:
            lines = [json.loads(line) for line in requests_file(config).read_text().splitlines()]
            steps = [line["step"] for line in lines]
            rounds.append({step: steps.count(step) for step in steps})
            said.append(("searches are reranked" in str(error)) == ("reranking" in steps))
            hand_in(config, [by_hand(line) for line in lines], tmp_path / "deferred")
        else:
            break

    reranked = [each["reranking"] for each in rounds if "reranking" in each]
    assert all(said)
    assert sum(reranked) == sum(provider.calls[task] for task in asks)
    assert len(reranked) == {"listwise": 3, "setwise": 2, "pointwise": 1}[method]
    assert files_of(config.out)["judgments.jsonl"] == files_of(live_config.out)["judgments.jsonl"]


def choose(inputs: Inputs) -> Any:
    return {"best": reset_first(inputs)["ranking"][0]}


def grade(inputs: Inputs) -> Any:
    return {
        "grades": [
            {"passage": each["number"], "reason": "so", "grade": 3 * ("twice" in each["text"])}
            for each in inputs["passages"]
        ]
    }


def file(folder: Path, text: str, model: str = "") -> BuildConfig:
    path = folder / "models.toml"
    head = f'[model]\nname = "openai/scripted"\n{model}\n[cache]\npath = "replies"\n'
    path.write_text(head + text)
    return load_judging(path)


LISTWISE = '[reranker]\nmethod = "listwise"\n'


def test_alpha_ndcg_is_that_of_the_order_of_the_model(usual: Built, tmp_path: Path) -> None:
    """Query 10 has one nugget that the corpus supports, in `docs/reset.md` alone."""
    collection, where = usual.collection, usual.folder / "index"
    chunk_id = next(one.chunk_id for one in collection.corpus if "reset.md" in one.chunk_id)
    before = retrieve(collection, "bm25", index_path=where)
    with search_models(
        file(tmp_path, LISTWISE), provider=ScriptedProvider(RankPassages=backwards)
    ) as models:
        after = retrieve(collection, "bm25+rerank", models=models, index_path=where)

    for run in (before, after):
        rank = 1 + [each.chunk_id for each in run.rankings["10"]].index(chunk_id)
        values = evaluate(collection.qrels(), run, measures=["alpha_nDCG@10"]).per_query["10"]
        assert values["alpha_nDCG@10"] == pytest.approx(1 / log2(1 + rank))
    assert [*after.ids["10"]] == [*reversed(before.ids["10"])]
    assert (before.ids["10"][0], after.ids["10"][-1]) == (chunk_id, chunk_id)
    assert after.name == "bm25+rerank"


def found(text: str) -> list[str]:
    return ["dial/docs/dial.md_0_49", "dial/docs/install.md_0_60"]


def test_every_retriever_can_be_reranked(usual: Built, tmp_path: Path) -> None:
    """Also one's own, of chunks or of passages, of which those without a place come last."""
    collection, where = usual.collection, usual.folder / "index"
    chunks = sorted(one.chunk_id for one in collection.corpus)[:3]
    passages = [
        {"path": "docs/dial.md", "start": 0, "end": 9},
        {"path": "docs/reset.md", "text": "reset twice"},
        {"path": "no.md", "text": "?"},
    ]
    provider = ScriptedProvider(RankPassages=backwards)
    with search_models(file(tmp_path, LISTWISE), provider=provider) as models:
        runs = {
            name: retrieve(collection, name, index_path=where, models=models)
            for name in ("lsa", "lsa+rerank", "hybrid", "hybrid+rerank")
        }
        mine = retrieve(collection, lambda _: chunks, index_path=where, models=models)
        with pytest.warns(UserWarning, match="cannot be placed"):
            theirs: Any = retrieve(collection, lambda _: passages, index_path=where, models=models)
    mmr = Models(reranker=Mmr(weight=1.0))
    similar = retrieve(collection, lambda _: chunks, index_path=where, models=mmr)

    for name in ("lsa", "hybrid"):
        assert runs[f"{name}+rerank"].ids["2"] == runs[name].ids["2"][::-1]
    assert isinstance(mine, Run)
    assert mine.ids["2"] == tuple(reversed(chunks))
    assert isinstance(theirs, PassageRun)
    assert [place.path for place in theirs.passages["2"]] == ["docs/reset.md", "docs/dial.md"]
    assert max(theirs.unplaced["2"]) < min(theirs.passages["2"].values())
    assert isinstance(similar, Run)
    assert similar.ids["2"][0] == next(one for one in runs["lsa"].ids["2"] if one in chunks)
    with (
        pytest.raises(IndexingError, match="mmr reranks chunks"),
        pytest.warns(UserWarning, match="placed"),
    ):
        retrieve(collection, lambda _: passages, index_path=where, models=mmr)


def test_a_shortlist_has_rerankers_of_its_own(usual: Built, tmp_path: Path) -> None:
    text = f'[index]\npath = "{usual.folder}/index"\n'
    for name, reranker in {
        "bm25": '{method = "mmr", depth = 3}',
        "lsa": '{method = "setwise", depth = 2, model = "extractive/baseline"}',
        "hybrid": '{method = "listwise", depth = 1, model = "extractive/baseline"}',
    }.items():
        text += f'[[retriever]]\nname = "{name}+rerank"\nreranker = {reranker}\n'
    files = retrieve_all(usual.collection, file(tmp_path, text), tmp_path / "runs")
    runs = [read_run(path) for path in files.values()]

    assert [run.name for run in runs] == ["bm25+rerank", "lsa+rerank", "hybrid+rerank"]
    assert [len(run.ids["10"]) for run in runs] == [3, 2, 1]


def test_what_is_completed_cut_or_lost_is_counted_and_said(
    usual: Built, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def partly(inputs: Inputs) -> Any:
        if "dial sticks" in str(inputs["question"]):
            return {"ranking": []}
        return {"ranking": [2, 2]}

    provider = ScriptedProvider(RankPassages=partly)
    config = file(tmp_path, LISTWISE, "context = 2048\nreasks = 0")
    long = "word " * 3000
    with caplog.at_level(logging.WARNING), search_models(config, provider=provider) as models:
        run = retrieve(
            usual.collection, "lsa+rerank", models=models, index_path=usual.folder / "index"
        )
        assert models.reranker is not None
        assert not isinstance(models.reranker, Mmr)
        scores = models.reranker.scores("Which?", ["short", long, long])

    plain = retrieve(usual.collection, "lsa", index_path=usual.folder / "index")
    first, second, *others = plain.ids["2"]
    assert run.ids["10"] == plain.ids["10"]
    assert run.ids["2"] == (second, first, *others)
    assert "2 replies repeated or left out passages" in caplog.text
    assert "1 call got no valid reply" in caplog.text
    assert scores == [2.0, 3.0, 1.0]
    shown = provider.asked[-1]["passages"]
    assert shown[0]["text"] == "short"
    assert all(len(each["text"]) < len(long) / 4 for each in shown[1:])


class Backwards(dspy.Module):
    """A reranker of one's own, that asks nobody."""

    def forward(self, query: Any, passages: Any) -> dspy.Prediction:
        return dspy.Prediction(order=range(len(passages) - 1, -1, -1))


def test_a_program_of_ones_own_reranks(tmp_path: Path) -> None:
    config = reranking(tmp_path, "bm25+rerank")
    built = build(config, provider=ScriptedProvider(), programs={"reranker": Backwards()})

    assert built.manifest.programs["reranker"].startswith("tests.recipes.test_reranking:Backwards")
    ranks = {one.chunk_id: one.pooled_by[0].rank for one in built.pool if one.query_id == "10"}
    plain = retrieve(Collection.load(config.out), "bm25", index_path=config.index.path)
    assert sorted(ranks, key=ranks.__getitem__) == [*reversed(plain.ids["10"][:4])][:3]
    with pytest.raises(ConfigError, match="no such program"):
        build(
            domain(tmp_path / "no"), provider=ScriptedProvider(), programs={"reranker": Backwards()}
        )


def search(text: str, k: int) -> list[dict[str, Any]]:
    return [
        {"path": f"docs/{name}.md", "start": 0, "end": 20} for name in ("install", "reset", "dial")
    ]


def test_what_ones_own_retriever_finds_for_the_pool_is_reranked(tmp_path: Path) -> None:
    name = f"{__name__}:search+rerank"
    config = reranking(tmp_path, name)
    built = build(config, provider=ScriptedProvider(RankPassages=backwards))

    pooled = [one for one in built.pool if one.query_id == "2"]
    ranks = {one.chunk_id.split("_")[0]: one.found_by[0].rank for one in pooled}
    # install, (reset, dial) → (install, dial), reset → dial, install, reset
    assert ranks == {"dial/docs/dial.md": 1, "dial/docs/install.md": 2, "dial/docs/reset.md": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[reranker]\nmethod = "listwise"\ntop_k = 3', "method listwise has no key top_k"),
        (
            '[reranker]\nmethod = "setwise"\napi_base = "http://x/v1"',
            "belongs into [reranker.model]",
        ),
        ('[reranker]\nmethod = "mmr"\nmodel = "openai/x"', "method mmr has no key model"),
        ('[reranker]\nmethod = "mmr"\nvectors = "small"', "there are: lsa"),
        ('[reranker]\nmethod = "listwise"\nwindow = 5\nstep = 6', "cannot be larger than window"),
        ('[reranker]\nwindow = 5\nmodel = "cohere/x"', "method cross_encoder has no key window"),
        ('[reranker.model]\nname = "openai/x"', "goes with method"),
        ("[reranker]\ndepth = 5", "or a method that needs none"),
        ('[[retriever]]\nname = "bm25+rerank"', "NAME+rerank needs a [reranker]"),
        ('[[retriever]]\nname = "a"\nretriever = "m:f+rerank"', "NAME+rerank needs a [reranker]"),
        ('[[retriever]]\nname = "bm25"\nreranker = {method = "mmr"}', "a retriever NAME+rerank"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        file(tmp_path, text)

    assert said in str(caught.value)


def test_the_model_of_the_role_reranks(usual: Built, tmp_path: Path) -> None:
    own = '[reranker.model]\nname = "openai/other"\ntemperature = 0.5\n'
    identities = set()
    for text in (
        LISTWISE,
        LISTWISE + own,
        LISTWISE + "window = 7",
        LISTWISE.replace("list", "set"),
    ):
        config = file(tmp_path, text)
        with search_models(config, provider=ScriptedProvider()) as models:
            assert models.reranker is not None
            identities.add(models.reranker.identity)

    assert config.model_of("reranker").name == "openai/scripted"
    assert file(tmp_path, LISTWISE + own).model_of("reranker").temperature == 0.5
    assert len(identities) == 4
