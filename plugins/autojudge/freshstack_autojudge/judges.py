"""Our nuggetizer and judge as an AutoJudge, which the runner of TREC Auto-Judge loads.

    nugget_class: "freshstack_autojudge.judges:Nuggets"   nuggets of responses or documents
    qrels_class: "freshstack_autojudge.judges:Qrels"      documents, by the nuggets that they support
    judge_class: "freshstack_autojudge.judges:Judge"      responses, by the nuggets that they support

Every call goes through a `Session`: it is recorded, budgeted and replayed as those of a build are.
`autojudge_base` is imported by the methods alone. See README.md.
"""

import importlib
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from freshstack_autojudge.banks import BankNugget, bank, by_text, claim, read_bank
from freshstack_dspy.answering.judging import assign, judge_citations
from freshstack_dspy.answering.scores import (
    NUGGET_RECALLS,
    leaderboard_rows,
    score_assignments,
    score_citations,
)
from freshstack_dspy.config import (
    BuildConfig,
    Mode,
    RecipeConfig,
    Section,
    load_judging,
)
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import encode_records, write_file
from freshstack_dspy.formats.imported import DOCUMENT_IDS, DOCUMENT_TEXTS
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.programs.nuggetizer import with_near_duplicates
from freshstack_dspy.recipes.corpus import ChunkedCorpora
from freshstack_dspy.recipes.flow import Work, ask, by_query, run_stages
from freshstack_dspy.recipes.freshstack import FreshStack, nuggets_in
from freshstack_dspy.recipes.judge import ToJudge, judge
from freshstack_dspy.recipes.opening import AskingOptions, open_session
from freshstack_dspy.recipes.pooling import Searches
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.recipes.without_answers import WithoutAnswers, grade, nuggets_of
from freshstack_dspy.records import (
    Answer,
    Candidate,
    Chunk,
    CitedSentence,
    Failure,
    Judgment,
    Nugget,
    Query,
)
from freshstack_dspy.rows import Row, read_rows
from freshstack_dspy.stored.contents import Contents

CITATION_SUPPORTS = ("weighted_precision_first", "weighted_recall_first")
"""As TREC RAG 2024 has them: of the first citation of each sentence."""


class Settings(Section):
    """The settings of a workflow."""

    config: Path | None = None
    """A TOML file whose recipe, [model], [judge], [nuggets], [budget], [cache] and [programs] hold;
    without one the model is the runner's, and all else as by default."""
    recipe: Any = None
    """In place of the file's: its name or table, as in TOML, or an object, as for `build`."""
    programs: dict[str, Any] = Field(default_factory=dict)
    """In place of the recipe's own: each as in TOML, or an object, as for `build`."""
    mode: Mode = "live"
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
    def cited(self) -> frozenset[str]:
        """The documents that it cites."""
        return frozenset(id_ for _, ids in self.sentences for id_ in ids)


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
            FreshstackError: As for `build`.
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
        with asking(llm_config, chosen) as (session, recipe):
            if chosen.source == "documents":
                made, failures = of_documents(session, recipe, queries, documents)
            else:
                made, failures = of_responses(session, recipe, queries, own)
            nuggets = {
                topic: merged(topic, existing.get(topic, ()), made.get(topic, ()), chosen.limit)
                for topic in queries
            }
            documents = documents if chosen.references else {}
            judged = _judged(session, recipe, queries, nuggets, documents, failures)
            threshold = session.config.judge.graded.threshold
        of_nugget = by_nugget(judged)
        theirs, banks = _base().nugget_data, []
        for topic, of in nuggets.items():
            texts = {one.chunk_id: one.text for one in documents.get(topic, ())}
            made_of = {
                key: (one, [d for d, label in one.labels.items() if (label or 0) >= threshold])
                for key, one in by_text([_of_bank(one, of_nugget) for one in of]).items()
            }
            kept = {key: pair for key, pair in made_of.items() if pair[1]} or made_of
            claims = {key: claim(one, found, texts) for key, (one, found) in kept.items()}
            new = theirs.NuggetBank.model_validate(bank(topic, queries[topic].title, claims))
            if nugget_banks is not None and topic in existing:
                old = theirs.NuggetBank.model_validate(nugget_banks.banks[topic].model_dump())
                new = old.add_nuggets(list(new.claim_bank.values()))
            banks.append(new)
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
            FreshstackError: As for `build`.
        """
        chosen, queries = _settings(settings), _queries(rag_topics)
        nuggets = _nuggets(nugget_banks)
        documents = _documents(_responses(rag_responses, queries), corpus)
        if not documents:
            raise ConfigError(
                "no response has the texts of its documents; name a JSON Lines file with them "
                "(id, text) as the corpus"
            )
        with asking(llm_config, chosen) as (session, recipe):
            judged = _judged(session, recipe, queries, nuggets, documents, [])
            threshold = session.config.judge.graded.threshold
        labels: dict[tuple[str, str], list[int | None]] = defaultdict(list)
        for one in judged:
            labels[one.query_id, one.chunk_id].append(one.label)
        theirs = _base()
        return theirs.Qrels(
            rows=[
                theirs.QrelRow(topic_id=topic, doc_id=document, grade=grade)
                for (topic, document), of in sorted(labels.items())
                if (grade := sum((one or 0) >= threshold for one in of)) or None not in of
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
            FreshstackError: As for `build`.
        """
        chosen, queries = _settings(settings), _queries(rag_topics)
        nuggets, responses = _nuggets(nugget_banks), _responses(rag_responses, queries)
        given = [_answer(one) for one in responses if nuggets.get(one.topic_id)]
        documents = _documents(responses, corpus) if chosen.citations else {}
        texts = {topic: {one.chunk_id: one for one in of} for topic, of in documents.items()}
        cites = any(texts.get(one.topic_id, {}).keys() & {*one.references} for one in given)
        with asking(llm_config, chosen) as (session, _):
            answers, failures = assign(session, given, queries, nuggets)
            cited, more = judge_citations(session, given if cites else (), queries, texts)
            session.stop_if_deferred()
        _report([*failures, *more])
        if chosen.filebase:
            write_file(f"{chosen.filebase}.assignments.jsonl", encode_records(answers))
        if chosen.filebase and cited:
            write_file(f"{chosen.filebase}.citations.jsonl", encode_records(cited))
        scores = [score_assignments(answers)]
        scores += [score_citations(cited)] if cited else []
        measures = (*NUGGET_RECALLS, *(CITATION_SUPPORTS if cited else ()))
        values: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for run, topic, found in chain(*map(leaderboard_rows, scores)):
            values[run, topic] |= {name: found[name] for name in measures if name in found}
        theirs = _base()
        entries = tuple(theirs.LeaderboardEntry(*row, of) for row, of in values.items() if of)
        spec = theirs.LeaderboardSpec(tuple(map(theirs.MeasureSpec, measures)))
        return theirs.Leaderboard(measures=spec.names, spec=spec, entries=entries)


def of_responses(
    session: Session, recipe: FreshStack, queries: Mapping[str, Query], responses: list[Response]
) -> tuple[dict[str, list[Sequence[Nugget]]], list[Failure]]:
    """Cut responses into nuggets, as answers; gives those of each response by topic."""
    asked = [
        {"query": queries[one.topic_id].model_copy(update={"answer": one.text})}
        for one in responses
        if one.text.strip()
    ]
    made, failures = ask(session, "nuggets", recipe.nuggetizer, asked, nuggets_in)
    session.stop_if_deferred()
    found: dict[str, list[Sequence[Nugget]]] = defaultdict(list)
    for one in filter(None, made):
        found[one[0].query_id].append(one)
    return found, failures


def of_documents(
    session: Session,
    recipe: FreshStack,
    queries: Mapping[str, Query],
    documents: Mapping[str, Sequence[Chunk]],
) -> tuple[dict[str, list[Sequence[Nugget]]], list[Failure]]:
    """Make nuggets from the relevant documents, as the recipe `nuggets` does."""
    if not isinstance(recipe, WithoutAnswers):
        raise ConfigError(
            f"recipe {type(recipe).__name__} makes no nuggets from documents; name one that does, "
            "as nuggets, or set source: responses"
        )
    chunks = list({one.chunk_id: one for of in documents.values() for one in of}.values())
    pooled = tuple(
        Candidate(query_id=topic, chunk_id=one.chunk_id, origin="imported")
        for topic, of in documents.items()
        for one in of
    )
    topics = tuple(queries.values())
    work = Work(session, recipe, Searches(session, ChunkedCorpora(ChunkFile.holding(chunks))))
    made = run_stages(work, Contents(queries=topics, pool=pooled), ((grade,), (nuggets_of,)))
    return {topic: [of] for topic, of in by_query(made.nuggets).items()}, [*made.failures]


def merged(
    topic: str, existing: Sequence[Nugget], made: Sequence[Sequence[Nugget]], limit: int
) -> list[Nugget]:
    """Merge the nuggets of several responses; as many as `limit` allows next to existing ones."""
    ranked = [one for rank in zip_longest(*made) for one in rank if one and not one.doubtful]
    numbered = [
        one.model_copy(update={"nugget_id": str(number)})
        for number, one in enumerate([*existing, *ranked])
    ]
    flagged = with_near_duplicates(numbered)
    stated = Counter(one.duplicate_of or one.nugget_id for one in flagged)
    new = [one for one in flagged[len(existing) :] if one.duplicate_of is None]
    new.sort(key=lambda one: (one.importance != "vital", -stated[one.nugget_id]))
    return [
        one.model_copy(update={"nugget_id": f"{topic}_r{number}"})
        for number, one in zip(range(len(existing), limit), new, strict=False)
    ]


def runner_config(llm_config: Any, settings: Settings) -> BuildConfig:
    """Make the configuration of what the runner and the workflow say."""
    if settings.config is not None:
        return load_judging(settings.config)
    config = load_judging(None)
    name, base = llm_config.model, getattr(llm_config, "base_url", None)
    if name != BASELINE and not name.startswith("openai/") and (base or "/" not in name):
        name = f"openai/{name}"
    update: dict[str, Any] = {"name": name}
    if name.startswith("openai/"):
        update["api_base"] = base
    update = {"model": config.model.model_copy(update=update)}
    if llm_config.cache_dir:  # other judges keep theirs there too
        path = Path(llm_config.cache_dir).resolve() / "freshstack"
        update["cache"] = config.cache.model_copy(update={"path": path})
    return config.model_copy(update=update)


@contextmanager
def asking(llm_config: Any, settings: Settings) -> Iterator[tuple[Session, FreshStack]]:
    """Open a session, and give the recipe that it runs, with the programs of the settings."""
    config, recipe = runner_config(llm_config, settings), settings.recipe
    if settings.source == "documents":
        nuggets = config.nuggets.model_copy(update={"limit": settings.limit})
        config = config.model_copy(update={"nuggets": nuggets})
        if recipe is None and config.recipe == RecipeConfig():
            recipe = "nuggets"
    if isinstance(recipe, str | Mapping):
        config = config.model_copy(update={"recipe": RecipeConfig.model_validate(recipe)})
        recipe = None
    options: AskingOptions = {"recipe": recipe, "programs": settings.programs}
    with open_session(config, settings.mode, searching=False, **options) as session:
        yield session, session.recipe


def _settings(given: Mapping[str, Any]) -> Settings:
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"settings of the workflow: {first_fault(error)}") from None


def _queries(topics: Iterable[Any]) -> dict[str, Query]:
    return {
        one.request_id: Query(
            query_id=one.request_id,
            title=one.title,
            body="\n\n".join(filter(None, (one.problem_statement, one.background))),
            origin="imported",
        )
        for one in topics
    }


def _responses(reports: Iterable[Any] | None, queries: Mapping[str, Query]) -> list[Response]:
    found: dict[tuple[str, str], Response] = {}
    for report in reports or ():
        key = report.metadata.topic_id, report.metadata.run_id
        if key in found:
            raise ConfigError(f"run {key[1]!r} has two responses to topic {key[0]!r}; remove one")
        sentences = [
            (one.text, list(dict.fromkeys(one.citations or ())))
            for one in report.get_sentences_with_citations()
        ]
        found[key] = Response(*key, sentences=sentences, documents=report.documents or {})
    return [found[key] for key in sorted(found) if key[0] in queries]


def _documents(responses: Iterable[Response], corpus: str | None) -> dict[str, list[Chunk]]:
    """Give the documents of each topic: those that responses bring, and cited ones of the corpus."""
    found: dict[str, dict[str, Chunk]] = defaultdict(dict)
    missing: dict[str, set[str]] = defaultdict(set)
    for response in responses:
        for id_, one in response.documents.items():
            found[response.topic_id].setdefault(id_, _document(id_, one.title or "", one.text))
        for id_ in response.cited - response.documents.keys():
            missing[id_].add(response.topic_id)
    if corpus is not None:
        if not Path(corpus).exists():
            raise ConfigError(f"corpus {corpus!r}: no such file or folder of JSON Lines")
        for row in read_rows(Path(corpus)):
            id_ = row.id(*DOCUMENT_IDS)
            chunk = _document(id_, row.text("title", default=""), row.text(*DOCUMENT_TEXTS))
            for topic in missing.get(id_, ()):
                found[topic].setdefault(id_, chunk)
    return {
        topic: [of[id_] for id_ in sorted(of) if of[id_].text.strip()]
        for topic, of in sorted(found.items())
    }


def _document(id_: str, title: str, text: str) -> Chunk:
    end = len(text.encode())
    place = {"source": "documents", "path": id_, "start_byte": 0, "end_byte": end, "tokens": 0}
    return Chunk(chunk_id=id_, title=title, text=text, **place)


def _answer(response: Response) -> Answer:
    """A response as an answer of ours."""
    references = sorted(response.cited)
    return Answer(
        run_id=response.run_id,
        topic_id=response.topic_id,
        topic="",
        references=tuple(references),
        response_length=len(response.text.split()),
        answer=tuple(
            CitedSentence(text=lines, citations=tuple(references.index(id_) for id_ in ids))
            for text, ids in response.sentences
            if (lines := "\n".join(filter(None, text.splitlines())))
        ),
        status="ok",
        call_id=None,
    )


def _nuggets(banks: Any) -> dict[str, list[Nugget]]:
    """Read the banks of the runner, in any of their formats."""
    if banks is None:
        raise ConfigError("nuggets are needed; set judge_uses_nuggets: true, and a nugget_class")
    found: dict[str, list[Nugget]] = {}
    ids: set[str] = set()
    for model in banks.banks.values():
        read = read_bank(Row("nugget bank", model.model_dump(mode="json", exclude_none=True)))
        for number, one in enumerate(read.nuggets):
            id_ = one.nugget_id or f"{read.query_id}_{number}"
            id_ = f"{read.query_id}_{id_}" if id_ in ids else id_
            ids.add(id_)
            fields = {"text": one.text, "importance": one.importance, "call_id": None}
            nugget = Nugget(nugget_id=id_, query_id=read.query_id, **fields)
            found.setdefault(read.query_id, []).append(nugget)
    return found


def _judged(
    session: Session,
    recipe: FreshStack,
    queries: Mapping[str, Query],
    nuggets: Mapping[str, Sequence[Nugget]],
    documents: Mapping[str, Sequence[Chunk]],
    failures: Iterable[Failure],
) -> tuple[Judgment, ...]:
    """Judge the documents of each topic by its nuggets."""
    pairs = [
        ToJudge(queries[topic], nuggets[topic], chunks)
        for topic, chunks in documents.items()
        if nuggets.get(topic)
    ]
    judged = judge(session, recipe.support_judge, pairs)
    session.stop_if_deferred()
    _report([*failures, *judged.failures])
    return judged.judgments


def by_nugget(judgments: Iterable[Judgment]) -> dict[str, list[Judgment]]:
    """Group judgments by their nugget."""
    found: dict[str, list[Judgment]] = defaultdict(list)
    for one in judgments:
        found[one.nugget_id].append(one)
    return found


def _of_bank(nugget: Nugget, judged: Mapping[str, Sequence[Judgment]]) -> BankNugget:
    own = judged.get(nugget.nugget_id, ())
    return BankNugget(
        nugget.nugget_id,
        nugget.text,
        nugget.importance,
        labels={one.chunk_id: one.label for one in own},
        evidence={one.chunk_id: one.evidence for one in own},
    )


def _report(failures: Sequence[Failure]) -> None:
    if failures:
        first = failures[0]
        sys.stderr.write(
            f"[freshstack] {len(failures)} requests failed and do not count; the first, of topic "
            f"{first.query_id!r}: {first.message}\n"
        )
