"""Answers from runs (LLM-retEval): their metrics, and the folder that they are written to."""

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack, cast

from pydantic import Field, ValidationError

from freshstack_dspy.answering.cases import FoundAndAgrees, failure_cases, found_and_agrees
from freshstack_dspy.answering.comparing import COMPARERS, YES_OR_NO, answer_comparer
from freshstack_dspy.answering.contexts import coverage_of
from freshstack_dspy.answering.judging import contradiction_finder
from freshstack_dspy.answering.own_answers import NO_ANSWERS, OwnAnswers, own_answers
from freshstack_dspy.answering.reteval import (
    GOLD,
    SAMPLED_TEMPERATURE,
    Answering,
    answer_from_runs,
    at_depths,
    gold_chunks,
    place_of,
)
from freshstack_dspy.answering.scores import (
    NOT_RETRIEVED,
    Combination,
    Scores,
    score_agreement,
    score_assignments,
    score_checks,
    score_citations,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig, Role, load_judging
from freshstack_dspy.errors import CollectionError, ConfigError, argument
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import decode_records, encode_records, only_writer, replace_folder
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.measures.compare import Comparison, compare_evaluations
from freshstack_dspy.measures.evaluation import Evaluation, Values, evaluate
from freshstack_dspy.measures.formulas import f1, precision
from freshstack_dspy.measures.measure import MeasureSource
from freshstack_dspy.measures.passage_labels import judge_passages
from freshstack_dspy.measures.qrels import About, Judged, NuggetQrels
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.measures.searches import read_chunk_run
from freshstack_dspy.measures.statistics import Interval, mean_interval
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.programs.answers import AnswerGenerator
from freshstack_dspy.progress import showing
from freshstack_dspy.recipes.opening import SessionOptions, configured, open_session
from freshstack_dspy.recipes.provenance import prompts_of
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Agreement,
    Answer,
    AnsweringFailure,
    AnswerKind,
    AssignedAnswer,
    CheckedAnswer,
    Contradiction,
    FailureCase,
    JudgedAnswer,
    Record,
    Scale,
)
from freshstack_dspy.stored.manifest import is_baseline

RECALL = "Recall"
FAMILIES = ("alpha_nDCG", "Coverage", "P", RECALL, "F1")
"""The ranking measures that answers are compared with, at the same cut-offs as the contexts."""


_ACCOUNT = "answering.json"
_FILES: dict[str, type[Record]] = {
    "answers": Answer,
    "gold_answers": Answer,
    "agreement": Agreement,
    "assignments": AssignedAnswer,
    "gold_assignments": AssignedAnswer,
    "citations": JudgedAnswer,
    "gold_citations": JudgedAnswer,
    "failures": AnsweringFailure,
    "accepted": Agreement,
    "checks": CheckedAnswer,
}
"""The files of a folder of answers, in the order of `Answering`; `cases.jsonl` is one more."""
_OF_SYSTEMS = ("accepted", "checks")
"""Those that a folder without answers of systems lacks."""
SHOWN_COMPARERS = {name: COMPARERS[name] for name in ("yes_no", "exact_match", "token_f1")}
"""The comparers by default: the first decides, the others need no model."""
_JUDGING = ("assignment", "citation", "contradiction", "comparison", "correctness")
COMPARED = ("A_strict", "V_strict", "agreement", "accepted", "weighted_recall_best", "contradicted")
"""The measures by which runs and systems are compared with tests."""


@dataclass(frozen=True, repr=False)
class AnswerMetrics(Shown):
    """All metrics of answers from runs, on the same queries; run `gold` is the gold answers."""

    answering: Answering
    account: "AnsweringAccount"

    agreement: Scores | None
    """Agreement with answers from gold chunks; None where none were asked for."""
    nuggets: Scores
    """The scores of the nuggets that the answers support."""
    citations: Scores | None
    """How far citations support the sentences of the answers; None if there is no sentence."""
    accepted: Scores | None
    """Agreement with the answers that people accepted; None without systems."""
    checks: Scores | None
    """How many nuggets answers contradict, and what they are; None without systems."""
    coverage: dict[str, Interval]
    """By run, the mean Cov(y) of its answers (CRUX, arXiv 2506.20051, eq. 3)."""
    rankings: dict[str, Evaluation]
    """By run; of a system without a run of its name, what it was shown or cites."""
    gold_context: Evaluation | None
    """That of the gold chunks, the bound; None without systems."""
    relations: dict[str, FoundAndAgrees]
    """By run: recall compared with agreement, where there are answers from gold chunks."""
    cases: tuple[FailureCase, ...]
    """By case, run and query."""
    dry_run: bool
    """Whether a word counter judged, so that nothing is concluded."""

    def compare(self, baseline: str | None = None) -> Comparison:
        """Compare the runs and systems with tests, by those of `COMPARED` that all of them have.

        Args:
            baseline: The run that all others are compared with; by default every pair is compared.

        Raises:
            ConfigError: There are fewer than two runs, or no run has this name.
        """
        columns: dict[str, dict[str, dict[str, float]]] = {run: {} for run in self.account.runs}
        about = About()
        for name in ("nuggets", "agreement", "accepted", "citations", "checks"):
            scores: Scores | None = getattr(self, name)
            for run in scores.runs if scores is not None else ():
                about = run.about
                for measure in run.measures if run.run in columns else ():
                    named = "accepted" if name == "accepted" else measure
                    if named in COMPARED and (values := run.values(measure)):
                        columns[run.run].setdefault(named, values)
        shared = [each for each in COMPARED if all(each in of for of in columns.values())]
        evaluations = {
            run: Values.of(
                run, {name: of[name] for name in shared}, dry_run=self.dry_run, about=about
            )
            for run, of in columns.items()
        }
        return compare_evaluations(evaluations, baseline=baseline)

    @property
    def number(self) -> int:
        """How many answers there are; one for which nothing was retrieved, or given, is none."""
        return sum(answer.status != NOT_RETRIEVED for answer in self.answering.answers)

    def by_answer(self) -> list["AnswerFindings"]:
        """Say of each answer of a system what is right and wrong with it, the worst first."""
        answering = self.answering
        judged = {(each.run_id, each.qid): each.nuggets for each in answering.assignments}
        unsupported = {
            (cited.run_id, cited.topic_id): tuple(
                sentence.text
                for sentence in cited.sentences
                if not any(
                    citation.support and not cited.is_outside(citation)
                    for citation in sentence.citations
                )
            )
            for cited in answering.citations
        }
        agrees = {
            (each.run_id, each.query_id): each.agrees
            for each in (*answering.agreements, *answering.accepted)
        }
        answers = {(each.run_id, each.topic_id): each for each in answering.answers}
        findings = []
        for check in answering.checks:
            key = check.run_id, check.query_id
            if check.kind == NOT_RETRIEVED:
                continue
            texts: dict[str | None, list[str]] = {}
            for nugget in judged[key]:
                texts.setdefault(nugget.assignment, []).append(nugget.text)
            findings.append(
                AnswerFindings(
                    *key,
                    answers[key].topic,
                    check.kind,
                    agrees.get(key),
                    len(judged[key]),
                    tuple(texts.get("not_support", ())),
                    tuple(texts.get("partial_support", ())),
                    check.contradictions or (),
                    len(answers[key].answer),
                    unsupported.get(key, ()),
                )
            )
        return sorted(findings, key=AnswerFindings.rank)

    def __repr__(self) -> str:
        answers = counted(self.number, "answer")
        return f"AnswerMetrics({answers} from {', '.join(self.account.runs)})"


class AnswerFindings(NamedTuple):
    """What is right and wrong with an answer of a system."""

    run: str
    query_id: str
    question: str
    kind: AnswerKind
    agrees: bool | None
    """With the answer that people accepted; without one, with an answer from the gold chunks."""
    nuggets: int
    missing: tuple[str, ...]
    """The texts of the nuggets that it does not support."""
    partly: tuple[str, ...]
    """The texts of the nuggets that it supports partly."""
    contradictions: tuple[Contradiction, ...]
    sentences: int
    unsupported: tuple[str, ...]
    """The sentences that nothing which they cite supports."""

    def rank(self) -> tuple[Any, ...]:
        """Order answers, the worst first."""
        wrong = self.agrees is False or bool(self.contradictions)
        missed = len(self.missing) + len(self.partly) / 2
        return not wrong, -missed / (self.nuggets or 1), -len(self.unsupported), self.run


class AnsweringAccount(Record):
    """How answers were made; it names no secret and no machine."""

    schema_version: Literal[4] = 4
    collection: str
    content_hash: str
    runs: tuple[str, ...]
    systems: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """Those of the runs whose answers were not generated but given."""
    left_out: int = Field(default=0, exclude_if=operator.not_)
    """How many of these are to queries without a supported nugget."""
    k: tuple[int, ...]
    """How many chunks of each ranking were shown at most; for gold chunks, the largest of these."""
    gold_answers: int
    model: str
    """The model that wrote the answers from runs."""
    gold_model: str | None = None
    """The model that wrote those from gold chunks; None: the same."""
    models: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By step, the models that answered."""
    temperature: float | None
    """None means the model's default, also for `max_tokens`."""
    gold_temperature: float | None
    max_tokens: int | None
    comparers: dict[str, float]
    """The scores from which on answers agree, by comparer."""
    combine: Combination = "first"
    """Which of them an answer has to agree by."""
    chunks_per_call: int | None = None
    """How many chunks of a context were shown in a call; None: all."""
    gold_per_call: int | None = None
    """How many gold answers a model compared an answer with in a call; None: all."""
    scale: Scale
    """The scale of the judge of nuggets."""
    prompts: dict[str, str]
    """SHA-256 of the prompt, by signature."""
    queries: int


class AnswerOptions(SessionOptions, total=False):
    """How answers are written, compared and judged; see `answer_from_runs`."""

    k: Sequence[int]
    gold_answers: int
    comparers: Mapping[str, float]
    combine: Combination
    chunks_per_call: int | None
    gold_per_call: int | None


def answer(
    collection: Collection | Path | str,
    runs: Iterable[Run | Path | str] = (),
    *,
    config: BuildConfig | Path | str,
    answers: Any = None,
    out: Path | str | None = None,
    replace: bool = False,
    **options: Unpack[AnswerOptions],
) -> AnswerMetrics:
    """Judge the answers of your systems, and those that a model writes from runs.

    Args:
        collection: The collection, or its folder.
        runs: Runs of chunks, or their files; the `[generator]` answers from each.
        config: A configuration, or its TOML file; its `[judge]` judges and compares.
        answers: Those of your systems: a file, rows (dictionaries or a data frame), or a function
            from a question to a text or to a dictionary with `text` and perhaps `citations` and
            `contexts`. Several by the names of the systems, as `{"mine": rows, "theirs": ask}`.
        out: A folder to write.
        replace: Whether a folder that exists is replaced.
        options: Those of `AnswerOptions`, and of every session: mode, progress, provider and the
            like, see `SessionOptions`. Without runs, `gold_answers` is 0 by default.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        ConfigError: There are neither runs nor answers, `out` exists, or there is no such comparer.
        DeferredError: In mode `defer`, requests were written to a file.
        FreshstackError: As `own_answers` and `answer_from_runs`.
    """
    given: dict[str, Any] = {**options}
    rules: dict[str, Any] = {"k": (10,), "comparers": SHOWN_COMPARERS}
    own = AnswerOptions.__annotations__.keys() - SessionOptions.__annotations__.keys()
    rules |= {name: given.pop(name) for name in own & given.keys()}
    out = None if out is None else Path(out)
    if out is not None and out.exists() and not replace:
        raise ConfigError(f"{out} exists; name another folder, or add {argument('replace', True)}")
    loaded = Collection.load(collection)
    read = [run if isinstance(run, Run) else read_chunk_run(run) for run in runs]
    if not read and answers is None:
        raise ConfigError("there are neither runs nor answers; give one of them")
    rules.setdefault("gold_answers", int(bool(read)))
    with (
        span("answer"),
        only_writer(out, "freshstack answer") if out is not None else nullcontext(),
        showing(given.get("progress")) as progress,
    ):
        given["progress"] = progress
        if answers is not None:
            rules["own"] = own_answers(loaded, answers, progress)
        settings = configured(config, cast("SessionOptions", given), load_judging)
        roles: tuple[Role, ...] = (
            *(("gold_generator",) if rules["gold_answers"] else ()),
            "judge",
            *(("generator",) if read else ()),
        )
        with open_session(settings, searching=False, roles=roles, **given) as session:
            answering = answer_from_runs(session, loaded, read, **rules)
            account = answering_account(session, loaded, answering, **rules)
        metrics = answer_metrics(answering, account, loaded, read)
        if out is not None:
            write_answers(out, answering, account, metrics.cases)
    return metrics


def answer_metrics(
    answering: Answering, account: AnsweringAccount, collection: Collection, runs: Iterable[Run]
) -> AnswerMetrics:
    """Compute all metrics of the answers from runs over a collection."""
    qrels = collection.qrels()
    assigned = (*answering.assignments, *answering.gold_assignments)
    cited = (*answering.citations, *answering.gold_citations)
    coverages: dict[str, dict[str, float]] = {}
    for answer in assigned:
        values = coverages.setdefault(answer.run_id, {})
        coverage = coverage_of(answer, qrels.judged(answer.qid), account.scale)
        if coverage is not None:
            values[answer.qid] = coverage
    rankings, recalls = {}, {}
    for run, k in at_depths([*runs], account.k):
        measures = [f"{family}@{k}" for family in FAMILIES]
        rankings[run.name] = evaluate(qrels, run, measures)
        recalls[run.name] = rankings[run.name].values(f"{RECALL}@{k}", only_defined=True)
    labels: dict[str, NuggetQrels] = {}
    for system in account.systems:
        answers = [answer for answer in answering.answers if answer.run_id == system]
        shown = {answer.topic_id: answer for answer in answers if answer.references}
        if not shown:
            continue
        labels[system], ranking = ranking_of(system, shown, collection, qrels)
        if system not in rankings:  # else there is a run of its name
            rankings[system] = evaluate(labels[system], ranking, OF_SETS)
            recalls[system] = rankings[system].values(RECALL, only_defined=True)
    gold_context = None
    if account.systems:
        gold = {
            query: {id_: -float(rank) for rank, id_ in enumerate(ids)}
            for query in qrels.nuggets
            for ids in [gold_chunks(qrels.judged(query), max(account.k))]
        }
        gold_context = evaluate(qrels, Run.from_scores(gold, name=GOLD), OF_SETS)
    cases = failure_cases(answering, collection, account.scale, recalls, labels)
    rules = account.comparers, account.combine
    return AnswerMetrics(
        answering=answering,
        account=account,
        agreement=score_agreement(answering.agreements, *rules) if answering.agreements else None,
        accepted=score_agreement(answering.accepted, *rules) if answering.accepted else None,
        checks=score_checks(answering.checks) if answering.checks else None,
        nuggets=score_assignments(assigned),
        citations=score_citations(cited) if cited else None,
        coverage={run_id: mean_interval(values) for run_id, values in coverages.items()},
        rankings=rankings,
        gold_context=gold_context,
        relations={
            name: found_and_agrees(
                recall,
                {
                    agreement.query_id: agreement.agrees
                    for agreement in answering.agreements
                    if agreement.run_id == name
                },
                measure=rankings[name].measures[FAMILIES.index(RECALL)],
                cases={case.query_id: case.case for case in cases if case.run_id == name},
            )
            for name, recall in (recalls if answering.agreements else {}).items()
        },
        cases=tuple(cases),
        dry_run=qrels.dry_run
        or any(is_baseline(name) for step in _JUDGING for name in account.models.get(step, ())),
    )


def set_precision(ranking: Sequence[str], judged: Judged) -> float:
    """Compute the share of what was retrieved that is relevant, however many that are."""
    return precision(ranking, judged, None)


def set_f1(ranking: Sequence[str], judged: Judged) -> float:
    """Compute the harmonic mean of `set_precision` and recall."""
    return f1(ranking, judged, None)


OF_SETS: tuple[MeasureSource, ...] = ("alpha_nDCG", "Coverage", set_precision, RECALL, set_f1)
"""In the place of `FAMILIES`, for all that a system was shown or cites, which has no cut-off."""


def ranking_of(
    system: str, answers: Mapping[str, Answer], collection: Collection, qrels: NuggetQrels
) -> tuple[NuggetQrels, Run]:
    """Give what a system was shown or cites as a run, and the judgments of its passages.

    Args:
        system: The name of the system.
        answers: Its answers with references, by query id.
        collection: The collection.
        qrels: Its judgments.
    """
    qrels = qrels.without(qrels.nuggets.keys() - answers.keys())
    ranks = {
        query: {id_: -float(rank) for rank, id_ in enumerate(answer.references)}
        for query, answer in answers.items()
    }
    if not any(answer.passages for answer in answers.values()):
        run, labels = Run.from_scores(ranks, name=system), qrels
    else:
        labels, run = _of_passages(system, answers, ranks, collection, qrels)
    # What is outside of the corpus is known to be.
    return replace(labels, chunk_ids=frozenset(chain(*run.ids.values()))), run


def _of_passages(
    system: str,
    answers: Mapping[str, Answer],
    ranks: Mapping[str, Mapping[str, float]],
    collection: Collection,
    qrels: NuggetQrels,
) -> tuple[NuggetQrels, Run]:
    files = collection.files
    placed, unplaced = {}, {}
    for query, answer in answers.items():
        places = {passage.passage_id: place_of(passage) for passage in answer.passages}
        placed[query] = {
            places.get(id_) or files.place(id_): score
            for id_, score in ranks[query].items()
            if id_ not in answer.outside
        }
        unplaced[query] = [ranks[query][id_] for id_ in answer.outside]
    return judge_passages(PassageRun(system, placed, unplaced), qrels, covered=1.0)


def answering_account(
    session: Session,
    collection: Collection,
    answering: Answering,
    *,
    k: Sequence[int],
    gold_answers: int,
    comparers: Mapping[str, float] = YES_OR_NO,
    own: OwnAnswers = NO_ANSWERS,
    **parts: Any,
) -> AnsweringAccount:
    """Record how answers were made; `parts` are the other options of `answer_from_runs`."""
    config = session.config
    model, of_gold = config.model_of("generator"), config.model_of("gold_generator")
    measured = set(collection.query_ids())
    programs = {
        "generator": AnswerGenerator(),
        **{
            comparer: answer_comparer(session, comparer)
            for comparer in ("yes_no", "graded")
            if comparer in comparers
        },
        "support_judge": session.recipe.support_judge,
        **({"contradiction_finder": contradiction_finder(session)} if own.answers else {}),
    }
    predictors = [
        (f"{name}.{place}", predictor)
        for name, program in programs.items()
        for place, predictor in program.named_predictors()
    ]
    return AnsweringAccount(
        collection=collection.manifest.name,
        content_hash=collection.manifest.content_hash,
        runs=tuple(sorted({answer.run_id for answer in answering.answers})),
        systems=own.systems,
        left_out=sum(each.topic_id not in measured for each in own.answers),
        k=tuple(sorted(set(k))),
        gold_answers=gold_answers,
        model=model.name,
        gold_model=of_gold.name if of_gold.name != model.name else None,
        models=session.lm.ledger.models(),
        temperature=model.temperature,
        gold_temperature=SAMPLED_TEMPERATURE if gold_answers > 1 else of_gold.temperature,
        max_tokens=model.max_tokens,
        comparers=dict(comparers),
        **parts,
        scale=config.judge.graded,
        prompts=dict(sorted(prompts_of(predictors).items())),
        queries=len({answer.topic_id for answer in answering.answers}),
    )


def write_answers(
    folder: Path, answering: Answering, account: AnsweringAccount, cases: Sequence[FailureCase] = ()
) -> None:
    """Write a folder of answers; the same answers give the same bytes.

    Raises:
        CollectionError: The folder cannot be written.
    """
    records: dict[str, Sequence[Any]] = {
        **{
            f"{name}.jsonl": rows
            for name, rows in zip(_FILES, answering, strict=True)
            if name not in _OF_SYSTEMS or account.systems
        },
        "cases.jsonl": cases,
    }
    with replace_folder(folder.absolute()) as partial:
        for name, rows in records.items():
            (partial / name).write_bytes(encode_records(rows))
        text = json.dumps(account.model_dump(mode="json"), ensure_ascii=False, indent=2)
        (partial / _ACCOUNT).write_text(f"{text}\n", encoding="utf-8")


def read_answers(folder: Path) -> tuple[Answering, AnsweringAccount]:
    """Read a folder of answers and how they were made.

    Raises:
        CollectionError: It has no such files, or a line of one is not its record.
    """
    path = folder / _ACCOUNT
    try:
        account = AnsweringAccount.model_validate_json(path.read_bytes())
        records: list[Any] = []
        for name, record in _FILES.items():
            if name in _OF_SYSTEMS and not account.systems:
                continue
            path = folder / f"{name}.jsonl"
            records.append(decode_records(path.read_bytes(), record, path))
    except OSError as error:
        raise CollectionError(
            f"{path}: cannot be read: {error.strerror}; freshstack answer writes such a folder"
        ) from None
    except ValidationError as error:
        raise CollectionError(f"{path}: {first_fault(error)}; answer again") from None
    return Answering(*records), account
