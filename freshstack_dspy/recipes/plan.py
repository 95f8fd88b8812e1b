"""Plan a build: the build itself, in a dry session, which sends nothing and counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.index.models import EmbeddingEstimate, estimate_embedding
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.pages.page import money
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.questions.filters import is_in_image
from freshstack_dspy.recipes.make import Made, run
from freshstack_dspy.recipes.opening import (
    SAMPLE,
    AskingOptions,
    DryRun,
    PlannedCall,
    configured,
    dry_session,
)
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Record, in_order_of_steps

if TYPE_CHECKING:
    from freshstack_dspy.programs.own import Programs
    from freshstack_dspy.recipes.freshstack import FreshStack


class PlannedStep(Record):
    """What one step of a build asks for."""

    step: str
    models: tuple[str, ...] = ()
    """Those that are asked."""
    requests: int = Field(ge=0)
    """All, recorded or not; re-asks left out."""
    recorded: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    """Input tokens of the requests that are not recorded, by OpenAI's cl100k_base; the counts below are of these requests too."""
    output_tokens: int = Field(ge=0)
    """Output tokens of typical replies; reasoning is not included."""
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
    left_out: dict[str, int] = Field(default_factory=dict)
    """How many questions are left out, by reason."""
    little_overlap: dict[str, float] = Field(default_factory=dict)
    """By question, the share of its rare terms that the corpus has; of those below .7, lowest first:
    documents that answer them may be missing."""
    in_images: tuple[str, ...] = ()
    """Ids of the questions whose content is in an image."""
    without_nuggets: tuple[str, ...] = ()
    """Ids of the questions that were run and whose answers gave no nugget."""
    unasked: tuple[str, ...] = ()
    """Retrievers of one's own of which it is not known what they find: the others stand in for them."""
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


def plan(
    config: BuildConfig | Path | str,
    *,
    progress: Progress | bool | None = None,
    recipe: "FreshStack | None" = None,
    programs: "Programs | None" = None,
) -> Plan:
    """Plan what a live build of a configuration would send; nothing is sent and nothing recorded.

    The corpus is cut and indexed as for the build, which then finds the index made. Where
    there are many questions, a sample is run and scaled up. The other arguments are as in `SessionOptions`.

    Raises:
        FreshstackError: All that would stop a build before its first request.
    """
    options: AskingOptions = {"progress": progress, "recipe": recipe, "programs": programs}
    return run(configured(config), plan_of_build, dry=True, most=SAMPLE, **options)


def plan_of_build(made: Made) -> Plan:
    """Give the plan of a build that a dry run has made, perhaps of some of the questions alone."""
    config, reading, contents = made.config, made.work.reading, made.contents
    embeddings = tuple(
        estimate_embedding(
            embedder,
            [indexed_text(chunk) for chunk in (*made.chunks, *contents.passages)],
            [text for query in contents.queries for text in (query.text, query.answer)],
            recorded=made.session.replies,
        )
        for embedder in config.embedder
    )
    return plan_of(
        made.session,
        name=config.name,
        queries=config.queries.count or len(reading.queries),
        sampled=len(contents.queries),
        left_out=reading.rejected,
        little_overlap=dict(made.work.little_overlap),
        in_images=tuple(query.query_id for query in reading.queries if is_in_image(query.body)),
        without_nuggets=tuple(
            part.query_id for part in contents.slices if part.slice == "without_nuggets"
        ),
        unasked=tuple(sorted(made.work.corpus.unasked)),
        embeddings=embeddings,
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
    with showing(progress) as shown, dry_session(config, shown) as session:
        ask(session)
        return plan_of(session, name=name, queries=queries)


def plan_of(
    session: Session,
    *,
    name: str,
    queries: int,
    sampled: int | None = None,
    embeddings: tuple[EmbeddingEstimate, ...] = (),
    **known: Any,
) -> Plan:
    """Give the plan of what a dry session was asked: about `sampled` of so many queries, or all."""
    dry_run = session.lm.client.provider
    assert isinstance(dry_run, DryRun)
    sampled = queries if sampled is None else sampled
    account, models, sent = session.lm.ledger.steps(), session.lm.ledger.models(), dry_run.sent
    prices = {client.model.name: client.price for client in session.clients}

    def planned(
        step: str, asked: tuple[str, ...], calls: Sequence[PlannedCall], cached: int
    ) -> PlannedStep:
        return _planned(step, asked, prices, calls, cached, queries / max(1, sampled))

    steps = tuple(
        planned(step, models.get(step, ()), sent.get(step, []), account[step].cached)
        for step in in_order_of_steps(account)
    )
    everything = [call for calls in sent.values() for call in calls]
    asked = tuple(sorted({name for names in models.values() for name in names}))
    asked = asked or (session.config.model.name,)
    total = planned("total", asked, everything, sum(step.cached for step in account.values()))
    return Plan(
        name=name,
        model=", ".join(total.models),
        queries=queries,
        sampled=sampled,
        steps=steps,
        total=total,
        embeddings=embeddings,
        budget=tuple(_caps(session.config, total, embeddings, dry_run.spent)),
        missing_key=dry_run.missing_key,
        context=dry_run.context,
        **known,
    )


def _planned(
    step: str,
    models: tuple[str, ...],
    prices: Mapping[str, Price | None],
    sent: Sequence[PlannedCall],
    recorded: int,
    scale: float,
) -> PlannedStep:
    """The plan of a step, scaled up from the questions that were run."""
    known = [prices.get(name) for name in models]
    has_batch = all(
        price and price.batch_input is not None and price.batch_output is not None
        for price in known
    )

    def dollars(*, longest: bool = False, batch: bool = False) -> float | None:
        if None in known:
            return None
        costs = (
            (price.batched if batch else price).cost(
                call.prompt, call.longest if longest else call.reply
            )
            or 0
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
        cost=dollars(),
        batch_cost=dollars(batch=True) if has_batch else None,
        upper_bound=dollars(longest=True),
    )


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
