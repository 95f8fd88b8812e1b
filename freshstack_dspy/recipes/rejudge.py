"""Rejudge a collection: another judge labels the same pairs, and the labels are compared."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal, NamedTuple, Unpack, get_args

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents, nuggets_by_query
from freshstack_dspy.collection.diff import Difference, State, difference
from freshstack_dspy.collection.manifest import Provenance
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.config import BuildConfig, load_judging
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.agreement import (
    ClassAgreement,
    Confusion,
    LabelPair,
    Weights,
    by_class,
    cohen_kappa,
    confusion,
    exact_match,
    weighted_kappa,
)
from freshstack_dspy.measures.statistics import Estimate
from freshstack_dspy.recipes.provenance import provenance
from freshstack_dspy.recipes.session import (
    Session,
    SessionOptions,
    check_writable,
    open_session,
)
from freshstack_dspy.records import SCALES, Chunk, Failure, Judgment, Scale

if TYPE_CHECKING:
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.recipes.judge import ToJudge

NO_TEXT = "the chunk has no text, so nothing was asked"
Shape = Literal["batch", "windowed", "pairwise"]


class LabelAgreement(NamedTuple):
    """How the new labels agree with the old, the old being the reference."""

    pairs: int
    """Pairs with a label in both."""
    on_support: bool
    """Whether labels were compared as support or none, for their scales differ."""
    exact: Estimate
    kappa: Estimate
    """Plain: any difference is as large as any other."""
    weighted: dict[Weights, Estimate]
    """Kappa for which a larger difference is a worse one; empty where labels are yes and no."""
    on_support_kappa: Estimate
    """Kappa of support or none, each label read by the threshold of its own collection."""
    classes: tuple[ClassAgreement, ...]
    confusion: Confusion


class Rejudged(NamedTuple):
    """What another judge says of the same pairs."""

    collection: Collection | None
    """As it is on disk; None of a sample, which is not written."""
    agreement: LabelAgreement
    difference: Difference | None
    """With every pair whose label is another; None of a sample."""
    textless: int
    """Pairs of which nothing was asked, for the chunk has no text."""


def rejudge(
    collection: Path | str,
    config: BuildConfig | Path | str,
    out: Path | None = None,
    *,
    shape: Shape | None = None,
    sample: int | None = None,
    **options: Unpack[SessionOptions],
) -> Rejudged:
    """Judge every judged pair of a collection again, and write a collection with the new labels.

    Queries, nuggets, pool and corpus stay; what the old judge said about contamination is left out.

    Args:
        collection: Its folder; nothing in it is changed.
        config: A configuration, or its TOML file; its `[model]` and `[judge]` judge.
        out: A new folder; needed unless a sample is judged.
        shape: What one call holds, in place of `[judge] shape`.
        sample: Judge so many pooled chunks alone, spread over the queries, and write nothing. With
            the model of the collection this says how far its batches agree with single judging.
        options: Mode, progress, provider and the like; see `SessionOptions`.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: `out` exists, or is missing.
        CollectionError: No judged pair has a text to judge, or the folder cannot be written.
    """
    if not isinstance(config, BuildConfig):
        config = load_judging(config)
    if (out is None) == (sample is None):
        raise ConfigError("name either --out, for a collection with new labels, or --sample")
    if out is not None:
        if out.exists():
            raise ConfigError(f"{out} exists; name a folder that does not")
        check_writable(out)
    seed = config.judge.shuffle or 0
    judging: dict[str, object] = {"shape": shape or config.judge.shape}
    if sample is not None:
        judging |= {"votes": 1, "shuffle": None, "batch": 1}
    config = config.model_copy(update={"judge": config.judge.model_copy(update=judging)})
    before = Collection.load(collection)
    chunks = {one.chunk_id: one for one in before.chunks()}
    pairs = list(_pairs(before, chunks))
    if not pairs:
        raise CollectionError(
            f"{before.name}: no judged chunk has a text, so that there is nothing to judge; "
            "import it with its corpus: freshstack import … --corpus PATH"
        )
    if sample is not None:
        pairs = _sampled(pairs, sample, seed)
    with open_session(config, searching=False, **options) as session:
        from freshstack_dspy.recipes.freshstack import FreshStack
        from freshstack_dspy.recipes.judge import judge

        recipe = FreshStack(config)
        judged = judge(session, recipe, pairs)
        session.stop_if_deferred()
        scales = before.manifest.scale, config.judge.graded
        if out is None:
            agreement = label_agreement(before.judgments, judged.judgments, *scales)
            return Rejudged(None, agreement, None, 0)
        textless = tuple(_textless(before, chunks))
        contents = _contents(before, (*judged.judgments, *textless), judged.failures, scales[1])
        described = _provenance(before, session, recipe, contents)
    rejected = before.manifest.counts.rejected
    written = write_collection(out, contents, chunks.values(), described, rejected=rejected)
    found = difference(State(before, chunks.values()), State(written, chunks.values()))
    agreement = label_agreement(before.judgments, written.judgments, *scales)
    return Rejudged(written, agreement, found, len(textless))


def label_agreement(
    old: Sequence[Judgment], new: Sequence[Judgment], old_scale: Scale, new_scale: Scale
) -> LabelAgreement:
    """Compare labels pair by pair, the old ones being the reference; a missing label is no 0."""
    on_support = old_scale.name != new_scale.name

    def compared(*, on_support: bool) -> list[LabelPair]:
        before = _labels(old, old_scale, on_support=on_support)
        now = _labels(new, new_scale, on_support=on_support)
        return [(now[pair], before[pair]) for pair in before if pair in now]

    pairs = compared(on_support=on_support)
    weights: tuple[Weights, ...] = get_args(Weights)
    if on_support or SCALES[old_scale.name].highest == 1:
        weights = ()
    return LabelAgreement(
        pairs=len(pairs),
        on_support=on_support,
        exact=exact_match(pairs),
        kappa=cohen_kappa(pairs),
        weighted={each: weighted_kappa(pairs, each) for each in weights},
        on_support_kappa=cohen_kappa(compared(on_support=True)),
        classes=by_class(pairs),
        confusion=confusion(pairs),
    )


def _labels(
    judgments: Sequence[Judgment], scale: Scale, *, on_support: bool
) -> dict[tuple[str, str], int]:
    return {
        (one.nugget_id, one.chunk_id): (
            int(one.label >= scale.threshold) if on_support else one.label
        )
        for one in judgments
        if one.label is not None
    }


def _pairs(before: Collection, chunks: dict[str, Chunk]) -> Iterator["ToJudge"]:
    """The pairs that were judged, of chunks with a text; chunks with the same nuggets together."""
    from freshstack_dspy.recipes.judge import ToJudge

    nuggets = nuggets_by_query(before.nuggets)
    judged: dict[str, dict[str, set[str]]] = {}
    for one in before.judgments:
        if chunks[one.chunk_id].passage:
            of_query = judged.setdefault(one.query_id, {})
            of_query.setdefault(one.chunk_id, set()).add(one.nugget_id)
    for query in before.queries:
        groups: dict[frozenset[str], list[Chunk]] = {}
        for chunk_id, ids in judged.get(query.query_id, {}).items():
            groups.setdefault(frozenset(ids), []).append(chunks[chunk_id])
        for wanted, of_these in groups.items():
            own = [nugget for nugget in nuggets[query.query_id] if nugget.nugget_id in wanted]
            yield ToJudge(query, own, of_these)


def _sampled(pairs: Sequence["ToJudge"], count: int, seed: int) -> list["ToJudge"]:
    """Single chunks, drawn by a seed: each query gives one before any gives a second."""
    drawn = []
    for pair in pairs:
        ordered = sorted(pair.chunks, key=lambda chunk: chunk.chunk_id)
        seeded = Random(f"{seed}:{pair.query.query_id}:{len(pair.nuggets)}")  # noqa: S311 - no secret
        seeded.shuffle(ordered)
        drawn += [(turn, pair._replace(chunks=[chunk])) for turn, chunk in enumerate(ordered)]
    return [pair for _, pair in sorted(drawn, key=lambda one: one[0])[:count]]


def _textless(before: Collection, chunks: dict[str, Chunk]) -> Iterator[Judgment]:
    for judgment in before.judgments:
        if not chunks[judgment.chunk_id].passage:
            ids = judgment.model_dump(include={"query_id", "nugget_id", "chunk_id"})
            yield Judgment(**ids, label=None, status="failed", reason=NO_TEXT, call_id=None)


def _contents(
    before: Collection,
    judgments: tuple[Judgment, ...],
    failures: Sequence[Failure],
    scale: Scale,
) -> Contents:
    others = (failure for failure in before.failures if failure.step != "support")
    slices = slice_queries(before.queries, before.nuggets, judgments, scale.threshold)
    records = {
        **before.records(),
        "judgments": judgments,
        "contamination": (),
        "failures": (*others, *failures),
        "slices": tuple(slices),
    }
    return Contents(**records, threshold=scale.threshold)


def _provenance(
    before: Collection, session: Session, recipe: "FreshStack", contents: Contents
) -> Provenance:
    old = before.manifest
    described = provenance(session, recipe, contents)
    rejudged = {
        "content_hash": old.content_hash,
        "recipe": old.recipe,
        "model": old.model,
        "scale": old.scale.model_dump(),
    }
    sections = {name: described.config[name] for name in ("model", "judge")}
    return described.model_copy(
        update={
            "name": old.name,
            "recipe": f"rejudge:{old.recipe}",
            "config": {**old.config, **sections, "rejudged": rejudged},
        }
    )
