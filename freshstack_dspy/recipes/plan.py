"""Plan a build: the build itself, run by a model that sends nothing, counts and answers typically.

Recorded replies are served. Where one is missing, the embedded baseline answers, so that the steps
that follow have something to work on. Of many questions a sample is run and scaled up.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from freshstack_dspy.config import BuildConfig, ModelConfig, SyntheticQueries
from freshstack_dspy.errors import FatalModelError, ReplyError, file_named
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.index.models import EmbeddingEstimate, estimate_embedding
from freshstack_dspy.lm.budget import Account, Spent
from freshstack_dspy.lm.capabilities import capabilities_of
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.engine import BaselineProvider, check_model, provider_for
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.request import canonical_json
from freshstack_dspy.lm.store import FirstOf, ReplyStore
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.typed import in_bulk
from freshstack_dspy.lm.usage import current_step
from freshstack_dspy.pages.page import Page, money
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.questions.selection import is_in_image
from freshstack_dspy.recipes.build import DraftCollection, make
from freshstack_dspy.recipes.judge import context_of, counted
from freshstack_dspy.recipes.opening import configured, recipe_maker, with_contexts
from freshstack_dspy.recipes.prepare import prepare
from freshstack_dspy.recipes.session import Session, open_replies
from freshstack_dspy.records import Record, in_order_of_steps

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

    from freshstack_dspy.programs.own import Programs
    from freshstack_dspy.recipes.freshstack import FreshStack

SAMPLE = 50
"""Most questions that are run."""
TYPICAL_TOKENS = 300
"""Of a closed-book answer, and of answers to questions that are not ours. The baseline's replies to the other steps are about as long as those of
models (73 tokens for a nugget with its quote, 49 for the verdict on a chunk); this one is not."""


class PlannedStep(Record):
    """What one step of a build asks for."""

    step: str
    models: tuple[str, ...] = ()
    """Those that are asked."""
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
    """US dollars if every reply is as long as its call allows."""


class PlannedCap(Record):
    """What a plan means to one cap of [budget]."""

    cap: str
    limit: float
    spent: float
    """By all builds of this name so far."""
    expected: float | None
    """What the plan adds; None where it is not known."""


class Plan(Record, Shown):
    """What a live build would send now, by step."""

    name: str
    model: str
    """Who is asked; several by commas, and by step in `steps`."""
    queries: int
    sampled: int
    """How many of them were run; where they are fewer, everything is scaled up from these."""
    left_out: dict[str, int]
    """How many questions are left out, by reason."""
    little_overlap: dict[str, float]
    """By question, the share of its rare terms that the corpus has; of those below .7, lowest first:
    documents that answer them may be missing."""
    in_images: tuple[str, ...] = ()
    """Ids of the questions whose content is in an image."""
    without_nuggets: tuple[str, ...] = ()
    """Ids of the questions that were run and whose answers gave no nugget."""
    steps: tuple[PlannedStep, ...]
    total: PlannedStep
    embeddings: tuple[EmbeddingEstimate, ...] = ()
    """What each `[[embedder]]` is asked for."""
    budget: tuple[PlannedCap, ...] = ()
    """The caps that are set."""
    missing_key: str | None = None
    """Says which key a live build lacks now."""
    context: int | None = None
    """Tokens that fit into a request with its reply, for which requests are packed; None: not known."""

    def __repr__(self) -> str:
        total = self.total
        return (
            f"Plan({self.name!r}, {self.model}: {total.requests:,} requests, "
            f"{total.recorded:,} recorded, cost {money(total.cost)})"
        )

    __str__ = __repr__

    def page(self) -> Page:
        """Give what is asked for by step, what it costs, and what is known of the questions."""
        from freshstack_dspy.recipes.plan_page import plan_page

        return plan_page(self)


def plan(
    config: BuildConfig | Path | str,
    *,
    progress: Progress | bool | None = None,
    recipe: "FreshStack | None" = None,
    programs: "Programs | None" = None,
) -> Plan:
    """Plan what a live build of a configuration would send; nothing is sent and nothing recorded.

    The corpus is cut and indexed as for the build, which then finds the index made. The other
    arguments are as in `SessionOptions`.

    Raises:
        FreshstackError: All that would stop a build before its first request.
    """
    config = configured(config)
    with ExitStack() as stack:
        shown = stack.enter_context(showing(progress))
        config = prepare(config, "live", shown, dry=True)
        opened = dry_session(config, shown, recipe, programs)
        session, dry_run = stack.enter_context(opened)
        return planned(config, session, dry_run, make(session, most=SAMPLE))


def planned(
    config: BuildConfig, session: Session, dry_run: "DryRun", made: DraftCollection
) -> Plan:
    """Give the plan of what a dry run has made, perhaps of some of the questions alone."""
    queries = made.contents.queries
    number = len(made.reading.queries)
    if isinstance(config.queries, SyntheticQueries):
        number = config.queries.count
    steps, total = _totals(session, dry_run, number / max(1, len(queries)))
    embeddings = tuple(
        estimate_embedding(
            embedder,
            [indexed_text(one) for one in (*made.chunks, *made.contents.passages)],
            [text for query in queries for text in (query.text, query.answer)],
            recorded=session.replies,
        )
        for embedder in config.embedder
    )
    return Plan(
        name=config.name,
        model=", ".join(total.models),
        queries=number,
        sampled=len(queries),
        left_out=made.reading.rejected,
        little_overlap=dict(made.little_overlap),
        in_images=tuple(one.query_id for one in made.reading.queries if is_in_image(one.body)),
        without_nuggets=tuple(
            one.query_id for one in made.contents.slices if one.slice == "without_nuggets"
        ),
        steps=steps,
        total=total,
        embeddings=embeddings,
        budget=tuple(_caps(config, total, embeddings, dry_run.spent)),
        missing_key=dry_run.missing_key,
        context=dry_run.context,
    )


def plan_asking(
    config: BuildConfig,
    ask: Callable[[Session], object],
    *,
    name: str,
    queries: int,
    progress: Progress | bool | None = None,
) -> Plan:
    """Plan what a function would send that asks in a session about so many queries.

    Raises:
        FreshstackError: As the function does.
    """
    with showing(progress) as shown, dry_session(config, shown) as (session, dry_run):
        ask(session)
    steps, total = _totals(session, dry_run)
    return Plan(
        name=name,
        model=", ".join(total.models),
        queries=queries,
        sampled=queries,
        left_out={},
        little_overlap={},
        steps=steps,
        total=total,
        budget=tuple(_caps(config, total, (), dry_run.spent)),
        missing_key=dry_run.missing_key,
        context=dry_run.context,
    )


class PlannedCall(NamedTuple):
    """A request that would be sent, with its tokens."""

    model: str
    prompt: int
    reply: int
    longest: int
    """The most that the reply may have."""


class DryRun:
    """Answers by the embedded baseline, and counts what would be sent."""

    reads_schema = True

    def __init__(self, model: ModelConfig, missing_key: str | None, spent: Spent) -> None:
        self._model = model
        self.context = context_of(model)
        self.missing_key = missing_key
        self.spent = spent
        self._baseline = BaselineProvider()
        self.sent: dict[str, list[PlannedCall]] = {}
        """By step."""

    def complete(self, request: "Request") -> "Response":
        """Answer, and count the tokens of the request and of its reply."""
        schema = (request.config.response_format or {}).get("schema")
        texts = [request.system, *(message.text for message in request.messages)]
        prompt = sum(counted(text) for text in texts if isinstance(text, str))
        prompt += counted(canonical_json(schema)) if schema else 0
        step, typical = current_step(), TYPICAL_TOKENS
        try:
            response = self._baseline.complete(request)
        except FatalModelError as error:  # a question that is not ours
            raise ReplyError(str(error), status="failed", call_id=None) from None
        else:
            if step != "closed_book_answer":
                typical = count_tokens(response.text or "")
            return response
        finally:
            longest = request.config.max_tokens or capabilities_of(self._model).reply_tokens()
            call = PlannedCall(request.model, prompt, min(typical, longest), longest)
            self.sent.setdefault(step, []).append(call)


def _totals(
    session: Session, dry_run: DryRun, scale: float = 1
) -> tuple[tuple[PlannedStep, ...], PlannedStep]:
    """Give the plan of every step that asked, and of all."""
    account, models, sent = session.lm.ledger.steps(), session.lm.ledger.models(), dry_run.sent
    prices = {client.model.name: client.price for client in session.clients}
    steps = [
        _planned(
            name, models.get(name, ()), prices, sent.get(name, []), account[name].cached, scale
        )
        for name in in_order_of_steps(account)
    ]
    everything = [size for sizes in sent.values() for size in sizes]
    recorded = sum(one.cached for one in account.values())
    asked = tuple(sorted({name for names in models.values() for name in names}))
    asked = asked or (session.config.model.name,)
    return tuple(steps), _planned("total", asked, prices, everything, recorded, scale)


def _planned(
    step: str,
    models: tuple[str, ...],
    prices: Mapping[str, Price | None],
    sent: Sequence[PlannedCall],
    recorded: int,
    scale: float,
) -> PlannedStep:
    """The plan of a step, scaled up from the questions that were run."""
    known = {name: prices.get(name) for name in models}
    is_priced = None not in known.values()
    has_batch = is_priced and all(
        price and price.batch_input is not None and price.batch_output is not None
        for price in known.values()
    )

    def dollars(*, longest: bool = False, batch: bool = False) -> float:
        costs = (
            price.cost(call.prompt, call.longest if longest else call.reply, batch=batch) or 0
            for call in sent
            if (price := prices.get(call.model)) is not None
        )
        return scale * sum(costs)

    return PlannedStep(
        step=step,
        models=models,
        requests=round((len(sent) + recorded) * scale),
        recorded=round(recorded * scale),
        input_tokens=round(sum(call.prompt for call in sent) * scale),
        output_tokens=round(sum(call.reply for call in sent) * scale),
        cost=dollars() if is_priced else None,
        batch_cost=dollars(batch=True) if has_batch else None,
        upper_bound=dollars(longest=True) if is_priced else None,
    )


@contextmanager
def dry_session(
    config: BuildConfig,
    progress: Progress,
    recipe: "FreshStack | None" = None,
    programs: "Programs | None" = None,
) -> Iterator[tuple[Session, DryRun]]:
    """A session that reads what is recorded, and records the dry run's replies in passing."""
    if isinstance(config.queries, SyntheticQueries):
        count = min(config.queries.count, SAMPLE)
        queries = config.queries.model_copy(update={"count": count})
        config = config.model_copy(update={"queries": queries})
    if config.embedder or config.reranker:
        # What hosted models would find is not known; those without one are used in their place.
        own = [name for name in config.pool.retrievers if name in ("bm25", "lsa")] or ["bm25"]
        pool = config.pool.model_copy(update={"retrievers": tuple(own)})
        index = config.index.model_copy(update={"path": config.index.path / "plans"})
        update = {"pool": pool, "embedder": (), "reranker": None, "index": index}
        config = config.model_copy(update=update)
    with ExitStack() as stack:
        replies = stack.enter_context(open_replies(config, "replay"))
        recorded = FirstOf(*replies)
        config, _ = with_contexts(config, "live", recorded)
        with file_named(config.file):
            models = map(config.model_of, (None, "nuggets", "judge"))
            missing_key = next(filter(None, (_missing_key(one, recorded) for one in models)), None)
        store = replies.store
        spent = store.spent(config.name) if store is not None else Spent()
        provider = DryRun(config.model, missing_key, spent)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        passing = stack.enter_context(closing(ReplyStore(Path(folder) / "replies")))
        lm = connect(
            config.model,
            mode="live",
            store=passing,
            recorded=recorded,
            provider=provider,
            account=Account(config.name, prices=config.prices),
        )
        stack.callback(lm.client.close)
        stack.enter_context(in_bulk(lm))
        yield (
            Session(
                config,
                "replay",
                lm,
                replies,
                progress=progress,
                recipe=recipe_maker(config, recipe, programs or {}),
                programs=programs or {},
            ),
            provider,
        )


def _missing_key(model: ModelConfig, recorded: FirstOf) -> str | None:
    """Say which key a live build lacks; an unknown provider is an error where nothing is recorded."""
    try:
        check_model(model)
    except FatalModelError as error:
        try:
            provider_for(model)
        except FatalModelError:
            if next(recorded.lines(f'"{model.name}"'.encode()), None) is None:
                raise
            return None
        return str(error)
    return None


def _caps(
    config: BuildConfig, total: PlannedStep, embeddings: Sequence[EmbeddingEstimate], spent: Spent
) -> Iterator[PlannedCap]:
    """Compare a plan with every cap that is set."""
    costs = [total.cost, *(each.dollars for each in embeddings)]
    expected = {
        "dollars": None if None in costs else sum(cost or 0 for cost in costs),
        "tokens": total.input_tokens
        + total.output_tokens
        + sum(each.tokens for each in embeddings),
        "calls": total.requests - total.recorded + sum(each.requests for each in embeddings),
    }
    for cap, amount in expected.items():
        limit = getattr(config.budget, cap)
        if limit is not None:
            yield PlannedCap(cap=cap, limit=limit, spent=getattr(spent, cap), expected=amount)
