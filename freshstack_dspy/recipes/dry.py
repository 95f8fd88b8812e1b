"""A dry run: a session whose model sends nothing, counts, and answers typically.

Recorded replies are served. Where one is missing, the embedded baseline answers, so that the steps
that follow have something to work on.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from freshstack_dspy.config import BuildConfig, ModelConfig
from freshstack_dspy.errors import FatalModelError, ReplyError, file_named
from freshstack_dspy.lm.budget import Account, Spent
from freshstack_dspy.lm.capabilities import capabilities_of
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.engine import BaselineProvider, check_model, provider_for
from freshstack_dspy.lm.request import canonical_json
from freshstack_dspy.lm.store import FirstOf, ReplyStore
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.typed import in_bulk
from freshstack_dspy.lm.usage import current_step
from freshstack_dspy.progress import Progress
from freshstack_dspy.recipes.judge import context_of, counted
from freshstack_dspy.recipes.opening import recipe_maker, with_contexts
from freshstack_dspy.recipes.session import Session, open_replies

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

    from freshstack_dspy.programs.own import Programs
    from freshstack_dspy.recipes.freshstack import FreshStack

SAMPLE = 50
"""Most questions that are run."""
TYPICAL_TOKENS = 300
"""Tokens of a closed-book answer, and of answers to questions that are not ours. The baseline's replies to the other steps are about as long as those of
models (73 tokens for a nugget with its quote, 49 for the verdict on a chunk); this one is not."""


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


@contextmanager
def dry_session(
    config: BuildConfig,
    progress: Progress,
    recipe: "FreshStack | None" = None,
    programs: "Programs | None" = None,
) -> Iterator[tuple[Session, DryRun]]:
    """A session that reads what is recorded, and records the dry run's replies in passing."""
    if config.queries.count is not None:
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
