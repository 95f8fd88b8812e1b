"""The evaluation of a run: its values by query, and what was missing."""

import warnings
from array import array
from collections.abc import Sequence
from itertools import chain
from statistics import fmean
from typing import Literal, TypedDict, get_args

from pydantic import computed_field

from freshstack_dspy.errors import CollectionError, ConfigError, argument
from freshstack_dspy.measures.measure import Cutoff, Measure, MeasureSource, parse_measures
from freshstack_dspy.measures.passage_labels import judge_passages, read_run_of
from freshstack_dspy.measures.qrels import NuggetQrels, QrelsSource, to_qrels
from freshstack_dspy.measures.run import PassageRun, Run, RunSource
from freshstack_dspy.measures.values import Values
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import DRY_RUN, Record

FRESHSTACK_MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
"""What the FreshStack paper reports."""

MEASURES_VERSION = 2
"""Raised whenever a value of a measure, of the same run on the same judgments, may change: a
formula, a tie rule, what a missing query counts, how an interval is drawn. Values of two versions
are not compared; they are computed again from the stored runs."""

UnknownIds = Literal["error", "drop"]
"""What is done with chunk ids of a run that the corpus does not have."""
Conventions = Literal["ours", "trec_eval", "ndeval"]
"""Whose rules are followed: `ours`; `trec_eval`, which keeps scores in single precision, puts the
larger of two tied ids first, and leaves out queries that the run lacks; or `ndeval`, which leaves
out these and those without results."""


class Rules(TypedDict, total=False):
    """Further arguments of `evaluate` and `compare`."""

    conventions: Conventions
    """What is done with ties and with what is missing: `ours` (the default), or as another program
    does, whose values are then those that it prints."""
    unknown_ids: UnknownIds
    """What is done where chunk ids of the run are not in the corpus, if its ids are known: an
    `error` (the default), or these results are dropped, with `drop`."""
    covered: float
    """For a run of passages, the share of the evidence that a passage must hold to support a nugget,
    above 0 and at most 1, the default."""


class Unjudged(Record):
    """What the top k of a run has that was not judged."""

    k: Cutoff
    shares: dict[str, float]
    """By query with results, the share of its top k chunks (of those there are, where they are
    fewer) that are not judged: no label, or none of support and a failed judgment. Of a run of
    passages, the mean share of the bytes of each that are in no judged chunk."""
    failed: dict[str, int]
    """By query, how many failed judgments (nugget, chunk) of chunks in its top k were met; queries
    without one are left out."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def mean(self) -> float | None:
        """The mean of these shares; None where no query has results."""
        return fmean(self.shares.values()) if self.shares else None


class PassageNotes(Record):
    """What has to be known to read the evaluation of a run of passages."""

    covered: float
    """The share of the evidence that a passage holds at least to support a nugget."""
    passages: int
    """How many passages there are, at different places."""
    repeated: int
    """How many results were at the place of another of their query; the better score counts."""
    unplaced: int
    """How many results have no known place; they keep their ranks, and support nothing."""
    placed_share: float
    labels: int
    """How many labels of support the measured nuggets have."""
    without_evidence: int
    """How many of these have no evidence, and count by their whole chunk."""


class Evaluation(Values, Shown):
    """What `evaluate` found. A measure without a value for a query counts 0."""

    absent: tuple[str, ...] = ()
    """Queries of the judgments that are not in the run: 0 in every measure, unless the conventions
    leave them out."""
    empty: tuple[str, ...] = ()
    """Queries whose ranking is empty: the same."""
    without_relevant: tuple[str, ...] = ()
    """Queries none of whose nuggets is supported by a chunk with a label: most measures have no
    value for them."""
    unknown: tuple[str, ...] = ()
    """Queries of the run that have no judgments: passed over."""
    unknown_chunks: int = 0
    """How many results were dropped, as the corpus does not have them."""
    most_results: int = 0
    """The most results of any of its judged queries; a cut-off that is deeper may be past the run's own."""
    tied: tuple[str, ...] = ()
    """Queries all of whose chunks, two or more, have one score: their order is that of the ids and
    not of the retriever."""
    conventions: Conventions = "ours"
    unjudged: tuple[Unjudged, ...] = ()
    """For each cut-off among the measures, smallest first, those in tokens last, what the top has
    that was not judged."""
    passages: PassageNotes | None = None
    """Notes on a run of passages."""

    @property
    def unjudged_shares(self) -> dict[Cutoff, float | None]:
        """By cut-off, the mean share of the top that has no label."""
        return {top.k: top.mean for top in self.unjudged}

    @property
    def mostly_unjudged(self) -> tuple[Cutoff, ...]:
        """The cut-offs at which most of the top is unjudged, so that values tell little of the run."""
        return tuple(k for k, share in self.unjudged_shares.items() if (share or 0) > 0.5)

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
        notes = self.passages
        placed = "" if notes is None else f", {notes.placed_share:.1%} of the results placed"
        dry = f", {DRY_RUN}" if self.dry_run else ""
        return f"Evaluation({self.run!r}, {len(self.per_query):,} queries{placed}, {means}{dry})"

    __str__ = __repr__


def evaluate(
    qrels: QrelsSource,
    run: RunSource,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    conventions: Conventions = "ours",
    unknown_ids: UnknownIds = "error",
    covered: float = 1.0,
    judged_only: bool = False,
) -> Evaluation:
    """Evaluate a run on judgments; arguments and errors are those of `freshstack_dspy.evaluate`.

    With `judged_only` the values of the judged chunks alone are computed too, for a comparison
    (Sakai, Alternatives to Bpref, SIGIR 2007); not where the judgments list only what is relevant.
    """
    if not 0 < covered <= 1:
        raise ConfigError(f"covered is a share above 0 and at most 1, not {covered!r}")
    if conventions not in get_args(Conventions):
        allowed = ", ".join(map(repr, get_args(Conventions)))
        raise ConfigError(f"there are no conventions {conventions!r}; there are {allowed}")
    chosen = parse_measures(measures)
    judgments, passages, dropped = to_qrels(qrels), None, 0
    reference, measured_run = judgments, read_run_of(judgments, run)
    if isinstance(measured_run, PassageRun):
        passages = _notes(judgments, measured_run, covered)
        judgments, measured_run = judge_passages(measured_run, judgments, covered)
        _check_queries(judgments, measured_run)
    else:
        _check_queries(judgments, measured_run)
        measured_run, dropped = _known_chunks(judgments, measured_run, unknown_ids)
    queries, ids = judgments.nuggets, measured_run.ids
    ordered = _as_trec_eval(measured_run) if conventions == "trec_eval" else measured_run
    left_out = {
        "ours": (),
        "trec_eval": [query for query in queries if query not in ids],
        "ndeval": [query for query in queries if not ids.get(query)],
    }[conventions]
    condensed = judged_only and _has_negatives(judgments)
    without_value: dict[str, dict[str, str]] = {}
    values = {
        query: _measured(query, judgments, ordered, chosen, without_value, conventions, condensed)
        for query in queries
        if query not in left_out
    }
    cuts = {each.cutoff: each for each in chosen if each.cutoff is not None}
    cutoffs = sorted(cuts.values(), key=lambda each: (each.budget or 0, each.k or 0))
    return Evaluation(
        run=measured_run.name,
        measures=tuple(measure.name for measure in chosen),
        per_query={query: of_all for query, (of_all, _) in values.items()},
        without_value=without_value,
        judged_only={query: of_judged for query, (_, of_judged) in values.items() if condensed},
        absent=tuple(query for query in queries if query not in ids),
        empty=tuple(query for query in queries if ids.get(query) == ()),
        without_relevant=tuple(q for q in queries if not reference.judged(q).supported),
        unknown=tuple(query for query in ids if query not in queries),
        unknown_chunks=dropped,
        most_results=max((len(ids.get(query, ())) for query in queries), default=0),
        tied=tuple(query for query in queries if _all_tied(measured_run, query)),
        conventions=conventions,
        unjudged=tuple(_unjudged(judgments, measured_run, each) for each in cutoffs),
        passages=passages,
        dry_run=judgments.dry_run,
        questions={q: text for q, text in judgments.questions.items() if q in values},
        about=judgments.about.model_copy(update={"measured": len(queries)}),
    )


def _measured(
    query: str,
    qrels: NuggetQrels,
    run: Run,
    measures: Sequence[Measure],
    without_value: dict[str, dict[str, str]],
    conventions: Conventions,
    condensed: bool,
) -> tuple[dict[str, float], dict[str, float]]:
    """Give the value of each measure for a query, and that of the judged chunks alone.

    Those without one are entered into `without_value`.
    """
    ranking, judged_chunks = run.ids.get(query, ()), qrels.judged(query).chunks
    alone = tuple(filter(judged_chunks.__contains__, ranking)) if condensed else ranking
    values: dict[str, float] = {}
    values_alone: dict[str, float] = {}
    # The lowest relevant grade of trec_eval leaves the gains of nDCG as they are.
    all_grades = {"nDCG"} if conventions == "trec_eval" and qrels.plain else ()
    for measure in measures:
        judged = qrels.judged(query, 1 if measure.family in all_grades else measure.rel)
        try:
            value = of_judged = measure(ranking, judged)
            if alone[: measure.k] != ranking[: measure.k] and measure.family != "Judged":
                of_judged = measure(alone, judged)
        except CollectionError as error:
            raise CollectionError(f"run {run.name!r:.200}, query {query!r:.200}: {error}") from None
        if value is None:
            why = "no value" if judged.reference.supported else "no relevant chunk"
            without_value.setdefault(measure.name, {})[query] = why
        values[measure.name], values_alone[measure.name] = value or 0.0, of_judged or 0.0
    return values, values_alone


def _as_trec_eval(run: Run) -> Run:
    """Order by scores in single precision, the larger of two tied ids first."""
    scores = {}
    for query, chunk_scores in run.scores.items():
        single = dict(zip(chunk_scores, array("f", chunk_scores.values()), strict=True))
        ranking = sorted(chunk_scores, key=lambda chunk: (single[chunk], chunk), reverse=True)
        scores[query] = {chunk: float(-rank) for rank, chunk in enumerate(ranking)}
    return Run.from_scores(scores, name=run.name)


def _notes(qrels: NuggetQrels, run: PassageRun, covered: float) -> PassageNotes:
    labels = without = 0
    for query, nuggets in qrels.nuggets.items():
        of_query = () if qrels.spans is None else qrels.spans.labels(query).values()
        for chunk in chain.from_iterable(of_query):
            for nugget in nuggets:
                if (chunk.labels.get(nugget) or 0) >= qrels.threshold:
                    labels += 1
                    without += nugget in chunk.without_evidence
    return PassageNotes(
        covered=covered,
        passages=sum(map(len, run.passages.values())),
        repeated=run.repeated,
        unplaced=sum(map(len, run.unplaced.values())),
        placed_share=run.placed_share,
        labels=labels,
        without_evidence=without,
    )


def _unjudged(qrels: NuggetQrels, run: Run, measure: Measure) -> Unjudged:
    shares: dict[str, float] = {}
    failed: dict[str, int] = {}
    for query in qrels.nuggets:
        judged = qrels.judged(query)
        top = measure.top(run.ids.get(query, ()), judged)
        if not top:
            continue
        if qrels.passages is None:
            shares[query] = (len(top) - sum(map(judged.chunks.__contains__, top))) / len(top)
        else:
            shares[query] = fmean(map(qrels.passages.unjudged[query].__getitem__, sorted(top)))
        if judged.failed:
            met = sum(len(qrels.failed[nugget].intersection(top)) for nugget in judged.labels)
            failed |= {query: met} if met else {}
    return Unjudged(k=measure.cutoff or 0, shares=shares, failed=failed)


def _has_negatives(qrels: NuggetQrels) -> bool:
    """Whether anything was judged not relevant; where only the relevant is listed, all else is not."""
    labels = chain.from_iterable(by_chunk.values() for by_chunk in qrels.labels.values())
    return any(label < qrels.threshold for label in labels)


def _all_tied(run: Run, query: str) -> bool:
    ids = run.ids.get(query, ())
    return len(ids) > 1 and run.scores[query][ids[0]] == run.scores[query][ids[-1]]


def _check_queries(qrels: NuggetQrels, run: Run) -> None:
    if not qrels.nuggets:
        raise CollectionError("no query has a nugget to be evaluated on")
    if run and qrels.nuggets.keys().isdisjoint(run):
        raise CollectionError(
            f"none of the {len(run)} queries of run {run.name!r:.200} has judgments: "
            f"the run has {next(iter(run))!r:.200}, the judgments "
            f"{next(iter(qrels.nuggets))!r:.200}; evaluate it on the collection it was made for"
        )


def _known_chunks(qrels: NuggetQrels, run: Run, unknown_ids: UnknownIds) -> tuple[Run, int]:
    """Give the run without the chunks that the corpus does not have, and how many they are."""
    if qrels.chunk_ids is None:
        judged = set().union(*qrels.labels.values())
        first = next(chain.from_iterable(run.ids.values()), None)
        if judged and first and judged.isdisjoint(chain.from_iterable(run.ids.values())):
            warnings.warn(
                f"no document of run {run.name!r:.200} is in the judgments, as {first!r:.200}: "
                "are they of the same corpus?",
                stacklevel=3,
            )
        return run, 0
    retrieved = [chunk for query, ids in run.ids.items() if query in qrels.nuggets for chunk in ids]
    ids = set(retrieved)
    unknown = ids - qrels.chunk_ids
    if not unknown:
        return run, 0
    if unknown_ids == "error":
        raise CollectionError(
            f"{len(unknown):,} of {len(ids):,} chunk ids of run {run.name!r:.200} are not in the "
            f"corpus, as {min(unknown)!r:.200}: is it a run of this collection? "
            f"evaluate and compare leave them out with {argument('unknown_ids', 'drop')}"
        )
    return run.of_chunks(ids - unknown), sum(map(unknown.__contains__, retrieved))
