"""The diagnosis of a pool: everything that its records say, for the queries of some slices."""

from collections.abc import Sequence

from freshstack_dspy.collection.batch_agreement import BatchAgreement, batch_agreement
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.diagnostics.depths import Depth, depth_curve
from freshstack_dspy.collection.diagnostics.finders import Finders, finders
from freshstack_dspy.collection.diagnostics.losses import Losses, leave_one_out
from freshstack_dspy.collection.diagnostics.missing import MissingSupport, missing_support
from freshstack_dspy.collection.diagnostics.pooled import Pooled, pooled
from freshstack_dspy.collection.diagnostics.results import PoolingResult, pooling_results
from freshstack_dspy.collection.self_agreement import SelfAgreement, self_agreement
from freshstack_dspy.records import CandidateOrigin, Record, SliceName


class Diagnosis(Record):
    """What the records say of a pool; where they do not say who found what, why not."""

    slices: tuple[SliceName, ...]
    queries: int
    """Queries of these slices that have nuggets."""
    pooled: int
    """(Query, chunk) pairs that a technique pooled."""
    outside: dict[CandidateOrigin, int]
    """Candidates that no technique pooled, by how they came in."""
    relevant: int
    """(Query, chunk) pairs where the chunk supports a nugget, pooled or not."""
    relevant_outside: int
    """Of these, those that no technique pooled."""
    unknown: str | None
    """Why there is nothing below, where there is not."""
    finders: Finders | None = None
    losses: Losses | None = None
    depths: tuple[Depth, ...] = ()
    results: tuple[PoolingResult, ...] = ()
    missing: MissingSupport | None = None
    votes: SelfAgreement | None = None
    """How far several votes of the judge agree; None where it had one vote."""
    alone: BatchAgreement | None = None
    """How far judging in batches agrees with judging alone; None where no sample was judged so."""


def diagnose(contents: Contents, slices: Sequence[SliceName]) -> Diagnosis:
    """Diagnose the pool of the queries in some slices.

    Args:
        contents: The records of a collection.
        slices: Whose queries; those without nuggets are left out.

    Raises:
        CollectionError: A name is not that of a slice.
    """
    pool = pooled(contents, slices)
    found = Diagnosis(
        slices=tuple(slices),
        queries=len(pool.queries),
        pooled=len(pool.candidates),
        outside=pool.outside,
        relevant=len(pool.support),
        relevant_outside=len(pool.support.keys() - pool.candidates.keys()),
        unknown=_unknown(pool),
        votes=_votes(contents, pool),
        alone=_alone(contents, pool),
    )
    if found.unknown:
        return found
    return found.model_copy(
        update={
            "finders": finders(pool),
            "losses": leave_one_out(pool),
            "depths": depth_curve(pool),
            "results": pooling_results(contents, slices),
            "missing": missing_support(pool),
        }
    )


def _votes(contents: Contents, pool: Pooled) -> SelfAgreement | None:
    found = self_agreement(each for each in contents.judgments if each.query_id in pool.queries)
    return found if found.pairs or found.failed_votes else None


def _alone(contents: Contents, pool: Pooled) -> BatchAgreement | None:
    single = tuple(each for each in contents.single_judgments if each.query_id in pool.queries)
    if not single:
        return None
    judgments = tuple(each for each in contents.judgments if each.query_id in pool.queries)
    return batch_agreement(
        Contents(judgments=judgments, single_judgments=single, threshold=contents.threshold)
    )


def _unknown(pool: Pooled) -> str | None:
    if not pool.queries:
        return "no query with nuggets is in these slices"
    if pool.candidates:
        return None
    return (
        "no technique pooled a chunk for these queries, or the collection was imported from a "
        "format that does not say who found what"
    )
