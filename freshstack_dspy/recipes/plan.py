"""Plan a build: the build itself, run by a model that sends nothing, counts and answers typically.

Recorded replies are served. Where one is missing, the embedded baseline answers, so that the steps
that follow have something to work on. Of many questions a sample is run and scaled up.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

from pydantic import Field

from freshstack_dspy.config import BuildConfig, ModelConfig, as_config
from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.index.models import EmbeddingEstimate, estimate_embedding
from freshstack_dspy.lm.budget import Account, Spent
from freshstack_dspy.lm.bundle import Bundles, Several
from freshstack_dspy.lm.client import connect, in_bulk
from freshstack_dspy.lm.engine import BaselineProvider, check_model, provider_for
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.request import canonical_json
from freshstack_dspy.lm.store import Recorded, ReplyStore, holds_store
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.usage import current_step
from freshstack_dspy.recipes.build import check_place
from freshstack_dspy.recipes.corpus import cut_corpora, index_corpora, with_repositories
from freshstack_dspy.recipes.freshstack import FreshStack, judged_collection
from freshstack_dspy.recipes.judge import counted
from freshstack_dspy.recipes.pooling import Searches
from freshstack_dspy.recipes.questions import make_questions, of_this_corpus, read_questions
from freshstack_dspy.recipes.session import Progress, Replies, Session, Silence
from freshstack_dspy.records import Record, Step

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

Item = TypeVar("Item")

SAMPLE = 50
"""Most questions that are run."""
CLOSED_BOOK_TOKENS = 300
"""Of a closed-book answer. The baseline's replies to the other steps are about as long as those of
models (73 tokens for a nugget with its quote, 49 for the verdict on a chunk); this one is not."""


class PlannedStep(Record):
    """What one step of a build asks for."""

    step: str
    requests: int = Field(ge=0)
    """All, recorded or not; re-asks left out."""
    recorded: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    """Of the requests that are not recorded, as are all the following; by OpenAI's cl100k_base."""
    output_tokens: int = Field(ge=0)
    """Of typical replies; reasoning is not in it."""
    cost: float | None
    """US dollars; None where the model's price is not known."""
    batch_cost: float | None
    """Through the provider's batch API; None where it has no known price."""
    upper_bound: float | None
    """US dollars if every reply is as long as `[model] max_tokens` allows."""


class PlannedCap(Record):
    """What a plan means to one cap of [budget]."""

    cap: str
    limit: float
    spent: float
    """By all builds of this name so far."""
    expected: float | None
    """What the plan adds; None where it is not known."""


class Plan(Record):
    """What a live build would send now, by step."""

    name: str
    model: str
    queries: int
    sampled: int
    """How many of them were run; where they are fewer, everything is scaled up from these."""
    steps: tuple[PlannedStep, ...]
    total: PlannedStep
    embeddings: tuple[EmbeddingEstimate, ...] = ()
    """What each `[[embedder]]` is asked for."""
    budget: tuple[PlannedCap, ...] = ()
    """The caps that are set."""
    missing_key: str | None = None
    """Says which key a live build lacks now."""


def plan(config: BuildConfig | Path | str, *, progress: Progress | None = None) -> Plan:
    """Plan what a live build of a configuration would send; nothing is sent and nothing recorded.

    The corpus is cut and indexed as for the build, which then finds the index made.

    Raises:
        FreshstackError: Whatever would stop a build before its first request; see `errors.py`.
    """
    config = as_config(config)
    progress = progress or Silence()
    check_place(config)
    config = with_repositories(config, "live", progress)
    with _dry_session(config, progress) as (session, provider):
        recipe = FreshStack(session.config)
        synthetic = config.queries.is_synthetic
        reading = None if synthetic else read_questions(config, progress)
        corpus = cut_corpora(config, progress)
        searches = Searches(
            session, corpus, lambda: index_corpora(session.config, corpus, progress=progress)
        )
        if reading is None:
            number = config.queries.count or 0
            queries = make_questions(session, recipe, searches, exactly=False).queries
        else:
            number = len(reading.queries)
            queries = of_this_corpus(spread(reading.queries, SAMPLE), corpus.chunks, progress)
        judged_collection(session, recipe, queries, searches)
        account = session.lm.ledger.steps()
        store, bundles = session.replies
        embeddings = tuple(
            estimate_embedding(
                embedder,
                [indexed_text(chunk) for chunk in corpus.chunks],
                [text for query in queries for text in (query.text, query.answer)],
                recorded=(store, bundles),
            )
            for embedder in config.embedder
        )
        spent = store.spent(config.name) if store is not None else Spent()
    price = price_of(config.model.name, config.prices)
    scale = number / max(1, len(queries))
    steps = tuple(
        provider.planned(name, account[name].cached, scale, price)
        for name in get_args(Step)
        if name in account
    )
    total = _total(steps)
    return Plan(
        name=config.name,
        model=config.model.name,
        queries=number,
        sampled=len(queries),
        steps=steps,
        total=total,
        embeddings=embeddings,
        budget=tuple(_caps(config, total, embeddings, spent)),
        missing_key=provider.missing_key,
    )


class DryRun:
    """Answers by the embedded baseline, and counts what would be sent, by step."""

    def __init__(self, model: ModelConfig, missing_key: str | None = None) -> None:
        self._model = model
        self.missing_key = missing_key
        self._baseline = BaselineProvider()
        self._tokens: dict[str, list[tuple[int, int]]] = {}

    def complete(self, request: "Request") -> "Response":
        """Answer, and count the tokens of the request and of its reply."""
        response = self._baseline.complete(request)
        schema = (request.config.response_format or {}).get("schema")
        sent = sum(counted(message.text or "") for message in request.messages)
        sent += counted(request.system or "") if isinstance(request.system, str) else 0
        sent += counted(canonical_json(schema)) if schema else 0
        step = current_step()
        replied = count_tokens(response.text or "")
        if step == "closed_book_answer":
            replied = CLOSED_BOOK_TOKENS
        tokens = (sent, min(replied, self._model.max_tokens))
        self._tokens.setdefault(step, []).append(tokens)
        return response

    def planned(self, step: str, recorded: int, scale: float, price: Price | None) -> PlannedStep:
        """The plan of a step, scaled up from the questions that were run."""
        tokens = self._tokens.get(step, [])

        def dollars(cost: Callable[[Price, int, int], float | None]) -> float | None:
            total = _sum(cost(price, *each) if price else None for each in tokens)
            return None if total is None else total * scale

        return PlannedStep(
            step=step,
            requests=round((len(tokens) + recorded) * scale),
            recorded=round(recorded * scale),
            input_tokens=round(sum(sent for sent, _ in tokens) * scale),
            output_tokens=round(sum(replied for _, replied in tokens) * scale),
            cost=dollars(lambda price, sent, replied: price.cost(sent, replied)),
            batch_cost=dollars(_batch_cost),
            upper_bound=dollars(lambda price, sent, _: price.cost(sent, self._model.max_tokens)),
        )


@contextmanager
def _dry_session(config: BuildConfig, progress: Progress) -> Iterator[tuple[Session, DryRun]]:
    """A session that reads what is recorded, and records the dry run's replies in passing."""
    if config.queries.is_synthetic:
        count = min(config.queries.count or 0, SAMPLE)
        queries = config.queries.model_copy(update={"count": count})
        config = config.model_copy(update={"queries": queries})
    if config.embedder or config.reranker:
        # What hosted models would find is not known; the retrievers without one stand in for them.
        own = [name for name in config.pool.retrievers if name in ("bm25", "lsa")] or ["bm25"]
        pool = config.pool.model_copy(update={"retrievers": tuple(own)})
        index = config.index.model_copy(update={"path": config.index.path / "plans"})
        update = {"pool": pool, "embedder": (), "reranker": None, "index": index}
        config = config.model_copy(update=update)
    with ExitStack() as stack:
        store = None
        if holds_store(config.cache.path):
            store = ReplyStore(config.cache.path, read_only=True)
            stack.callback(store.close)
        bundles = stack.enter_context(closing(Bundles(config.cache.bundles)))
        recorded = Several([bundles] if store is None else [store, bundles])
        missing_key = _check_model(config.model, recorded)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        passing = stack.enter_context(closing(ReplyStore(Path(folder) / "replies")))
        provider = DryRun(config.model, missing_key)
        account = Account(config.name)
        lm = connect(
            config.model,
            mode="live",
            store=passing,
            recorded=recorded,
            provider=provider,
            account=account,
        )
        stack.callback(lm.client.close)
        stack.enter_context(in_bulk(lm))
        yield Session(config, "replay", lm, Replies(store, bundles), progress=progress), provider


def _check_model(model: ModelConfig, recorded: Recorded) -> str | None:
    """Check the model's name, unless replies by it are recorded; says if its key is missing."""
    try:
        check_model(model)
    except FatalModelError as error:
        try:
            provider_for(model)
        except FatalModelError:
            if next(recorded.lines(model.name.encode()), None) is None:
                raise
            return None
        return str(error)
    return None


def spread(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Take every n-th item, so that there are at most so many."""
    every = -(-len(items) // most) or 1
    return items[(every - 1) // 2 :: every]


def _batch_cost(price: Price, sent: int, replied: int) -> float | None:
    if price.batch_input is None or price.batch_output is None:
        return None
    return price.cost(sent, replied, batch=True)


def _total(steps: Sequence[PlannedStep]) -> PlannedStep:
    sums = {
        name: _sum(getattr(step, name) for step in steps)
        for name in PlannedStep.model_fields
        if name != "step"
    }
    return PlannedStep.model_validate({"step": "total", **sums})


def _caps(
    config: BuildConfig, total: PlannedStep, embeddings: Sequence[EmbeddingEstimate], spent: Spent
) -> Iterator[PlannedCap]:
    """Compare a plan with every cap that is set."""
    expected = {
        "dollars": _sum([total.cost, *(each.dollars for each in embeddings)]),
        "tokens": total.input_tokens
        + total.output_tokens
        + sum(each.tokens for each in embeddings),
        "calls": total.requests - total.recorded + sum(each.requests for each in embeddings),
    }
    for cap, amount in expected.items():
        limit = getattr(config.budget, cap)
        if limit is not None:
            yield PlannedCap(cap=cap, limit=limit, spent=getattr(spent, cap), expected=amount)


def _sum(amounts: Iterable[float | None]) -> float | None:
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)
