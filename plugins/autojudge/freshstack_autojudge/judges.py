"""Our nuggetizer and judge as an AutoJudge, which the runner of TREC Auto-Judge loads.

    nugget_class: "freshstack_autojudge.judges:Nuggets"   nuggets of responses or documents
    qrels_class: "freshstack_autojudge.judges:Qrels"      documents, by the nuggets that they support
    judge_class: "freshstack_autojudge.judges:Judge"      responses, by the nuggets that they support

Topics are run one by one through recipes of freshstack_dspy, with a model whose replies are recorded.
`autojudge_base` is imported by the methods alone. See README.md.
"""

import importlib
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import dspy
from pydantic import BaseModel, ConfigDict, Field, ImportString, ValidationError

import freshstack_dspy as fs
from freshstack_autojudge.banks import BankNugget, bank, by_text, claim, read_bank
from freshstack_dspy import Chunk, Judgment, Nugget, Query
from freshstack_dspy.config import CorpusConfig, QueriesConfig
from freshstack_dspy.errors import ConfigError, FatalModelError
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.recipes.flow import Work
from freshstack_dspy.records import (
    AssignedAnswer,
    AssignedNugget,
    Candidate,
    Failure,
    JudgedAnswer,
    JudgedCitation,
    JudgedSentence,
    Scale,
)
from freshstack_dspy.rows import Row, read_rows
from freshstack_dspy.stored.contents import Contents

NUGGET_RECALLS = ("V_strict", "V", "A_strict", "A", "W_strict", "W")
"""As the TREC 2024 RAG track calls them (arXiv 2411.09607, §3.3)."""
CITATION_SUPPORTS = ("weighted_precision_first", "weighted_recall_first")
"""As TREC RAG 2024 has them, of the first citation of each sentence (arXiv 2504.15205, §3.4)."""
_WEIGHTS: dict[str, dict[str | None, float]] = {
    "V": {"vital": 1.0},
    "W": {"vital": 1.0, "okay": 0.5},
    "A": {"vital": 1.0, "okay": 1.0, None: 1.0},
}
_WORDS: dict[int, Literal["not_support", "partial_support", "support"]] = {
    0: "not_support",
    1: "partial_support",
    2: "support",
}
_WINDOW, _CREATED, _RELEVANT = 10, 30, 2
"""Passages in a call, most nuggets while they are made, and the lowest grade of a passage that they are
made from: as in TREC RAG's AutoNuggetizer."""
_NUGGETIZE, _JUDGE = fs.FreshStack.stages[0][0], fs.FreshStack.stages[-1][0]
_IDS, _TEXTS = ("_id", "id", "docid", "doc_id", "pid"), ("text", "contents", "segment", "body")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Settings(BaseModel):
    """The settings of a workflow."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    config: Path | None = None
    """The configuration of a build, whose [model], [judge], [nuggets], [budget], [cache] and [programs]
    hold; without one the model is the runner's, and all else as by default."""
    programs: dict[str, ImportString[Any]] = Field(default_factory=dict)
    """In place of the recipe's own: objects, or `module:name`."""
    mode: Literal["live", "replay", "rerecord"] = "live"
    limit: int = Field(default=20, ge=1, le=50)
    """Most nuggets of a topic."""
    source: Literal["responses", "documents"] = "responses"
    """What nuggets are made from: the texts of responses, or their documents."""
    runs: tuple[str, ...] = ()
    """From whose responses nuggets are cut; none: all."""
    references: bool = True
    """Whether the documents of a topic are judged for its new nuggets, as `Qrels` does; those that
    none supports are then left out, unless that holds for all."""
    citations: bool = True
    """Whether `Judge` judges how far cited documents support their sentences."""
    filebase: str | None = None
    outdir: Path | None = None


class Response(NamedTuple):
    """The response of a run to a topic."""

    topic_id: str
    run_id: str
    sentences: Sequence[tuple[str, Sequence[str]]]
    """Each with the documents that it cites, the best first."""
    documents: Mapping[str, Any]

    @property
    def text(self) -> str:
        """A sentence a line."""
        return "\n".join(text for text, _ in self.sentences)

    @property
    def cited(self) -> tuple[str, ...]:
        """The documents that it cites."""
        return tuple(sorted({id_ for _, ids in self.sentences for id_ in ids}))


# Recipes


class _Listed(dspy.Module):  # type: ignore[misc]  # DSPy is untyped
    """A nuggetizer that has its nuggets already."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self.texts = list(texts)

    def forward(self, query: Query) -> dspy.Prediction:
        return dspy.Prediction(nuggets=self.texts)


class _Cutting(fs.FreshStack):
    """Cuts the answer of a query into nuggets."""

    stages: ClassVar[Any] = ((_NUGGETIZE,),)


def _given(work: Work, made: Contents) -> Contents:
    """Take nuggets and texts that are there, in place of a pool."""
    (query,) = made.queries
    texts = tuple(work.recipe.texts)
    pool = tuple(
        Candidate(query_id=query.query_id, chunk_id=text.chunk_id, origin="imported")
        for text in texts
    )
    return replace(made, nuggets=tuple(work.recipe.nuggets), passages=texts, pool=pool)


class _Judging(fs.FreshStack):
    """Judges texts by nuggets."""

    stages: ClassVar[Any] = ((_given,), (_JUDGE,))

    def __init__(
        self, config: fs.BuildConfig, nuggets: Sequence[Nugget], texts: Sequence[Chunk]
    ) -> None:
        super().__init__(config)
        self.nuggets, self.texts = nuggets, texts


class Asking:
    """A configuration, a model whose replies are recorded, and what failed."""

    def __init__(self, config: fs.BuildConfig, settings: Settings, lm: dspy.LM) -> None:
        self.config, self.settings, self.lm = config, settings, lm
        self.failures: list[Failure] = []

    @property
    def scale(self) -> Scale:
        """That of the labels."""
        return self.config.judge.graded

    def supports(self, label: int | None) -> bool:
        """Whether a label is support."""
        return (label or 0) >= self.scale.threshold

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Run a function for every item, several at a time, with the model."""

        def run(item: Item) -> Result:
            with dspy.context(lm=self.lm):
                return function(item)

        with ThreadPoolExecutor(self.config.model.concurrency) as pool:
            return list(pool.map(run, items))

    def own(self, recipe: Any) -> Any:
        """Put the programs of the settings into a recipe."""
        for name, program in self.settings.programs.items():
            if not isinstance(getattr(recipe, name, None), dspy.Module):
                raise ConfigError(f"settings of the workflow: programs: no program {name!r}")
            setattr(recipe, name, program() if isinstance(program, type) else program)
        return recipe

    def cut(self, query: Query) -> Sequence[Nugget]:
        """Cut the answer of a query into nuggets; none where that fails."""
        try:
            made = self.own(_Cutting(self.config))(query=query, index=None)
        except FatalModelError as error:
            self._failed(query, "nuggets", error)
            return ()
        self.failures += made.failures
        return tuple(made.nuggets)

    def judge(
        self, query: Query, nuggets: Sequence[Nugget], texts: Sequence[Chunk]
    ) -> Sequence[Judgment]:
        """Judge texts by nuggets; a pair that failed has no label."""
        if not nuggets or not texts:
            return ()
        try:
            recipe = self.own(_Judging(self.config, nuggets, texts))
            made = recipe(query=query, index=None)
        except FatalModelError as error:
            self._failed(query, "support", error)
            return ()
        self.failures += made.failures
        return tuple(made.judgments)

    def read(self, query: Query, documents: Sequence[Chunk]) -> Sequence[Nugget]:
        """Make nuggets from the relevant documents, as TREC RAG's AutoNuggetizer does."""
        limit = self.settings.limit
        grader, updater = fs.RelevanceGrader(), fs.NuggetUpdater(max(_CREATED, limit))
        graded: list[tuple[int, Chunk]] = []
        for window in _windows(documents):
            grades = grader(query=query, passages=window).grades
            pairs = zip(grades, window, strict=True)
            graded += [(grade.grade, one) for grade, one in pairs if grade is not None]
        relevant = [pair for pair in graded if pair[0] >= _RELEVANT]
        relevant.sort(key=lambda pair: (-pair[0], pair[1].chunk_id))
        nuggets: Sequence[Nugget] = ()
        for window in _windows([chunk for _, chunk in relevant]):
            nuggets = updater(query=query, nuggets=nuggets, passages=window).nuggets
        rated: list[Nugget] = []
        for some in _windows(nuggets):
            importances = fs.ImportanceRater()(query=query, nuggets=some).importances
            rated += [
                nugget.model_copy(update={"importance": importance})
                for nugget, importance in zip(some, importances, strict=True)
            ]
        return rated

    def merged(
        self, query: Query, existing: Sequence[Nugget], made: Sequence[Sequence[Nugget]]
    ) -> list[Nugget]:
        """Merge the nuggets of several responses; as many as the limit allows next to existing ones."""
        ranked = [one for rank in zip_longest(*made) for one in rank if one and not one.doubtful]
        every = [*existing, *ranked]
        if not every:
            return []
        recipe = _Cutting(self.config)
        recipe.nuggetizer = _Listed([nugget.text for nugget in every])
        flagged = recipe(query=query, index=None).nuggets
        stated = Counter(nugget.duplicate_of or nugget.nugget_id for nugget in flagged)
        new = [
            (one, stated[flag.nugget_id])
            for one, flag in zip(every[len(existing) :], flagged[len(existing) :], strict=True)
            if flag.duplicate_of is None
        ]
        new.sort(key=lambda pair: (pair[0].importance != "vital", -pair[1]))
        return [
            one.model_copy(
                update={"nugget_id": f"{query.query_id}_r{number}", "duplicate_of": None}
            )
            for number, (one, _) in zip(
                range(len(existing), self.settings.limit), new, strict=False
            )
        ]

    def _failed(self, query: Query, step: Literal["nuggets", "support"], error: Exception) -> None:
        ids = {"query_id": query.query_id, "call_id": None}
        self.failures.append(Failure(step=step, status="failed", message=str(error), **ids))


def _windows(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + _WINDOW] for start in range(0, len(items), _WINDOW))


@contextmanager
def asking(llm_config: Any, settings: Settings) -> Iterator[Asking]:
    """Connect the model of a workflow; at the end say what failed."""
    config = runner_config(llm_config, settings)
    account = Account(config.name, config.budget, config.prices)
    store = fs.ReplyStore(config.cache.path)
    lm = fs.connect(config.model, mode=settings.mode, store=store, account=account)
    session = Asking(config, settings, lm)
    try:
        yield session
    finally:
        store.close()
    if session.failures:
        first = session.failures[0]
        sys.stderr.write(
            f"[freshstack] {len(session.failures)} requests failed and do not count; the first, of "
            f"topic {first.query_id!r}: {first.message}\n"
        )


def runner_config(llm_config: Any, settings: Settings) -> fs.BuildConfig:
    """Make the configuration of what the runner and the workflow say."""
    if settings.config is not None:
        return fs.load_config(settings.config)
    name, base = llm_config.model, getattr(llm_config, "base_url", None)
    if (
        name != "extractive/baseline"
        and not name.startswith("openai/")
        and (base or "/" not in name)
    ):
        name = f"openai/{name}"
    config = fs.BuildConfig(
        name="autojudge",
        out=Path("autojudge"),
        model=fs.ModelConfig(name=name, api_base=base if name.startswith("openai/") else None),
        queries=QueriesConfig(rows=[{"query_id": "0", "title": "none"}]),
        corpus=(CorpusConfig(name="documents", documents=[{"id": "0", "text": "none"}]),),
    )
    if llm_config.cache_dir:  # other judges keep theirs there too
        path = Path(llm_config.cache_dir).resolve() / "freshstack"
        cache = config.cache.model_copy(update={"path": path})
        config = config.model_copy(update={"cache": cache})
    return config


# What the runner calls


def _base() -> Any:
    """Their package, which imports NLTK's stop words, and so is imported where it is used."""
    return importlib.import_module("autojudge_base")


class _AutoJudge:
    """What the three parts share."""

    @property
    def nugget_banks_type(self) -> Any:
        """The class of nugget banks that the runner loads and saves."""
        return _base().NuggetBanks


class Nuggets(_AutoJudge):
    """Makes nuggets of responses, or of their documents."""

    def create_nuggets(
        self,
        rag_responses: Iterable[Any] | None,
        rag_topics: Sequence[Any],
        llm_config: Any,
        nugget_banks: Any = None,
        corpus: str | None = None,
        **settings: Any,
    ) -> Any:
        """Give a bank of each topic: the nuggets that it has, then new ones.

        Of nuggets that state nearly the same the first is taken; the vital ones come first, then
        those that more responses state. References are documents that support them.

        Raises:
            ConfigError: A setting is wrong, or there is no response to cut.
            FreshstackError: The model cannot be asked.
        """
        chosen, queries = _settings(settings), _queries(rag_topics)
        responses = _responses(rag_responses, queries)
        existing = _nuggets(nugget_banks) if nugget_banks is not None else {}
        own = [one for one in responses if not chosen.runs or one.run_id in chosen.runs]
        if not own:
            raise ConfigError(
                "nuggets come from responses, and there are none; set "
                f"nugget_depends_on_responses: true, and runs to some of: "
                f"{', '.join(sorted({one.run_id for one in responses})) or 'none'}"
            )
        documents = _documents(responses, corpus)
        with asking(llm_config, chosen) as session:
            made: dict[str, list[Sequence[Nugget]]] = defaultdict(list)
            if chosen.source == "documents":
                read = session.each(
                    lambda query: session.read(query, documents.get(query.query_id, ())),
                    queries.values(),
                )
                made |= {topic: [nuggets] for topic, nuggets in zip(queries, read, strict=True)}
            else:
                cut = session.each(session.cut, _as_answers(own, queries))
                for response, nuggets in zip(own, cut, strict=True):
                    made[response.topic_id].append(nuggets)
            new = {
                topic: session.merged(query, existing.get(topic, ()), made[topic])
                for topic, query in queries.items()
            }
            judged = _judged(session, queries, new, documents if chosen.references else {})
        labels: dict[str, list[Judgment]] = defaultdict(list)
        for judgment in judged:
            labels[judgment.nugget_id].append(judgment)
        theirs, banks = _base().nugget_data, []
        for topic, nuggets in new.items():
            texts = {document.chunk_id: document.text for document in documents.get(topic, ())}
            keyed = by_text([_of_bank(nugget, labels[nugget.nugget_id]) for nugget in nuggets])
            supporting = {
                key: [d for d, label in one.labels.items() if session.supports(label)]
                for key, one in keyed.items()
            }
            kept = {key: one for key, one in keyed.items() if supporting[key]} or keyed
            claims = {key: claim(one, supporting[key], texts) for key, one in kept.items()}
            of_topic = theirs.NuggetBank.model_validate(bank(topic, queries[topic].title, claims))
            if nugget_banks is not None and topic in existing:
                old = theirs.NuggetBank.model_validate(nugget_banks.banks[topic].model_dump())
                of_topic = old.add_nuggets(list(of_topic.claim_bank.values()))
            banks.append(of_topic)
        return theirs.NuggetBanks.from_banks_list(banks)


class Qrels(_AutoJudge):
    """Grades the documents of responses by how many nuggets of their topic they support."""

    def create_qrels(
        self,
        rag_responses: Iterable[Any],
        rag_topics: Sequence[Any],
        llm_config: Any,
        nugget_banks: Any = None,
        corpus: str | None = None,
        **settings: Any,
    ) -> Any:
        """Give the grade of each document; one is 0 only if no judgment of it failed.

        Raises:
            ConfigError: A setting is wrong, or there are no nuggets or no documents.
            FreshstackError: The model cannot be asked.
        """
        chosen, queries = _settings(settings), _queries(rag_topics)
        nuggets = _nuggets(nugget_banks)
        documents = _documents(_responses(rag_responses, queries), corpus)
        if not documents:
            raise ConfigError(
                "no response has the texts of its documents; name a JSON Lines file with them "
                "(id, text) as the corpus"
            )
        with asking(llm_config, chosen) as session:
            judged = _judged(session, queries, nuggets, documents)
        labels: dict[tuple[str, str], list[int | None]] = defaultdict(list)
        for one in judged:
            labels[one.query_id, one.chunk_id].append(one.label)
        theirs = _base()
        return theirs.Qrels(
            rows=[
                theirs.QrelRow(topic_id=topic, doc_id=document, grade=grade)
                for (topic, document), of_pair in sorted(labels.items())
                if (grade := sum(map(session.supports, of_pair))) or None not in of_pair
            ]
        )


class Judge(Nuggets, Qrels):
    """Scores responses by the nuggets that they support, as TREC RAG does; all three in one."""

    def judge(
        self,
        rag_responses: Iterable[Any],
        rag_topics: Sequence[Any],
        llm_config: Any,
        nugget_banks: Any = None,
        qrels: Any = None,
        corpus: str | None = None,
        **settings: Any,
    ) -> Any:
        """Give the leaderboard of `NUGGET_RECALLS`; assignments are written next to it.

        If responses cite documents whose texts are there, it has `CITATION_SUPPORTS` too.

        A response of which every judgment failed has no row. In the mean of a run, a topic that
        others answer and it does not counts 0, as the runner has it, and a failure does not count.

        Raises:
            ConfigError: A setting is wrong, or there are no nuggets.
            FreshstackError: The model cannot be asked.
        """
        chosen, queries = _settings(settings), _queries(rag_topics)
        nuggets, responses = _nuggets(nugget_banks), _responses(rag_responses, queries)
        responses = [one for one in responses if nuggets.get(one.topic_id)]
        documents = _documents(responses, corpus) if chosen.citations else {}
        texts = {topic: {one.chunk_id: one for one in own} for topic, own in documents.items()}
        with asking(llm_config, chosen) as session:
            assigned = session.each(
                lambda one: _assigned(session, one, queries[one.topic_id], nuggets[one.topic_id]),
                responses,
            )
            cited = session.each(
                lambda one: _cited(
                    session, one, queries[one.topic_id], texts.get(one.topic_id, {})
                ),
                responses,
            )
        measures: tuple[str, ...] = NUGGET_RECALLS
        values = {
            (one.run_id, one.qid): {name: nugget_recall(one, name) for name in NUGGET_RECALLS}
            for one in assigned
        }
        _write(chosen, "assignments", assigned)
        if any(one.topic_id in texts and one.cited for one in responses):
            measures += CITATION_SUPPORTS
            for answer in cited:
                values[answer.run_id, answer.topic_id] |= citation_supports(answer)
            _write(chosen, "citations", cited)
        theirs = _base()
        entries = tuple(
            theirs.LeaderboardEntry(*place, row) for place, row in _leaderboard(values, measures)
        )
        spec = theirs.LeaderboardSpec(tuple(map(theirs.MeasureSpec, measures)))
        return theirs.Leaderboard(measures=spec.names, spec=spec, entries=entries)


def _write(settings: Settings, name: str, records: Sequence[BaseModel]) -> None:
    if settings.filebase:
        lines = "".join(f"{record.model_dump_json()}\n" for record in records)
        Path(f"{settings.filebase}.{name}.jsonl").write_text(lines, encoding="utf-8")


# Scores


def nugget_recall(answer: AssignedAnswer, measure: str) -> float | None:
    """Give the share of the nuggets of a topic that a response supports.

    That is the sum of weight x credit over that of the weights, with the credit 1 for support, and for
    partial support 0 (strict) or 1/2. A nugget whose judgment failed is left out.
    """
    over, _, strict = measure.partition("_")
    weights, earned = _WEIGHTS[over], {"support": 1.0, "partial_support": 0 if strict else 0.5}
    counted = [
        (weights[one.rating], earned.get(one.assignment or "", 0))
        for one in answer.nuggets
        if one.rating in weights and one.label is not None
    ]
    total = sum(weight for weight, _ in counted)
    return sum(weight * credit for weight, credit in counted) / total if total else None


def citation_supports(answer: JudgedAnswer) -> dict[str, float | None]:
    """Give how far first citations support their sentences.

    A sentence without citations only lowers recall; one whose citation has no label leaves both
    denominators.
    """
    first = [sentence.citations[:1] for sentence in answer.sentences]
    labels = [one.support for citations in first for one in citations if one.support >= 0]
    total = sum(labels) / 2
    sentences = len(labels) + sum(not citations for citations in first)
    of = (len(labels), sentences)
    return {
        name: total / number if number else None
        for name, number in zip(CITATION_SUPPORTS, of, strict=True)
    }


def _leaderboard(
    values: Mapping[tuple[str, str], Mapping[str, float | None]], measures: Sequence[str]
) -> Iterator[tuple[tuple[str, str], dict[str, float]]]:
    """Give the values of responses, and below them the mean of each run, its topic `all`."""
    known = {
        place: {name: value for name, value in row.items() if value is not None}
        for place, row in values.items()
    }
    yield from ((place, row) for place, row in known.items() if row)
    answered = {
        name: {topic for (_, topic), row in known.items() if name in row} for name in measures
    }
    for run in dict.fromkeys(run for run, _ in values):
        own = {topic: row for (name, topic), row in known.items() if name == run}
        means = {}
        for name in measures:
            given = [row[name] for row in own.values() if name in row]
            if given:
                means[name] = sum(given) / (len(given) + len(answered[name] - own.keys()))
        if means:
            yield (run, "all"), means


def _word(label: int | None, scale: Scale) -> Literal["failed"] | Any:
    """Nuggetizer's word for a label."""
    if label is None:
        return "failed"
    full = 2 if scale.name == "support" else scale.threshold
    return _WORDS[2 if label >= full else int(label > 0)]


def _text(chunk_id: str, title: str, text: str) -> Chunk:
    """A text as a chunk: what a model wrote has no path, which could say so."""
    end = max(1, len(text.encode()))
    place = {"source": "", "path": "", "start_byte": 0, "end_byte": end, "tokens": 0}
    return Chunk(chunk_id=chunk_id, title=title, text=text, **place)


def _assigned(
    session: Asking, response: Response, query: Query, nuggets: Sequence[Nugget]
) -> AssignedAnswer:
    """Judge which nuggets a response supports, as if it were a document."""
    text = response.text
    shown = [_text(response.run_id, "", text)] if text.strip() else []
    judged = {one.nugget_id: one for one in session.judge(query, nuggets, shown)}
    rows = []
    for nugget in nuggets:
        judgment = judged.get(nugget.nugget_id)
        label = judgment.label if judgment else None if shown else 0
        rows.append(
            AssignedNugget(
                text=nugget.text,
                importance=nugget.importance or "vital",
                rated=nugget.importance is not None,
                assignment=_word(label, session.scale),
                nugget_id=nugget.nugget_id,
                label=label,
                reason=judgment.reason if judgment else "",
                call_id=judgment.call_id if judgment else None,
                evidence=judgment.evidence if judgment else (),
            )
        )
    return AssignedAnswer(
        query=query.text,
        qid=query.query_id,
        answer_text=text,
        response_length=len(text.split()),
        run_id=response.run_id,
        nuggets=tuple(rows),
    )


def _cited(
    session: Asking, response: Response, query: Query, texts: Mapping[str, Chunk]
) -> JudgedAnswer:
    """Judge how far documents support the sentences that cite them, as if these were nuggets."""
    sentences = [
        Nugget(query_id=query.query_id, nugget_id=str(place), text=text, call_id=None)
        for place, (text, _) in enumerate(response.sentences)
    ]
    citing = [one for one, (_, ids) in zip(sentences, response.sentences, strict=True) if ids]
    shown = [texts[id_] for id_ in response.cited if id_ in texts]
    judged = {(one.nugget_id, one.chunk_id): one for one in session.judge(query, citing, shown)}

    def citation(place: int, nugget_id: str, document: str) -> JudgedCitation:
        found = judged.get((nugget_id, document))
        word = _word(found.label if found else None, session.scale)
        return JudgedCitation(
            citationID=place,
            reference=document,
            support=next((label for label, name in _WORDS.items() if name == word), -1),
            reason=found.reason if found else "not judged, for its text is not there",
            call_id=found.call_id if found else None,
            evidence=found.evidence if found else (),
        )

    return JudgedAnswer(
        topic_id=query.query_id,
        run_id=response.run_id,
        references=response.cited,
        sentences=tuple(
            JudgedSentence(
                sentenceID=number,
                text=text,
                citations=tuple(citation(n, str(number), id_) for n, id_ in enumerate(ids)),
            )
            for number, (text, ids) in enumerate(response.sentences)
        ),
    )


# What the runner gives


def _settings(values: Mapping[str, Any]) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise ConfigError(f"settings of the workflow: {where}: {fault['msg']}") from None


def _queries(topics: Iterable[Any]) -> dict[str, Query]:
    return {
        topic.request_id: Query(
            query_id=topic.request_id,
            title=topic.title,
            body="\n\n".join(filter(None, (topic.problem_statement, topic.background))),
            origin="imported",
        )
        for topic in topics
    }


def _responses(reports: Iterable[Any] | None, queries: Mapping[str, Query]) -> list[Response]:
    responses: dict[tuple[str, str], Response] = {}
    for report in reports or ():
        key = report.metadata.topic_id, report.metadata.run_id
        if key in responses:
            raise ConfigError(f"run {key[1]!r} has two responses to topic {key[0]!r}; remove one")
        sentences = [
            (sentence.text, list(dict.fromkeys(sentence.citations or ())))
            for sentence in report.get_sentences_with_citations()
        ]
        documents = report.documents or {}
        responses[key] = Response(*key, sentences=sentences, documents=documents)
    return [responses[key] for key in sorted(responses) if key[0] in queries]


def _as_answers(responses: Iterable[Response], queries: Mapping[str, Query]) -> list[Query]:
    return [
        queries[response.topic_id].model_copy(update={"answer": response.text})
        for response in responses
    ]


def _documents(responses: Iterable[Response], corpus: str | None) -> dict[str, list[Chunk]]:
    """Give the documents of each topic: those that responses bring, and cited ones of the corpus."""
    of_topic: dict[str, dict[str, Chunk]] = defaultdict(dict)
    missing: dict[str, set[str]] = defaultdict(set)
    for response in responses:
        own = of_topic[response.topic_id]
        for id_, document in response.documents.items():
            own.setdefault(id_, _text(id_, document.title or "", document.text))
        for id_ in {*response.cited} - response.documents.keys():
            missing[id_].add(response.topic_id)
    if corpus is not None:
        if not Path(corpus).exists():
            raise ConfigError(f"corpus {corpus!r}: no such file or folder of JSON Lines")
        for row in read_rows(Path(corpus)):
            id_ = row.id(*_IDS)
            for topic in missing.get(id_, ()):
                chunk = _text(id_, row.text("title", default=""), row.text(*_TEXTS))
                of_topic[topic].setdefault(id_, chunk)
    texts = {
        topic: [own[id_] for id_ in sorted(own) if own[id_].text.strip()]
        for topic, own in sorted(of_topic.items())
    }
    return {topic: own for topic, own in texts.items() if own}


def _nuggets(banks: Any) -> dict[str, list[Nugget]]:
    """Read the banks of the runner, in any of their formats."""
    if banks is None:
        raise ConfigError("nuggets are needed; set judge_uses_nuggets: true, and a nugget_class")
    nuggets: dict[str, list[Nugget]] = {}
    ids: set[str] = set()
    for model in banks.banks.values():
        read = read_bank(Row("nugget bank", model.model_dump(mode="json", exclude_none=True)))
        for number, one in enumerate(read.nuggets):
            id_ = one.nugget_id or f"{read.query_id}_{number}"
            id_ = f"{read.query_id}_{id_}" if id_ in ids else id_
            ids.add(id_)
            fields = {"text": one.text, "importance": one.importance, "call_id": None}
            nugget = Nugget(nugget_id=id_, query_id=read.query_id, **fields)
            nuggets.setdefault(read.query_id, []).append(nugget)
    return nuggets


def _judged(
    session: Asking,
    queries: Mapping[str, Query],
    nuggets: Mapping[str, Sequence[Nugget]],
    documents: Mapping[str, Sequence[Chunk]],
) -> list[Judgment]:
    """Judge the documents of each topic by its nuggets."""
    judged = session.each(
        lambda topic: session.judge(queries[topic], nuggets.get(topic, ()), documents[topic]),
        documents,
    )
    return [judgment for own in judged for judgment in own]


def _of_bank(nugget: Nugget, judged: Sequence[Judgment]) -> BankNugget:
    return BankNugget(
        nugget.nugget_id,
        nugget.text,
        nugget.importance,
        labels={one.chunk_id: one.label for one in judged},
        evidence={one.chunk_id: one.evidence for one in judged},
    )
