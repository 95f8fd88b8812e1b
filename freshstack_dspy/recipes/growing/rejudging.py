"""Judging a collection again: another judge says what it says of the same pairs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents, nuggets_by_query
from freshstack_dspy.collection.diff import Difference, State, difference
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import call_ids_of, write_collection
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
from freshstack_dspy.records import SCALES, Chunk, Judgment, Scale

if TYPE_CHECKING:
    from freshstack_dspy.collection.manifest import Provenance
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.recipes.judging.judging import Judged
    from freshstack_dspy.recipes.session import Session

NO_TEXT = "the chunk has no text, so nothing was asked"


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
    """What came of judging again."""

    collection: Collection
    """As it stands on disk."""
    agreement: LabelAgreement
    difference: Difference
    """With every pair whose label is another."""
    textless: int
    """Pairs of which nothing was asked, for the chunk has no text."""


def rejudge(standing: Collection, session: "Session", out: Path) -> Rejudged:
    """Judge every judged pair of a collection again, and write a collection with the new labels.

    Queries, nuggets, pool and corpus stay. What the old judge said beside its judgments (single
    judgments, contamination) is left out.

    Args:
        standing: The collection; nothing in it is changed.
        session: Whom to ask; its `[judge]` says how, and on which scale.
        out: A folder where nothing stands.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: Something stands at `out`.
        CollectionError: No judged pair has a text to judge, or the folder cannot be written.
    """
    from freshstack_dspy.recipes.freshstack import FreshStack

    if out.exists():
        raise ConfigError(f"{out} stands already; name a folder that does not")
    chunks = _judged_chunks(standing)
    if not any(chunk.passage for chunk in chunks.values()):
        raise CollectionError(
            f"{standing.name}: none of its {len(chunks)} judged chunks has a text, so that there "
            "is nothing to judge; import it with its corpus: freshstack import … --corpus PATH"
        )
    recipe = FreshStack(session.config)
    judged = _judge(standing, session, recipe, chunks)
    textless = tuple(_textless(standing, chunks))
    judgments = (*judged.judgments, *textless)
    scale = session.config.judge.graded
    contents = _contents(standing, judgments, judged, scale)
    told = _provenance(standing, session, recipe, contents)
    rejected = standing.manifest.counts.rejected
    written = write_collection(out, contents, standing.chunks(), told, rejected=rejected)
    found = difference(State(standing, standing.chunks()), State(written, written.chunks()))
    agreement = label_agreement(standing, written)
    return Rejudged(written, agreement, found, len(textless))


def label_agreement(old: Collection, new: Collection) -> LabelAgreement:
    """Compare the labels of two collections, pair by pair.

    Args:
        old: The reference.
        new: What is compared with it.
    """
    on_support = old.manifest.scale.name != new.manifest.scale.name
    pairs = _pairs(old, new, on_support=on_support)
    weights: tuple[Weights, ...] = get_args(Weights)
    if on_support or SCALES[old.manifest.scale.name].highest == 1:
        weights = ()
    return LabelAgreement(
        pairs=len(pairs),
        on_support=on_support,
        exact=exact_match(pairs),
        kappa=cohen_kappa(pairs),
        weighted={each: weighted_kappa(pairs, each) for each in weights},
        on_support_kappa=cohen_kappa(_pairs(old, new, on_support=True)),
        classes=by_class(pairs),
        confusion=confusion(pairs),
    )


def _pairs(old: Collection, new: Collection, *, on_support: bool) -> list[LabelPair]:
    """The labels of the pairs that have one in both; a missing label is no 0."""
    before = _labels(old, on_support=on_support)
    now = _labels(new, on_support=on_support)
    return [(now[pair], before[pair]) for pair in before if pair in now]


def _labels(collection: Collection, *, on_support: bool) -> dict[tuple[str, str], int]:
    threshold = collection.manifest.scale.threshold
    return {
        (one.nugget_id, one.chunk_id): int(one.label >= threshold) if on_support else one.label
        for one in collection.judgments
        if one.label is not None
    }


def _judged_chunks(standing: Collection) -> dict[str, Chunk]:
    wanted = {judgment.chunk_id for judgment in standing.judgments}
    return {chunk.chunk_id: chunk for chunk in standing.chunks() if chunk.chunk_id in wanted}


def _judge(
    standing: Collection, session: "Session", recipe: "FreshStack", chunks: dict[str, Chunk]
) -> "Judged":
    """Ask about the pairs that were judged, and no others."""
    from freshstack_dspy.recipes.growing.unjudged import unjudged
    from freshstack_dspy.recipes.judging.judging import judge

    nuggets = nuggets_by_query(standing.nuggets)
    of_query: dict[str, dict[str, Chunk]] = {}
    asked: set[tuple[str, str]] = set()
    for judgment in standing.judgments:
        if chunks[judgment.chunk_id].passage:
            own = of_query.setdefault(judgment.query_id, {})
            own[judgment.chunk_id] = chunks[judgment.chunk_id]
            asked.add((judgment.nugget_id, judgment.chunk_id))
    others = {
        (nugget.nugget_id, chunk_id)
        for query_id, own in of_query.items()
        for nugget in nuggets[query_id]
        for chunk_id in own
        if (nugget.nugget_id, chunk_id) not in asked
    }
    by_query = {query_id: list(own.values()) for query_id, own in of_query.items()}
    pairs = unjudged(standing.queries, nuggets, by_query, others)
    judged = judge(session.config, recipe, session, pairs)
    session.stop_if_deferred()
    return judged


def _textless(standing: Collection, chunks: dict[str, Chunk]) -> Iterable[Judgment]:
    for judgment in standing.judgments:
        if not chunks[judgment.chunk_id].passage:
            yield Judgment(
                query_id=judgment.query_id,
                nugget_id=judgment.nugget_id,
                chunk_id=judgment.chunk_id,
                label=None,
                status="failed",
                reason=NO_TEXT,
                call_id=None,
            )


def _contents(
    standing: Collection, judgments: Sequence[Judgment], judged: "Judged", scale: Scale
) -> Contents:
    others = (failure for failure in standing.failures if failure.step != "support")
    slices = slice_queries(standing.queries, standing.nuggets, judgments, scale.threshold)
    return Contents(
        queries=standing.queries,
        nuggets=standing.nuggets,
        expansions=standing.expansions,
        pool=standing.pool,
        judgments=tuple(judgments),
        failures=(*others, *judged.failures),
        slices=tuple(slices),
        skipped=standing.skipped,
        licences=standing.licences,
        threshold=scale.threshold,
    )


def _provenance(
    standing: Collection, session: "Session", recipe: "FreshStack", contents: Contents
) -> "Provenance":
    from freshstack_dspy.recipes.provenance import provenance

    config = session.config
    used = set(session.lm.client.used_replies())
    told = provenance(config, recipe, session.lm.ledger, reasked=used - call_ids_of(contents))
    before = standing.manifest
    sections = {name: told.config[name] for name in ("model", "judge") if name in told.config}
    rejudged = {
        "content_hash": before.content_hash,
        "recipe": before.recipe,
        "model": before.model,
        "scale": before.scale.model_dump(),
    }
    return told.model_copy(
        update={
            "name": before.name,
            "recipe": f"rejudge:{before.recipe}",
            "config": {**before.config, **sections, "rejudged": rejudged},
        }
    )
