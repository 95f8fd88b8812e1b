"""The report on a collection and its runs: all that is known, with a summary and a section for each decision.

A section is made of pictures and of the pages of the results. It draws no conclusion from labels of a
word counter, and says what to do where something is not known yet.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from freshstack_dspy.answering.scores import Scores
from freshstack_dspy.calibration.agreement import AgreementReport, agree
from freshstack_dspy.calibration.correction import Correction, correct
from freshstack_dspy.calibration.labels import pair_labels, seconds_a_label
from freshstack_dspy.collection.analyze import NEXT, Analysis, Analyzer
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.evaluating import runs_of, without_contaminated
from freshstack_dspy.collection.grouping import GROUPINGS, groupings, query_groups
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import write_file
from freshstack_dspy.measures.compare import (
    Comparison,
    Headroom,
    RunDifference,
    apart,
    best_of,
    compare_evaluations,
    headroom,
    is_one_run,
    named_runs,
)
from freshstack_dspy.measures.evaluation import (
    FRESHSTACK_MEASURES,
    Evaluation,
    Grouped,
    evaluate,
    grouped,
    read_run_of,
)
from freshstack_dspy.measures.measure import MeasureSource, cutoff_of, parse_measures
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.measures.statistics import FEWEST
from freshstack_dspy.pages.html import html_document
from freshstack_dspy.pages.page import (
    Page,
    Picture,
    Span,
    Table,
    Text,
    Value,
    counted,
    cut,
    interval,
    names_by,
    notes,
    part,
    percent,
)
from freshstack_dspy.pages.pictures import Dot, bars_picture, columns_picture, dots_picture
from freshstack_dspy.pages.shown import Shown, page_of
from freshstack_dspy.records import (
    DEPENDS,
    DRY_RUN,
    MATTERS,
    ORACLES,
    HumanLabel,
    technique_of,
)
from freshstack_dspy.stored.card import contamination, costs
from freshstack_dspy.stored.diagnose import Diagnosis, diagnose
from freshstack_dspy.stored.manifest import by_hand, is_baseline, is_dry_run, people_of
from freshstack_dspy.views.measures import (
    decision_parts,
    evaluation_page,
    group_page,
    redundancy_table,
)
from freshstack_dspy.views.scores import GOLD

if TYPE_CHECKING:
    from freshstack_dspy.answering.metrics import AnswerMetrics

_WORST = 10
"""How many queries are shown with their evidence."""
_GROUPS = 10
"""How many groups of each kind are shown at most, the largest."""


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """What a report puts together; each is the result of the function of its name.

    Attributes:
        collection: The collection.
        evaluations: The evaluated runs, by name.
        comparison: None with fewer than two runs, oracles not counted.
        analyses: By run, without oracles; of the best one, by the first measure, the worst queries
            are listed.
        groups: By run, its means by slice, by tag and by column of the questions' table.
        diagnosis: None where no query has a supported nugget.
        agreement: None without labels of people.
        correction: None without labels of people.
        answers: What answers from runs are worth; None where none were given.
    """

    collection: Collection
    evaluations: Mapping[str, Evaluation]
    comparison: Comparison | None
    analyses: Mapping[str, Analysis]
    groups: Mapping[str, Sequence[Grouped]]
    diagnosis: Diagnosis | None
    agreement: AgreementReport | None
    correction: Correction | None
    answers: "AnswerMetrics | None"

    @property
    def dry_run(self) -> bool:
        """Whether a word counter made labels, so that nothing is concluded."""
        return is_dry_run(self.collection.manifest)

    @property
    def best(self) -> str | None:
        """The run with the highest mean of the first measure, no oracle; None without runs."""
        return best_of(apart(self.evaluations)[0])

    @cached_property
    def headroom(self) -> tuple[Headroom, ...]:
        """How much better the best oracles are than each run."""
        return self.comparison.headroom if self.comparison else headroom(*apart(self.evaluations))

    def save(self, path: Path | str) -> None:
        """Write it as one HTML file, which needs no script and no network."""
        write_file(path, html_document(self.page()))

    def __repr__(self) -> str:
        return f"Report({self.collection.name!r}; {', '.join(self.evaluations) or 'no runs'})"

    __str__ = __repr__


def report(
    collection: Collection | Path | str,
    runs: Any = (),
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    labels: Sequence[HumanLabel] | Sequence[Path | str] | Path | str = (),
    answers: Path | str | None = None,
    exclude_contaminated: float | None = None,
    matters: float = MATTERS,
) -> Report:
    """Put together what is known of a collection and of runs on it, for one page.

    Args:
        collection: The collection, or its folder.
        runs: A run or several, also by name, each as for `evaluate`; none: of the collection alone.
        measures: As in `evaluate`; by the first, runs are ordered and queries are the worst.
        labels: Labels of support by people, or files of them.
        answers: The folder that `freshstack answer` wrote of these runs.
        exclude_contaminated: Leave out of means and comparisons the queries of whose nuggets the
            model knows this share without the corpus.
        matters: The smallest difference of means that matters to the decisions, above 0.

    Raises:
        CollectionError: As for `evaluate`, `agree` and `correct`; or the answers cannot be read, or
            are of another collection.
        ConfigError: A measure is unknown.
    """
    collection = Collection.load(collection)
    given = _read(collection, runs)
    people = pair_labels(labels) if labels else ()
    evaluations: dict[str, Evaluation] = {}
    excluded: tuple[str, ...] = ()
    if given:
        qrels = collection.qrels()
        qrels = replace(qrels, about=qrels.about.timed(seconds_a_label(people)))
        if exclude_contaminated is not None:
            qrels, excluded = without_contaminated(collection, qrels, exclude_contaminated)
        several = len(given) > 1
        evaluations = {
            name: evaluate(qrels, run.without(excluded), measures, judged_only=several)
            for name, run in given.items()
        }
    ordinary, _ = apart(evaluations)
    comparison = compare_evaluations(evaluations, matters=matters) if len(ordinary) > 1 else None
    agreement = correction = None
    if labels:
        agreement = agree(collection, people)
        pairs = comparison.differences if comparison else ()
        ids = dict.fromkeys((each.run, each.against) for each in pairs)
        correction = correct(
            collection,
            people,
            given,
            measures,
            pairs=ids,
            evaluations=evaluations,
            excluded=excluded,
        )
        comparison = comparison and correction.decide(comparison)
    analyzer = Analyzer(collection, parse_measures(measures)[0], 1.0) if ordinary else None
    return Report(
        collection=collection,
        evaluations=evaluations,
        comparison=comparison,
        analyses={
            name: analyzer.analyze(
                given[name],
                limit=_WORST if name == best_of(ordinary) else 0,
                evaluation=None if excluded else ordinary[name],
            ).model_copy(update={"run": name})
            for name in ordinary
            if analyzer is not None
        },
        groups=_grouped(collection, evaluations),
        diagnosis=diagnose(collection) if collection.query_ids() else None,
        agreement=agreement,
        correction=correction,
        answers=None if answers is None else _scored(collection, Path(answers), given.values()),
    )


def _read(collection: Collection, runs: Any) -> dict[str, Run | PassageRun]:
    """Read runs once, by name."""
    given = runs_of(collection, runs)
    several = [given] if is_one_run(given) else given
    if not several:
        return {}
    qrels = collection.qrels("all")
    return {name: read_run_of(qrels, run) for name, run in named_runs(qrels, several).items()}


def _scored(
    collection: Collection, folder: Path, runs: Iterable[Run | PassageRun]
) -> "AnswerMetrics":
    """Say what answers are worth, next to the rankings of their runs."""
    from freshstack_dspy.answering.metrics import answer_metrics, read_answers
    from freshstack_dspy.answering.reteval import at_depths

    answers, account = read_answers(folder)
    if account.content_hash != collection.manifest.content_hash:
        raise CollectionError(
            f"{folder}: the answers are over {account.collection!r} with the content hash "
            f"{account.content_hash}, which is not that of this collection; answer again"
        )
    ranked = [
        run
        for run in runs
        if isinstance(run, Run)
        if {depth.run.name for depth in at_depths([run], account.k)} <= {*account.runs}
    ]
    return answer_metrics(answers, account, collection, ranked)


def _grouped(
    collection: Collection, evaluations: Mapping[str, Evaluation]
) -> dict[str, list[Grouped]]:
    """Group by slices, tags, languages and own columns, where two groups have several queries."""
    queries = collection.queries
    of_their_own = {
        "tag": any(query.tags for query in queries),
        "language": any(query.language or query.fields.get("language") for query in queries),
    }
    names = [by for by in groupings(collection) if of_their_own.get(by, by not in GROUPINGS)]
    grouped_by: dict[str, list[Grouped]] = {name: [] for name in evaluations}
    for by in ("slice", *names) if evaluations else ():
        groups = query_groups(collection, by)
        measured = next(iter(evaluations.values())).per_query
        sizes = [len(measured.keys() & ids) for ids in groups.members.values()]
        several = min(sum(size > 1 for size in sizes), _GROUPS)
        for name, evaluation in evaluations.items() if several > 1 else ():
            grouped_by[name].append(grouped(evaluation, groups, limit=several))
    return grouped_by


# The page: each section is a question, its answer in a line, and what that rests on

Words: TypeAlias = tuple[str | Span | Value, ...]
Part: TypeAlias = Text | Table | Picture | Page
_LISTED = 30
"""How many nuggets that the corpus lacks are listed."""
_MEANINGS = {
    "alpha_nDCG": (
        "how early the top of a ranking supports many different nuggets, from 0 to 1; each further "
        "chunk for the same nugget counts half as much."
    ),
    "Coverage": "the share of a question's nuggets that the top of a ranking supports.",
    "Recall": "the share of the relevant chunks that are in the top of a ranking.",
}
"""What the summary says of measures that not every reader knows."""
_QUESTION = 70
"""How many characters of a question are shown."""


@page_of.register
def report_page(report: Report) -> Page:
    """Give the page: a summary, and a section for each decision."""
    sections = [
        section(report)
        for section in (_trust, _retrievers, _losses, _pool, _corpus, _answers, _costs)
    ]
    parts: list[Part] = []
    if report.dry_run:
        parts.append(Text(f"{DRY_RUN}. Nothing on this page says which is better.", "warning"))
    if report.comparison is not None:
        parts += decision_parts(report.comparison, judging=True)
    for section in sections:
        answer = section.parts[0]
        assert isinstance(answer, Text)
        question = Span(section.title, "strong", f"#{section.anchor}")
        parts.append(Text((question, " ", *answer), "item"))
    hash_ = Span(report.collection.manifest.content_hash, "code")
    identity = Text(("The collection has the content hash ", hash_, "."), "note")
    parts += (*notes(*_words(report)), *sections, *_queries(report), identity)
    return Page(f"Report on {report.collection.name}", tuple(parts))


def _section(anchor: str, question: str, answer: Words | str, parts: Iterable[Part] = ()) -> Page:
    words = (answer,) if isinstance(answer, str) else answer
    return Page(question, (Text((*words, ".")), *parts), anchor=anchor)


def _words(report: Report) -> Iterator[str]:
    """Explain what the summary has figures of."""
    trust = report.collection.manifest.trust
    if report.agreement is not None or (trust is not None and trust.kappa is not None):
        yield (
            "κ (kappa): how far judge and people agree beyond chance; 1: always, 0: as often as by "
            "chance. What people reach among themselves is the most to expect."
        )
    if report.best is not None:
        measure = report.evaluations[report.best].measures[0]
        if meaning := _MEANINGS.get(measure.partition("@")[0]):
            yield f"{measure}: {meaning}"


def _do(what: str, *commands: str) -> list[Part]:
    """Say what would fill a section."""
    return [Text(what), *(Text(Span(command, "code"), "item") for command in commands)]


def _link(what: object, anchor: str) -> Span:
    return Span(str(what), href=f"#{anchor}")


def _folded(page: Page, anchor: str) -> Page:
    """A page whose sections (queries, disagreements) are opened one by one."""
    parts = (replace(each, folded=True) if isinstance(each, Page) else each for each in page.parts)
    return replace(page, parts=tuple(parts), anchor=anchor)


def _trust(report: Report) -> Page:
    trust, agreement = report.collection.manifest.trust, report.agreement
    parts: list[Part] = []
    answer: Words = ("Not known, as the labels were compared with nobody's",)
    if trust is not None:
        answer = (trust.line[:1].upper() + trust.line[1:],)
    elif agreement is not None and (kappa := agreement.metrics["kappa"].judge):
        value = _link(interval(kappa, ".2f", ".2f"), "agreement")
        answer = ("κ of the judge and people is ", value, "; no gate was set")
    if agreement is not None:
        parts += [_agreements(agreement), _folded(agreement.page(), "agreement")]
        answer = (*answer, "; ", _link("how they agree", "agreement"))
    elif report.dry_run:
        parts += _do(
            "Labelling by people comes after labels by a model: name one under [model], and build "
            "again.",
            "freshstack build build.toml --replace",
        )
    else:
        needed = people_of(report.collection.manifest).needed
        limit = f" --limit {needed}" if needed else ""
        parts += _do(
            "With labels of people this section shows how far the judge agrees with them, and they "
            "with each other, and what values would be by their labels:",
            f"freshstack sample COLLECTION --for agreement{limit} --out tasks.jsonl",
            "freshstack label tasks.jsonl --annotator ANA",
            "freshstack report COLLECTION RUN … --labels labels-ANA.jsonl --out report.html",
        )
    if report.correction is not None:
        parts.append(replace(report.correction.page(), anchor="corrected"))
        answer = (*answer, "; ", _link("values by people's labels", "corrected"))
    if report.dry_run:
        answer = ("A word counter made labels, which are good for a dry run only",)
    return _section("trust", "May I trust it?", answer, parts)


def _agreements(agreement: AgreementReport) -> Picture:
    dots = [
        Dot(f"{name}: {who}", interval(metric, ".3f"), hollow=who == "people")
        for name in ("kappa", "precision of support", "recall of support")
        if name in agreement.metrics
        for who in ("judge", "people")
        if (metric := getattr(agreement.metrics[name], who)) is not None
    ]
    title = "the judge against people, and, as rings, people among themselves"
    return dots_picture(title, dots, ("metric", "value"))


def _retrievers(report: Report) -> Page:
    best, comparison = report.best, report.comparison
    if best is None:
        to_do = _do(
            "Search with a retriever, or with all that a configuration names, and give the runs:",
            "freshstack retrieve COLLECTION --retriever hybrid --out hybrid.run",
            "freshstack report COLLECTION hybrid.run … --out report.html",
        )
        return _section("retrievers", "Which retriever?", "No run was given", to_do)
    evaluation = report.evaluations[best]
    measure = evaluation.measures[0]
    mean = _link(interval(evaluation.intervals[measure]), "queries")
    answer: Words = (f"{cut(best)} has {measure} ", mean)
    if report.dry_run:
        answer = (f"{counted(len(report.evaluations), 'run')} measured; nothing is concluded",)
    elif comparison is not None:
        answer = (f"{cut(best)} has the highest {measure}, ", mean, *_verdicts(comparison, best))
    for each in report.headroom if not report.dry_run else ():
        if (each.run, each.measure) == (best, measure):
            above = _link(interval(each.interval, "+.4f", "+.3f"), "means")
            answer = (*answer, "; headroom to the oracle ", f"{cut(each.oracle)} ", above)
    if evaluation.about.weighted:
        answer = (*answer, f"; {evaluation.about.weighted}")
    if evaluation.mostly_unjudged and not report.dry_run:
        tops = ", ".join(map(str, evaluation.mostly_unjudged))
        answer = (*answer, f"; most of its top {tops} is unjudged")
    page = evaluation_page(report.evaluations) if comparison is None else comparison.page()
    parts: list[Part] = [_means(report, each) for each in evaluation.measures]
    if comparison is not None:
        parts += (_differences(comparison, each) for each in comparison.measures)
    else:
        parts.append(Text("With another run, this section says which differences are real."))
    parts.append(Text((_link("The values of each query", "queries"), " are at the end."), "note"))
    parts.append(replace(page, anchor="means"))
    return _section("retrievers", "Which retriever?", answer, parts)


def _verdicts(comparison: Comparison, best: str) -> Iterator[str | Span]:
    """Say of which runs the best was found to differ in the first measure."""
    verdicts = names_by(
        (_verdict(each), cut(each.against if each.run == best else each.run))
        for each in comparison.differences
        if best in (each.run, each.against) and each.measure == comparison.measures[0]
    )
    for verdict, names in verdicts.items():
        yield "; "
        yield _link(f"{verdict} {', '.join(names)}", "means")


def _verdict(each: RunDifference) -> str:
    """Say what was found of the better run, in front of the name of the other."""
    if each.verdict in ("higher", "lower"):
        return "higher than"
    if each.verdict == DEPENDS:
        return "it depends on what is unjudged whether it is higher than"
    if each.queries < FEWEST:
        few = counted(each.queries, "query is", "queries are")
        return f"{few} too few to tell whether it is higher than"
    return "no difference was found from"


def _means(report: Report, measure: str) -> Picture:
    runs, oracles = apart(report.evaluations)
    known = {name: technique_of(each.run) for name, each in oracles.items()}
    best = [
        best_of({name: each for name, each in oracles.items() if known[name] == technique}, measure)
        for technique in ORACLES
    ]
    dots = []
    drawn = {**runs, **{name: each for name, each in oracles.items() if name in best}}
    for name, evaluation in drawn.items():
        share = evaluation.unjudged_shares.get(cutoff_of(measure) or 0)
        note = "" if share is None else f"{percent(share)} unjudged"
        mean = interval(evaluation.intervals[measure])
        label = "best oracle: " * evaluation.is_oracle
        dots.append(Dot(label + name, mean, note, (share or 0) > 0.5, evaluation.is_oracle))
    title = f"{measure}, with 95% intervals; a ring: most of the top is unjudged"
    if oracles:
        title += "; dashed: reachable with the answer known"
    return dots_picture(title, dots, ("run", measure, "of its top"))


def _differences(comparison: Comparison, measure: str) -> Picture:
    dots = [
        Dot(f"{each.run} − {each.against}", interval(each.interval, "+.4f", "+.3f"))
        for each in comparison.differences
        if each.measure == measure
    ]
    title = f"{measure}: differences of two runs on the same queries, with 95% intervals"
    return dots_picture(title, dots, ("difference", measure), zero=True)


def _losses(report: Report) -> Page:
    question = "Where does it lose?"
    if report.best is None:
        parts = _do("With a run, this section has its worst questions, and why they fail.")
        return _section("losses", question, "No run was given", parts)
    analysis = report.analyses[report.best]
    lacking = sum(each.nuggets for each in analysis.kinds if each.kind == "not_in_corpus")
    kinds = [each for each in analysis.kinds if each.kind != "not_in_corpus"]
    share = part(analysis.missed - lacking, analysis.nuggets - lacking)
    what = _link(f"{share} of the nuggets that the corpus has", "missed")
    answer: Words = (f"{cut(analysis.run)} misses ", what)
    if kinds and not report.dry_run:
        most = max(kinds, key=lambda each: each.nuggets)
        why = f"{most.nuggets:,} as {most.kind.replace('_', ' ')}"
        answer = (*answer, f", {why}: {NEXT[most.kind]}")
    counts = {
        name: {
            "found": each.nuggets - each.missed,
            **{kind.kind.replace("_", " "): kind.nuggets for kind in each.kinds},
        }
        for name, each in report.analyses.items()
    }
    title = f"nuggets that the top of a run has, and why it misses others, by {analysis.measure}"
    picture = bars_picture(title, counts, ("run", "nuggets", "number"), analysis.nuggets)
    pages = [
        group_page(report.evaluations, dict(zip(report.groups, groups, strict=True)))
        for groups in zip(*report.groups.values(), strict=True)
    ]
    by_group = [
        replace(page, anchor=f"by-{number}", folded=True) for number, page in enumerate(pages, 1)
    ]
    tops = {name: each.top for name, each in report.analyses.items()}
    table = redundancy_table(tops, f"top, by {analysis.measure}")
    parts = [picture, *table, *by_group, _folded(analysis.page(), "missed")]
    return _section("losses", question, answer, parts)


def _pool(report: Report) -> Page:
    question, diagnosis = "Is the pool deep enough?", report.diagnosis
    if diagnosis is None:
        return _section("pool", question, "No query has a supported nugget")
    page = replace(diagnosis.page(), anchor="pooled")
    if diagnosis.unknown:
        return _section("pool", question, f"Not known: {diagnosis.unknown}", [page])
    rows, last_nugget = [], 0
    for before, each in pairwise((None, *diagnosis.depths)):
        assert each is not None
        chunks, relevant, nuggets = (
            (before.chunks, before.relevant, before.nuggets) if before else (0, 0, 0)
        )
        rows.append((each.depth, each.chunks - chunks, each.relevant - relevant))
        if each.nuggets > nuggets:
            last_nugget = each.depth
    rank, chunks, relevant = rows[-1]
    share = _link(f"{relevant:,} of the {counted(chunks, 'chunk')}", "pooled")
    answer: Words = (share, f" that rank {rank} added are relevant")
    if not report.dry_run:
        deeper = "it still adds nuggets: pool deeper"
        if last_nugget < rank:
            deeper = f"no nugget found its first support below rank {last_nugget}"
        answer = (*answer, f"; {deeper}")
    picture = columns_picture(
        "new chunks that each rank of the pool added, and, filled, the relevant ones among them",
        rows,
        ("rank", "new chunks", "relevant", "share"),
    )
    return _section("pool", question, answer, [picture, page])


def _corpus(report: Report) -> Page:
    collection = report.collection
    counts = collection.manifest.counts
    nuggets = sum(each.nuggets for each in collection.slices)
    supported = sum(each.supported for each in collection.slices)
    supports = f"{part(supported, nuggets)} of {counted(nuggets, 'nugget')}"
    whole = f"{counts.slices['answerable']:,} of {counted(counts.queries, 'query', 'queries')}"
    answer: Words = (f"The corpus supports {supports}, and all of {whole}",)
    sizes = {name.replace("_", " "): number for name, number in counts.slices.items() if number}
    title = "queries by how many of their nuggets the corpus supports"
    parts: list[Part] = [bars_picture(title, {"": sizes}, ("queries", "number"), counts.queries)]
    if lacking := _lacking(report):
        answer = (*answer, "; ", _link("what it lacks", "lacking"))
        parts.append(lacking)
    return _section("corpus", "Is the corpus enough?", answer, parts)


def _lacking(report: Report) -> Page | None:
    """The nuggets without support, those of queries without any first."""
    collection = report.collection
    supported = collection.supported_nuggets
    slices = {each.query_id: each.slice for each in collection.slices}
    texts = {query.query_id: query.title or query.body for query in collection.queries}
    nuggets = sorted(
        (each for each in collection.nuggets if not (each.doubtful or each.nugget_id in supported)),
        key=lambda nugget: (slices[nugget.query_id] != "unanswerable", nugget.query_id),
    )
    if not nuggets:
        return None
    columns: dict[str, Any] = {
        "query": lambda nugget: (
            _query_link(report, nugget.query_id),
            cut(texts[nugget.query_id], _QUESTION),
        ),
        "slice": lambda nugget: slices[nugget.query_id].replace("_", " "),
        "nugget": "text",
    }
    more = f"; {len(nuggets) - _LISTED:,} more" if len(nuggets) > _LISTED else ""
    note = (
        "No judged chunk supports these, as far as the pool went; documents that say it, and "
        f"freshstack refresh, would make them answerable{more}."
    )
    parts = Table.of(nuggets[:_LISTED], columns), Text(note, "note")
    return Page("Nuggets that the corpus lacks", parts, anchor="lacking")


def _answers(report: Report) -> Page:
    question, metrics = "Does it help the answer?", report.answers
    if metrics is None:
        parts = _do(
            "Answers of your system, or from runs, show whether better retrieval gives better answers:",
            "freshstack answer COLLECTION RUN … --answers FILE --config build.toml --out answers",
            "freshstack report COLLECTION RUN … --answers answers --out report.html",
        )
        return _section("answers", question, "No answers were given", parts)
    runs, _ = apart(metrics.rankings)
    ranked = {run: next(iter(each.means.values())) for run, each in runs.items()}
    quality = {
        run.run: run.means["A_strict"]
        for run in metrics.nuggets.runs
        if run.run in metrics.account.runs and not run.is_oracle
    }
    same_depth = len({each.measures for each in runs.values()}) == 1
    answer: Words = (_link(counted(metrics.number, "answer"), "answered"),)
    first = min(quality, key=lambda run: (-quality[run], run), default="")
    most = _link("the most nuggets in its answers", "answered")
    if report.dry_run or metrics.dry_run or is_baseline(metrics.account.model):
        answer = (*answer, f" by {metrics.account.model}; nothing is concluded")
    elif len(ranked) == len(quality) > 1 and same_depth:
        best = min(ranked, key=lambda run: (-ranked[run], run))
        other = "has" if best == first else f"{cut(first)} has"
        answer = (f"{cut(best)} ranks best, and {other} ", most)
    elif len(quality) > 1:
        answer = (f"{cut(first)} has ", most)
    whole = replace(metrics.page(), title="All that was measured of the answers")
    return _section(
        "answers", question, answer, [_side_by_side(metrics), _folded(whole, "measured")]
    )


def _side_by_side(metrics: "AnswerMetrics") -> Page:
    """Retrieval, what the answers hold, and how far what they cite supports them."""

    def mean(scores: Scores | None, measure: str) -> Any:
        means = {run.run: run.intervals for run in scores.runs} if scores else {}
        return lambda run: interval(means.get(run.run, {}).get(measure))

    bound = {} if metrics.gold_context is None else {GOLD: metrics.gold_context}

    def ranking(family: str) -> Any:
        means = {
            run: of
            for run, evaluation in (metrics.rankings | bound).items()
            for name, of in evaluation.intervals.items()
            if name.partition("@")[0] == family
        }
        return lambda run: interval(means.get(run.run))

    columns: dict[str, Any] = {
        "answers from": "run",
        "alpha_nDCG": ranking("alpha_nDCG"),
        "Recall": ranking("Recall"),
        "nuggets\nin the answer": mean(metrics.nuggets, "A_strict"),
        "cited chunk\nsupports": mean(metrics.citations, "weighted_precision_first"),
    }
    if metrics.agreement is not None:
        columns["agrees with\ngold answer"] = mean(metrics.agreement, "agreement")
    if metrics.accepted is not None:
        columns["agrees with\naccepted answer"] = mean(metrics.accepted, "agreement")
    if metrics.checks is not None:
        columns["nuggets\ncontradicted"] = mean(metrics.checks, "contradicted")
    note = (
        "gold: answers from the chunks that support the nuggets. Nuggets in the answer: A_strict; cited "
        "chunk supports: of the sentences that cite, by the first chunk (TREC RAG)."
    )
    parts = Table.of(metrics.nuggets.runs, columns), Text(note, "note")
    return Page("Retrieval and answers next to each other", parts, anchor="answered")


def _costs(report: Report) -> Page:
    manifest = report.collection.manifest
    counts = manifest.counts
    requests = sum(usage.calls + usage.cached for usage in manifest.ledger.values())
    dollars = sum(usage.cost + usage.cached_cost for usage in manifest.ledger.values())
    failed = counted(sum(n for by in counts.failures.values() for n in by.values()), "failure")
    agents = all(by_hand(manifest, step) for step in manifest.ledger)
    unpriced = ", answered by hand" if agents else " at an unknown price"
    price = f" for ${dollars:,.2f}" if dollars else unpriced
    answer: Words = ("No request is recorded",)
    if requests:
        answer = (f"{counted(requests, 'request')}{price}; {failed}",)
    parts: list[Part] = [*costs(manifest)]
    if (known := counts.contamination).scored and not by_hand(manifest, "closed_book_answer"):
        nuggets = f"{part(known.known, known.nuggets)} of the nuggets"
        answer = (*answer, "; ", _link(f"the model knows {nuggets} by itself", "contamination"))
        parts.append(replace(contamination(manifest), anchor="contamination"))
    return _section("costs", "What did it cost?", answer, parts)


def _queries(report: Report) -> Iterator[Page]:
    """The values of each query, the worst of the best run first."""
    if (best := report.best) is None:
        return
    evaluation = report.evaluations[best]
    measure = evaluation.measures[0]
    values = {name: of.values(measure) for name, of in report.evaluations.items()}
    order = sorted(evaluation.per_query, key=lambda id_: (values[best].get(id_, 0), id_))
    rows = [
        (
            (_query_link(report, id_), cut(evaluation.questions.get(id_, ""), _QUESTION)),
            *(of.get(id_) for of in values.values()),
        )
        for id_ in order
    ]
    table = Table(("query", *values), rows, f"{measure}, the worst of {cut(best)} first")
    yield Page("The values of each query", (table,), anchor="queries")


def _query_link(report: Report, query_id: str) -> Span:
    """A query's id, which leads to its evidence where that is on the page."""
    analysis = report.analyses.get(report.best or "")
    listed = analysis is not None and any(each.query_id == query_id for each in analysis.worst)
    return Span(query_id, "code", f"#{query_id}" if listed else "")
