"""The report on a collection and its runs: all that is known, with a summary and a section for each decision.

A section is made of pictures and of the pages of the results. It draws no conclusion from labels of a
word counter, and says what to do where something is not known yet.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from freshstack_dspy.answering.metrics import AnswerMetrics
from freshstack_dspy.calibration.agreement import AgreementReport, agree
from freshstack_dspy.calibration.correction import Correction, correct
from freshstack_dspy.calibration.labels import pair_labels
from freshstack_dspy.collection.analysis import NEXT, Analysis
from freshstack_dspy.collection.analyze import analyze
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.evaluating import runs_of, without_contaminated
from freshstack_dspy.collection.grouping import GROUPINGS, groupings, query_groups
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import write_file
from freshstack_dspy.measures.compare import (
    Comparison,
    RunDifference,
    best_of,
    compare_evaluations,
    is_one_run,
    named_runs,
)
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, Evaluation, evaluate
from freshstack_dspy.measures.measure import MeasureSource, parse_measure, parse_measures
from freshstack_dspy.measures.passage_labels import read_run_of
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.measures.statistics import FEWEST
from freshstack_dspy.measures.values import Grouped, grouped
from freshstack_dspy.pages.html import html_document
from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Picture,
    Span,
    Table,
    Text,
    Value,
    counted,
    cut,
    interval,
    part,
    percent,
)
from freshstack_dspy.pages.pictures import Dot, bars_picture, columns_picture, dots_picture
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import DEPENDS, DRY_RUN, HumanLabel, Nugget
from freshstack_dspy.stored.card import contamination, costs
from freshstack_dspy.stored.diagnose import Diagnosis, diagnose
from freshstack_dspy.stored.manifest import is_baseline, is_dry_run
from freshstack_dspy.stored.slices import SUPPORTED
from freshstack_dspy.views.measures import (
    evaluation_page,
    group_page,
)

_WORST = 10
"""How many queries are shown with their evidence."""
_GROUPS = 10
"""How many groups of each kind are shown at most, the largest."""


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """What a report puts together; each is the result of the function of its name.

    Attributes:
        collection: The collection.
        evaluations: Of the runs, by name.
        comparison: None with fewer than two runs.
        analyses: By run; of the best one, by the first measure, the worst queries are listed.
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
    answers: AnswerMetrics | None

    @property
    def dry_run(self) -> bool:
        """Whether a word counter made labels, so that nothing is concluded."""
        return is_dry_run(self.collection.manifest)

    @property
    def best(self) -> str | None:
        """The run with the highest mean of the first measure; None without runs."""
        return best_of(self.evaluations)

    def page(self) -> Page:
        """Give the page: a summary, and a section for each decision."""
        return report_page(self)

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

    Raises:
        CollectionError: As for `evaluate`, `agree` and `correct`; or the answers cannot be read, or
            are of another collection.
        ConfigError: A measure is unknown.
    """
    collection = Collection.load(collection)
    given = _read(collection, runs)
    evaluations: dict[str, Evaluation] = {}
    excluded: tuple[str, ...] = ()
    if given:
        qrels, excluded = without_contaminated(collection, collection.qrels(), exclude_contaminated)
        several = len(given) > 1
        evaluations = {
            name: evaluate(qrels, run.without(excluded), measures, judged_only=several)
            for name, run in given.items()
        }
    comparison = compare_evaluations(evaluations) if len(evaluations) > 1 else None
    agreement = correction = None
    if labels:
        people = pair_labels(labels)
        agreement = agree(collection, people)
        pairs = comparison.differences if comparison else ()
        ids = dict.fromkeys((each.run, each.against) for each in pairs)
        correction = correct(collection, people, given, measures, pairs=ids, excluded=excluded)
    return Report(
        collection=collection,
        evaluations=evaluations,
        comparison=comparison,
        analyses={
            name: analyze(
                collection,
                run,
                measure=parse_measures(measures)[0],
                limit=_WORST if name == best_of(evaluations) else 0,
            ).model_copy(update={"run": name})
            for name, run in given.items()
        },
        groups=_grouped(collection, evaluations),
        diagnosis=diagnose(collection) if collection.queries_in(SUPPORTED) else None,
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
) -> AnswerMetrics:
    """Say what answers are worth, next to the rankings of their runs."""
    from freshstack_dspy.answering.metrics import answer_metrics, read_answers
    from freshstack_dspy.answering.reteval import at_depths

    found, account = read_answers(folder)
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
    return answer_metrics(found, account, collection, ranked)


def _grouped(
    collection: Collection, evaluations: Mapping[str, Evaluation]
) -> dict[str, list[Grouped]]:
    """Group by slices, tags and own columns; a group of one query is none."""
    own = [name for name in groupings(collection) if name not in GROUPINGS]
    tags = ["tag"] if any(query.tags for query in collection.queries) else []
    found: dict[str, list[Grouped]] = {name: [] for name in evaluations}
    said = any(query.language or query.fields.get("language") for query in collection.queries)
    languages = ["language"] * said
    for by in ("slice", *tags, *languages, *own) if evaluations else ():
        groups = query_groups(collection, by)
        measured = next(iter(evaluations.values())).per_query
        sizes = [len(measured.keys() & ids) for ids in groups.members.values()]
        several = min(sum(size > 1 for size in sizes), _GROUPS)
        for name, of in evaluations.items() if several > 1 else ():
            found[name].append(grouped(of, groups, limit=several))
    return found


# The page

Words: TypeAlias = tuple[str | Span | Value, ...]
Part: TypeAlias = Text | Table | Picture | Page
_LISTED = 30
"""How many nuggets that the corpus lacks are listed."""
_CASES = 10
"""How many answers of each case are shown."""
_MEANINGS = {
    "alpha_nDCG": (
        "how early the top of a ranking supports many different nuggets, from 0 to 1; each further "
        "chunk for the same nugget counts half as much."
    ),
    "Coverage": "the share of a question's nuggets that the top of a ranking supports.",
    "Recall": "the share of the relevant chunks that are in the top of a ranking.",
}
"""What the summary says of measures that not every reader knows."""
_QUESTION, _ANSWER = 70, 600
"""How many characters of them are shown."""


class Section(NamedTuple):
    """A question, its answer in a line, and what that rests on."""

    anchor: str
    question: str
    answer: Words
    parts: Sequence[Part] = ()


def report_page(report: Report) -> Page:
    """Give the page of a report."""
    collection = report.collection
    sections = [
        of(report) for of in (_trust, _retrievers, _losses, _pool, _corpus, _answers, _costs)
    ]
    parts: list[Part] = []
    if report.dry_run:
        parts.append(Text(f"{DRY_RUN}. Nothing on this page says which is better.", "warning"))
    for one in sections:
        question = Span(one.question, "strong", f"#{one.anchor}")
        summary = (question, " ", *one.answer, ".")
        parts.append(Text(summary, "item"))
    parts += (Text(line, "note") for line in _words(report))
    for one in sections:
        answer = Text((*one.answer, "."))
        parts.append(Page(one.question, (answer, *one.parts), anchor=one.anchor))
    parts += _queries(report)
    hash_ = Span(collection.manifest.content_hash, "code")
    parts.append(Text(("The collection has the content hash ", hash_, "."), "note"))
    return Page(f"Report on {collection.name}", tuple(parts))


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
        if meaning := _MEANINGS.get(parse_measure(measure).family):
            yield f"{measure}: {meaning}"


def _do(what: str, *commands: str) -> list[Part]:
    """Say what would fill a section."""
    return [Text(what), *(Text(Span(command, "code"), "item") for command in commands)]


def _link(what: object, anchor: str) -> Span:
    return Span(str(what), href=f"#{anchor}")


# May I trust it?


def _trust(report: Report) -> Section:
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
        parts += _do(
            "With labels of people this section shows how far the judge agrees with them, and they "
            "with each other, and what values would be by their labels:",
            "freshstack sample COLLECTION --for agreement --limit 150 --out tasks.jsonl",
            "freshstack label tasks.jsonl --annotator ANA",
            "freshstack report COLLECTION RUN … --labels labels-ANA.jsonl --out report.html",
        )
    if report.correction is not None:
        parts.append(replace(report.correction.page(), anchor="corrected"))
        answer = (*answer, "; ", _link("values by people's labels", "corrected"))
    if report.dry_run:
        answer = ("A word counter made labels, which are good for a dry run only",)
    return Section("trust", "May I trust it?", answer, parts)


def _agreements(found: AgreementReport) -> Picture:
    metrics = {
        name: found.metrics[name]
        for name in ("kappa", "precision of support", "recall of support")
        if name in found.metrics
    }
    dots = [
        Dot(f"{name}: {who}", interval(one, ".3f"), hollow=who == "people")
        for name, of in metrics.items()
        for who, one in (("judge", of.judge), ("people", of.people))
        if one is not None
    ]
    title = "the judge against people, and, as rings, people among themselves"
    return dots_picture(title, dots, ("metric", "value"))


# Which retriever?


def _retrievers(report: Report) -> Section:
    best, comparison = report.best, report.comparison
    if best is None:
        to_do = _do(
            "Search with a retriever, or with all that a configuration names, and give the runs:",
            "freshstack retrieve COLLECTION --retriever hybrid --out hybrid.run",
            "freshstack report COLLECTION hybrid.run … --out report.html",
        )
        return Section("retrievers", "Which retriever?", ("No run was given",), to_do)
    evaluation = report.evaluations[best]
    measure = evaluation.measures[0]
    mean = _link(interval(evaluation.intervals[measure]), "queries")
    answer: Words = (f"{cut(best)} has {measure} ", mean)
    if report.dry_run:
        answer = (f"{counted(len(report.evaluations), 'run')} measured; nothing is concluded",)
    elif comparison is not None:
        answer = (f"{cut(best)} has the highest {measure}, ", mean, *_found(comparison, best))
    if evaluation.mostly_unjudged and not report.dry_run:
        tops = ", ".join(map(str, evaluation.mostly_unjudged))
        answer = (*answer, f"; most of its top {tops} is unjudged")
    page = evaluation_page(report.evaluations) if comparison is None else comparison.page()
    parts: list[Part] = [_means(report, measure) for measure in evaluation.measures]
    if comparison is not None:
        parts += (_differences(comparison, measure) for measure in comparison.measures)
    else:
        parts.append(Text("With another run, this section says which differences are real."))
    parts.append(Text((_link("The values of each query", "queries"), " are at the end."), "note"))
    parts.append(replace(page, anchor="means"))
    return Section("retrievers", "Which retriever?", answer, parts)


def _found(comparison: Comparison, best: str) -> Iterator[str | Span]:
    """Say of which runs the best was found to differ in the first measure."""
    found: dict[str, list[str]] = {}
    for each in comparison.differences:
        if best in (each.run, each.against) and each.measure == comparison.measures[0]:
            other = each.against if each.run == best else each.run
            found.setdefault(_verdict(each), []).append(cut(other))
    for what, names in found.items():
        yield "; "
        yield _link(f"{what} {', '.join(names)}", "means")


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
    dots = []
    for name, of in report.evaluations.items():
        share = of.unjudged_shares.get(parse_measure(measure).cutoff or 0)
        note = "" if share is None else f"{percent(share)} unjudged"
        dots.append(Dot(name, interval(of.intervals[measure]), note, hollow=(share or 0) > 0.5))
    title = f"{measure}, with 95% intervals; a ring: most of the top is unjudged"
    return dots_picture(title, dots, ("run", measure, "of its top"))


def _differences(comparison: Comparison, measure: str) -> Picture:
    dots = [
        Dot(f"{each.run} − {each.against}", interval(each.interval, "+.4f", "+.3f"))
        for each in comparison.differences
        if each.measure == measure
    ]
    title = f"{measure}: differences of two runs on the same queries, with 95% intervals"
    return dots_picture(title, dots, ("difference", measure), zero=True)


# Where does it lose?


def _losses(report: Report) -> Section:
    question = "Where does it lose?"
    if report.best is None:
        parts = _do("With a run, this section has its worst questions, and why they fail.")
        return Section("losses", question, ("No run was given",), parts)
    found = report.analyses[report.best]
    lacking = sum(of.nuggets for of in found.kinds if of.kind == "not_in_corpus")
    kinds = [of for of in found.kinds if of.kind != "not_in_corpus"]
    there, missed = found.nuggets - lacking, found.missed - lacking
    what = _link(f"{part(missed, there)} of the nuggets that the corpus has", "missed")
    answer: Words = (f"{cut(found.run)} misses ", what)
    if kinds and not report.dry_run:
        most = max(kinds, key=lambda of: of.nuggets)
        why = f"{most.nuggets:,} as {most.kind.replace('_', ' ')}"
        answer = (*answer, f", {why}: {NEXT[most.kind]}")
    counts = {
        name: {
            "found": of.nuggets - of.missed,
            **{kind.kind.replace("_", " "): kind.nuggets for kind in of.kinds},
        }
        for name, of in report.analyses.items()
    }
    title = f"nuggets that the top of a run has, and why it misses others, by {found.measure}"
    picture = bars_picture(title, counts, ("run", "nuggets", "number"), found.nuggets)
    groups = report.groups
    by_group = [
        replace(
            group_page(report.evaluations, {name: of[at] for name, of in groups.items()}),
            anchor=f"by-{at + 1}",
            folded=True,
        )
        for at in range(len(groups[report.best]))
    ]
    return Section(
        "losses",
        question,
        answer,
        [picture, *by_group, _folded(found.page(), "missed")],
    )


def _folded(page: Page, anchor: str) -> Page:
    """A page whose sections (queries, disagreements) are opened one by one."""
    parts = (replace(of, folded=True) if isinstance(of, Page) else of for of in page.parts)
    return replace(page, parts=tuple(parts), anchor=anchor)


# Is the pool deep enough?


def _pool(report: Report) -> Section:
    question, found = "Is the pool deep enough?", report.diagnosis
    if found is None or found.unknown:
        why = "No query has a supported nugget" if found is None else f"Not known: {found.unknown}"
        parts = [replace(found.page(), anchor="pooled")] if found else []
        return Section("pool", question, (why,), parts)
    before = (0, 0, 0)
    rows, last_nugget = [], 0
    for each in found.depths:
        rows.append((each.depth, each.chunks - before[0], each.relevant - before[1]))
        if each.nuggets > before[2]:
            last_nugget = each.depth
        before = (each.chunks, each.relevant, each.nuggets)
    rank, chunks, relevant = rows[-1]
    held = _link(f"{relevant:,} of the {counted(chunks, 'chunk')}", "pooled")
    answer: Words = (held, f" that rank {rank} added are relevant")
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
    return Section("pool", question, answer, [picture, replace(found.page(), anchor="pooled")])


# Is the corpus enough?


def _corpus(report: Report) -> Section:
    collection = report.collection
    slices = collection.manifest.counts.slices
    nuggets = sum(one.nuggets for one in collection.slices)
    supported = sum(one.supported for one in collection.slices)
    queries = len(collection.queries)
    lacking = list(_lacking(report))
    held = f"{part(supported, nuggets)} of {counted(nuggets, 'nugget')}"
    whole = f"{slices['answerable']:,} of {counted(queries, 'query', 'queries')}"
    answer: Words = (f"The corpus supports {held}, and all of {whole}",)
    if lacking:
        answer = (*answer, "; ", _link("what it lacks", "lacking"))
    counts = {name.replace("_", " "): number for name, number in slices.items() if number}
    title = "queries by how many of their nuggets the corpus supports"
    parts: list[Part] = [bars_picture(title, {"": counts}, ("queries", "number"), queries)]
    if lacking:
        more = f"; {len(lacking) - _LISTED:,} more" if len(lacking) > _LISTED else ""
        texts = {one.query_id: one.title or one.body for one in collection.queries}
        of = {one.query_id: one.slice for one in collection.slices}
        rows: list[tuple[Cell, ...]] = [
            (
                (_query_link(report, one.query_id), cut(texts[one.query_id], _QUESTION)),
                of[one.query_id].replace("_", " "),
                one.text,
            )
            for one in lacking[:_LISTED]
        ]
        table = Table(("query", "slice", "nugget"), rows)
        note = Text(
            "No judged chunk supports these, as far as the pool went; documents that say it, and "
            f"freshstack refresh, would make them answerable{more}.",
            "note",
        )
        parts.append(Page("Nuggets that the corpus lacks", (table, note), anchor="lacking"))
    return Section("corpus", "Is the corpus enough?", answer, parts)


def _lacking(report: Report) -> Iterable[Nugget]:
    """The nuggets without support, those of queries without any first."""
    collection = report.collection
    supported = collection.supported_nuggets()
    of = {one.query_id: one.slice for one in collection.slices}
    missing = [
        one for one in collection.nuggets if not one.doubtful and one.nugget_id not in supported
    ]
    return sorted(missing, key=lambda one: (of[one.query_id] != "unanswerable", one.query_id))


# Does it help the answer?


def _answers(report: Report) -> Section:
    question, found = "Does it help the answer?", report.answers
    if found is None:
        parts = _do(
            "Answers from runs show whether better retrieval gives better answers:",
            "freshstack answer COLLECTION RUN … --config build.toml --out answers",
            "freshstack report COLLECTION RUN … --answers answers --out report.html",
        )
        return Section("answers", question, ("No answers were given",), parts)
    ranked = {run: next(iter(of.means.values())) for run, of in found.rankings.items()}
    quality = {one.run: one.means["A_strict"] for one in found.nuggets.runs}
    answers = sum(len(one.per_query) for one in found.agreement.runs)
    answer: Words = (_link(counted(answers, "answer"), "answered"),)
    if report.dry_run or is_baseline(found.account.model):
        answer = (*answer, f" by {found.account.model}; nothing is concluded")
    elif len(ranked) > 1:
        best = min(ranked, key=lambda run: (-ranked[run], run))
        first = min(ranked, key=lambda run: (-quality[run], run))
        most = _link("the most nuggets in its answers", "answered")
        other = "has" if best == first else f"{cut(first)} has"
        answer = (f"{cut(best)} ranks best, and {other} ", most)
    parts = [_side_by_side(found)]
    if found.cases:
        parts.append(Page("Where recall and answers differ", tuple(_cases(found)), anchor="cases"))
    whole = replace(found.page(), title="All that was measured of the answers")
    return Section("answers", question, answer, [*parts, _folded(whole, "measured")])


def _side_by_side(found: AnswerMetrics) -> Page:
    """Retrieval, what the answers hold, and how far what they cite supports them."""
    agreement, nuggets, citations = (
        {} if of is None else {one.run: one.intervals for one in of.runs}
        for of in (found.agreement, found.nuggets, found.citations)
    )
    shown = ("alpha_nDCG", "Recall")
    rows: list[tuple[Cell, ...]] = []
    for run, of in nuggets.items():
        ranking = found.rankings.get(run)
        means = {} if ranking is None else ranking.intervals
        of_shown = {name.partition("@")[0]: mean for name, mean in means.items()}
        rows.append(
            (
                run,
                *(interval(of_shown.get(name)) for name in shown),
                interval(of["A_strict"]),
                interval(agreement.get(run, {}).get("agreement")),
                interval(citations.get(run, {}).get("weighted_precision_first")),
            )
        )
    header = (
        "answers from",
        *shown,
        "nuggets\nin the answer",
        "agrees with\ngold answer",
        "cited chunk\nsupports",
    )
    note = Text(
        "gold: answers from the chunks that support the nuggets. Nuggets in the answer: A_strict; cited "
        "chunk supports: of the sentences that cite, by the first chunk (TREC RAG).",
        "note",
    )
    return Page(
        "Retrieval and answers next to each other", (Table(header, rows), note), anchor="answered"
    )


def _cases(found: AnswerMetrics) -> Iterator[Part]:
    """The answers about which recall and the gold answer are of two minds (LLM-retEval)."""
    from freshstack_dspy.answering.cases import CASES

    for case, what in CASES.items():
        of = [one for one in found.cases if one.case == case]
        if not of:
            continue
        parts: list[Part] = []
        for one in of[:_CASES]:
            asked = Span(f"{one.run_id}, {one.query_id}", "code")
            parts.append(Text((asked, f" {cut(one.question, _QUESTION)}")))
            for name, text in (("gold answer", one.gold_answer), ("answer", one.answer)):
                parts.append(Text((Span(f"{name}: ", "strong"), cut(text or "–", _ANSWER)), "item"))
        title = f"Case {case}, {counted(len(of), 'answer')}: {what}"
        yield Page(title, tuple(parts), anchor=f"case-{case}", folded=True)


# What did it cost?


def _costs(report: Report) -> Section:
    manifest = report.collection.manifest
    counts = manifest.counts
    requests = sum(one.calls + one.cached for one in manifest.ledger.values())
    dollars = sum(one.cost + one.cached_cost for one in manifest.ledger.values())
    failures = [
        (step, status, number)
        for step, by_status in sorted(counts.failures.items())
        for status, number in sorted(by_status.items())
    ]
    failed = counted(sum(number for *_, number in failures), "failure")
    price = f"${dollars:,.2f}" if dollars else "of which no price is known"
    answer: Words = ("No request is recorded",)
    if requests:
        answer = (f"{counted(requests, 'request')}, {price}; {failed}",)
    parts: list[Part] = [*costs(manifest)]
    if failures:
        parts.append(Table(("step", "status", "failures"), failures, keys=2))
    if (known := counts.contamination).scored:
        nuggets = f"{part(known.known, known.nuggets)} of the nuggets"
        answer = (*answer, "; ", _link(f"the model knows {nuggets} by itself", "contamination"))
        parts.append(replace(contamination(manifest), anchor="contamination"))
    return Section("costs", "What did it cost?", answer, parts)


# Every query


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
    found = report.analyses.get(report.best or "")
    listed = found is not None and any(one.query_id == query_id for one in found.worst)
    return Span(query_id, "code", f"#{query_id}" if listed else "")
