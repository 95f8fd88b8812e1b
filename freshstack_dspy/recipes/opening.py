"""Opens a session, or a dry one: where replies, recorded LM, embedders, budget and progress meet.

In a dry session recorded replies are served. Where one is missing, the built-in baseline answers, so
that the steps that follow have something to work on, and what would be sent is counted.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, get_args

from freshstack_dspy.config import (
    OF_ANSWERS,
    RERANKED,
    BuildConfig,
    Mode,
    ModelConfig,
    Role,
    as_config,
    base_of,
    load_config,
)
from freshstack_dspy.errors import ConfigError, FatalModelError, ReplyError, argument, file_named
from freshstack_dspy.index.hybrid import HYBRID
from freshstack_dspy.index.models import Models, connected
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.budget import Account, Spent
from freshstack_dspy.lm.capabilities import capabilities_of, context_in, window_listed
from freshstack_dspy.lm.engine import (
    BaselineProvider,
    Provider,
    check_model,
    check_reachable,
    listed_models,
    provider_for,
)
from freshstack_dspy.lm.events import Callback
from freshstack_dspy.lm.recorder import Access
from freshstack_dspy.lm.reply import Entry, Reply, receive
from freshstack_dspy.lm.request import (
    BASELINE,
    BY_HAND,
    ChatRequest,
    canonical_json,
    endpoint_identity,
)
from freshstack_dspy.lm.store import FirstOf, Recorded, ReplyStore
from freshstack_dspy.lm.tokens import count_prompt, count_tokens
from freshstack_dspy.lm.usage import current_step
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.recipes.session import Session, check_mode, open_replies
from freshstack_dspy.records import Status

if TYPE_CHECKING:
    from dspy import LM
    from dspy.lm15 import Request, Response

    from freshstack_dspy.programs.own import Programs
    from freshstack_dspy.recipes.freshstack import FreshStack


class AskingOptions(TypedDict, total=False):
    """Who is asked, by which programs, and who is notified."""

    failed: bool
    """In mode `rerecord`: ask anew only for what failed; in mode `defer`: for that too."""
    progress: Progress | bool | None
    """Notified of every step; True: bars, or lines in a pipe; False: nothing; None (the default):
    bars on a terminal and in a notebook."""
    provider: Provider | None
    """What answers, in place of the one that the model's name chooses."""
    callback: Callback | None
    """Notified of every request to a model, by many threads."""
    recipe: "FreshStack | None"
    """What is run, in place of the recipe that the configuration names."""
    programs: "Programs | None"
    """By name, programs in place of the recipe's own: modules, import paths, or saved files."""
    models: "Mapping[Role, ModelConfig | LM | str] | None"
    """By role (`judge`, `nuggets`, `synthesis`, `generator`, `gold_generator`, `reranker`), models in
    place of those that the configuration names: a name, a `ModelConfig`, or an LM of DSPy or of
    `connect`."""


class SessionOptions(AskingOptions, total=False):
    """How a recipe asks; every function that opens a session takes these as keywords."""

    mode: Mode
    """`live` (the default) asks what is not recorded; `replay` opens no connection; `defer` writes
    requests down, for a batch API or another machine; `rerecord` asks all anew."""


def check_options(options: Mapping[str, Any]) -> None:
    """Raise a TypeError for a keyword that no session takes, as Python does of a function's own."""
    taken = SessionOptions.__optional_keys__
    if unknown := options.keys() - taken:
        raise TypeError(
            f"unexpected keyword argument {min(unknown)!r}; allowed: {', '.join(sorted(taken))}"
        )


def configured(
    config: BuildConfig | Path | str,
    options: SessionOptions | None = None,
    read: Callable[[Path | str], BuildConfig] = load_config,
) -> BuildConfig:
    """Take a configuration, or read that of a file; one without a model has that of DSPy.

    For a model of `connect` it has store, caps and prices too, and `options` its mode, where nothing
    is said of them. The `models` of the options are put into the configuration.

    Raises:
        ConfigError: It cannot be read, or it is a file that names no model; or the model that DSPy
            is configured with cannot be recorded, see `model_of`.
    """
    config = as_config(config, read)
    if options is not None:
        config = _with_models(config, options.pop("models", None) or {})
    dspy = sys.modules.get("dspy")  # where it was not imported, nobody configured it
    lm = getattr(getattr(dspy, "settings", None), "lm", None)
    if lm is None or "name" in config.model.model_fields_set:
        return config
    if config.file != Path("CONFIG"):
        raise ConfigError(
            f"{config.file} names no model, and a file never uses that of dspy.configure(lm=…); "
            f'write under [model]: name = "{lm.model}", or name = "{BASELINE}"'
        )
    from freshstack_dspy.lm.client import RecordedLM, as_model

    own = {name: getattr(config.model, name) for name in config.model.model_fields_set}
    update: dict[str, Any] = {"model": as_model(lm).model_copy(update=own)}
    if isinstance(lm, RecordedLM):
        access, given = lm.client.access, config.model_fields_set
        if access.recorded is not None:
            raise ConfigError(
                f"{lm.model} was connected with recorded=…; name these bundles in cache.bundles"
            )
        if options is not None:
            options.setdefault("mode", access.mode)
            options.setdefault("callback", access.callback)
        if access.store is not None and "path" not in config.cache.model_fields_set:
            update["cache"] = config.cache.model_copy(update={"path": access.store.path})
        of_account = {"budget": access.account.caps, "prices": access.account.prices}
        update |= {key: value for key, value in of_account.items() if key not in given}
    return config.model_copy(update=update)


def _with_models(config: BuildConfig, models: Mapping[Any, Any]) -> BuildConfig:
    """Name models for roles."""
    if unknown := models.keys() - get_args(Role):
        raise ConfigError(f"models: no role {min(unknown)!r}; allowed: {', '.join(get_args(Role))}")
    if not models:
        return config
    from freshstack_dspy.lm.client import as_model

    if "reranker" in models and not (config.reranker and config.reranker.asks_chat):
        raise ConfigError('models: a reranker needs [reranker] method, such as "listwise"')
    sections = {
        role: getattr(config, role).model_copy(update={"model": as_model(given)})
        for role, given in models.items()
    }
    return config.model_copy(update=sections)


@contextmanager
def open_session(
    config: BuildConfig,
    mode: Mode = "live",
    *,
    searching: bool = True,
    roles: Sequence[Role | None] | None = None,
    **options: Unpack[AskingOptions],
) -> Iterator[Session]:
    """Open a session, and close it at the end; its recorded LM is DSPy's meanwhile.

    Next to the `SessionOptions` it takes `searching`: whether embedders and reranker are opened too;
    and `roles`: whose models are checked before anything is asked, by default those of a build.

    Raises:
        ConfigError: No such mode, or batches under way would be paid for twice.
        FatalModelError: The model's provider is not known, or there is no key for it, or nothing is
            recorded yet and nobody is there.
        FreshstackError: A model or the store cannot be opened; see `errors.py`.
    """
    import dspy

    from freshstack_dspy.lm.client import Client, RecordedLM
    from freshstack_dspy.lm.typed import in_bulk

    check_options(options)
    check_mode(config, mode)
    provider, programs = options.get("provider"), options.get("programs") or {}
    if options.get("failed") and mode not in ("defer", "rerecord"):
        failed, *modes = (
            argument("failed"),
            *(argument("mode", one) for one in ("rerecord", "defer")),
        )
        raise ConfigError(f"{failed} asks again for what failed: add {' or '.join(modes)}")
    roles = roles or (_roles(config) if searching else ("judge",))
    asked = () if provider else [config.model_of(role) for role in roles]
    if mode in ("live", "rerecord"):
        _check_each(config, asked, check_model)
    with ExitStack() as stack:
        store, bundles = replies = stack.enter_context(open_replies(config, mode))
        recorded = FirstOf(store, bundles)
        if mode == "rerecord" or (mode == "live" and not any(recorded.lines())):
            _check_each(config, asked, check_reachable)
        settings = config
        asking = mode if provider is None else "replay"
        config, listed = with_contexts(config, asking, recorded, store)
        access = Access(
            mode,
            store,
            bundles,
            Account(config.name, config.budget, config.prices, JobFolder.of(config).reserved()),
            callback=options.get("callback"),
            failed=options.get("failed", False),
        )
        client = Client(config.model, access, provider=provider or config.model.provider)
        own = dspy.settings.lm  # its callbacks are notified where it is the model that is asked
        is_asked = getattr(own, "model", None) == config.model.name
        lm = RecordedLM(client, own.callbacks if is_asked else ())
        client.enter_used(listed)
        models = stack.enter_context(connected(config, access)) if searching else Models()
        stack.enter_context(in_bulk(lm))
        session = Session(
            config,
            mode,
            lm,
            replies,
            models=models,
            progress=stack.enter_context(showing(options.get("progress"))),
            recipe=recipe_maker(config, options.get("recipe"), programs),
            programs=programs,
        )
        session.settings = settings
        _let_program_rerank(session)
        with closing(session):
            for role in roles:  # what is wrong with its settings shows before anything is paid for
                session.lm_of(role)
            yield session


_BUILDING: tuple[Role | None, ...] = (None, "nuggets", "judge")


def _roles(config: BuildConfig) -> tuple[Role | None, ...]:
    """Whose models a build asks."""
    return (*_BUILDING, "reranker") if config.pool.reranks else _BUILDING


def _let_program_rerank(session: Session) -> None:
    """Have a program rerank in a session whose `[reranker]` asks a chat model."""
    settings = session.config.reranker
    if settings is not None and settings.asks_chat:
        from freshstack_dspy.recipes.reranking import ProgramReranker

        asking = session.models._replace(reranker=ProgramReranker(session))
        session.models = asking._replace(rerank_depth=settings.depth)


def _check_each(
    config: BuildConfig, models: Iterable[ModelConfig], check: Callable[[ModelConfig], None]
) -> None:
    """Check the models that are asked by their names, each once."""
    with file_named(config.file):
        for model in {id(one): one for one in models if one.provider is None}.values():
            check(model)


def with_contexts(
    config: BuildConfig, mode: Mode, recorded: Recorded, store: ReplyStore | None = None
) -> tuple[BuildConfig, list[Reply]]:
    """Put what each model's server says of its context into a configuration that does not say it.

    It gives the replies of the servers too.
    """
    own = [role for role in get_args(Role) if config.own_model(role) is not None]
    models = {role: config.model_of(role) for role in (None, *own)}
    listed = {
        (one.name, one.api_base, one.context): context_at_server(one, mode, recorded, store)
        for one in models.values()
    }
    update: dict[str, Any] = {}
    for role, model in models.items():
        reply = listed[model.name, model.api_base, model.context]
        context = (reply and context_in(reply.text)) or model.context
        if role is None:
            update["model"] = model.model_copy(update={"context": context})
        else:  # without a context of its own it would have that of `[model]`
            named = getattr(config, role)
            its = named.model.model_copy(update={"context": context})
            update[role] = named.model_copy(update={"model": its})
    return config.model_copy(update=update), [one for one in listed.values() if one is not None]


def context_at_server(
    model: ModelConfig, mode: Mode, recorded: Recorded, store: ReplyStore | None = None
) -> Reply | None:
    """What a model's own server says of its context, or said when it was last asked.

    It is recorded like a reply, to a request without messages: a replay packs its requests by it.
    Nobody is asked where `[model] context` says it, or the provider is one that the table knows.
    """
    if model.name == BASELINE or model.context is not None:
        return None
    endpoint = endpoint_identity(model.name, model.api_base)
    parameters: dict[str, Any] = {"asked": "context"}
    request = ChatRequest(model=model.name, endpoint=endpoint, messages=(), parameters=parameters)
    known = recorded.entry(request.key)
    before = known if isinstance(known, Reply) else None
    if mode not in ("live", "rerecord"):
        return before
    window = window_listed(listed_models(model), model.name.partition("/")[2])
    text = json.dumps({"context": window})
    if window is None or (before is not None and before.text == text):
        return before
    reply = receive(
        request,
        text=text,
        finish_reason="stop",
        input_tokens=0,
        output_tokens=0,
        origin="live",
        price=None,
    )
    if store is not None:
        store.put(reply)
    return reply


def recipe_maker(
    config: BuildConfig, recipe: "FreshStack | None", programs: "Programs"
) -> "Callable[[], tuple[FreshStack, dict[str, str]]]":
    """Give what makes the recipe of a session: DSPy's and the index's imports wait until then.

    It gives what its programs are too, before a run changes their attributes.
    """

    def make() -> "tuple[FreshStack, dict[str, str]]":
        from freshstack_dspy.recipes.recipe import identities, recipe_of, with_programs

        own = {name: one for name, one in programs.items() if name not in OF_ANSWERS}
        made = with_programs(recipe_of(config) if recipe is None else recipe, own)
        return made, identities(made, {*config.programs.named, *programs})

    return make


def with_models_for(config: BuildConfig, retrievers: Sequence[str]) -> BuildConfig:
    """Leave out the models that none of these retrievers needs."""
    bases, reranker = {base_of(name) for name in retrievers}, config.reranker
    if bases == {*retrievers}:
        reranker = None
    elif reranker is not None and reranker.method == "mmr":
        bases.add(reranker.vectors or "lsa")
    if HYBRID in bases:
        return config.model_copy(update={"reranker": reranker})
    named = tuple(one for one in config.embedder if one.name in bases)
    return config.model_copy(update={"embedder": named, "reranker": reranker})


@contextmanager
def search_models(
    config: BuildConfig, mode: Mode = "live", **options: Unpack[AskingOptions]
) -> Iterator[Models]:
    """Open the models of `[[embedder]]` and `[reranker]`, under the caps of `[budget]`.

    `options` are those of the session in which a chat model reranks.

    Raises:
        ConfigError, FatalModelError: As for `index.models.connected`.
        StoreError: The recorded replies cannot be opened.
    """
    with ExitStack() as opened:
        if config.reranker is not None and config.reranker.asks_chat:
            session = open_session(config, mode, roles=["reranker"], **options)
            yield opened.enter_context(session).models
            return
        access = Access(mode, callback=options.get("callback"), failed=options.get("failed", False))
        if any(model and model.path is None for model in (*config.embedder, config.reranker)):
            store, bundles = opened.enter_context(open_replies(config, mode))
            reserved = JobFolder.of(config).reserved()
            account = Account(config.name, config.budget, config.prices, reserved)
            access = replace(access, store=store, recorded=bundles, account=account)
        yield opened.enter_context(connected(config, access))


# A dry session


SAMPLE = 50
"""Most questions that a plan runs."""
TYPICAL_TOKENS = 300
"""Tokens of a closed-book answer, and of answers to questions that are not ours. The baseline's
replies to the other steps are about as long as those of models (73 tokens for a nugget with its
quote, 49 for the verdict on a chunk); this one is not."""


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
        self.context = capabilities_of(model).context
        self.missing_key = missing_key
        self.spent = spent
        self._baseline = BaselineProvider()
        self.sent: dict[str, list[PlannedCall]] = {}
        """By step."""

    def complete(self, request: "Request") -> "Response":
        """Answer, and count the tokens of the request and of its reply."""
        schema = (request.config.response_format or {}).get("schema")
        texts = [request.system, *(message.text for message in request.messages)]
        prompt = sum(count_prompt(text) for text in texts if isinstance(text, str))
        prompt += count_prompt(canonical_json(schema)) if schema else 0
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


class _Passing(ReplyStore):
    """The replies of a dry run, in memory and without their prompts: nobody reads them after it."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def entry(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def lines(self, holding: bytes = b"") -> Iterator[tuple[str, bytes]]:
        return iter(())

    def put(self, *entries: Entry, account: str | None = None, spent: Spent | None = None) -> None:
        for entry in entries:
            request = entry.request.model_copy(update={"messages": ()})
            self._entries[entry.key] = entry.model_copy(update={"request": request})

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        if isinstance(reply := self._entries.get(key), Reply):
            update = {"status": status, "reasked_as": reasked_as}
            self._entries[key] = reply.model_copy(update=update)


@contextmanager
def dry_session(
    config: BuildConfig,
    progress: Progress,
    recipe: "FreshStack | None" = None,
    programs: "Programs | None" = None,
) -> Iterator[Session]:
    """Open a session that reads what is recorded, and records a `DryRun`'s replies in passing."""
    from freshstack_dspy.lm.client import connect
    from freshstack_dspy.lm.typed import in_bulk

    if config.queries.count is not None:
        count = min(config.queries.count, SAMPLE)
        queries = config.queries.model_copy(update={"count": count})
        config = config.model_copy(update={"queries": queries})
    if config.embedder or (config.reranker and not config.reranker.asks_chat):
        config = _without_hosted(config)
    with ExitStack() as stack:
        replies = stack.enter_context(open_replies(config, "replay"))
        recorded = FirstOf(*replies)
        config, _ = with_contexts(config, "live", recorded)
        with file_named(config.file):
            models = map(config.model_of, _roles(config))
            missing_key = next(filter(None, (_missing_key(one, recorded) for one in models)), None)
        store = replies.store
        spent = store.spent(config.name) if store is not None else Spent()
        provider = DryRun(config.model, missing_key, spent)
        lm = connect(
            config.model,
            mode="live",
            store=_Passing(),
            recorded=recorded,
            provider=provider,
            account=Account(config.name, prices=config.prices),
        )
        stack.callback(lm.client.close)
        stack.enter_context(in_bulk(lm))
        session = Session(
            config,
            "replay",
            lm,
            replies,
            progress=progress,
            recipe=recipe_maker(config, recipe, programs or {}),
            programs=programs or {},
        )
        session.dry = True
        _let_program_rerank(session)
        yield session


def _without_hosted(config: BuildConfig) -> BuildConfig:
    """Put retrievers that need no model in the place of those whose results are not known.

    Where a chat model reranks, it is asked about as many lists as it would be.
    """
    reranker = config.reranker if config.reranker and config.reranker.asks_chat else None
    stand_ins = ["bm25", *["lsa"] * (config.index.lexical == "bm25s"), "hybrid"]
    known, kept = {*stand_ins[:-1], *config.pool.own}, dict[str, Any]()
    for name, source in zip(config.pool.names, config.pool.retrievers, strict=True):
        if {name, base_of(name)} & known:
            kept[name] = source
        elif reranker and base_of(name) != name:
            others = (f"{one}{RERANKED}" for one in stand_ins)
            spare = next((one for one in others if one not in (*kept, *config.pool.names)), None)
            kept |= {spare: spare} if spare else {}
    if reranker is None:
        kept = {base_of(name): config.pool.own.get(name, base_of(name)) for name in kept}
    pool = config.pool.model_copy(update={"retrievers": tuple(kept.values() or ["bm25"])})
    index = config.index.model_copy(update={"path": config.index.path / "plans"})
    update = {"pool": pool, "embedder": (), "reranker": reranker, "index": index}
    return config.model_copy(update=update)


def _missing_key(model: ModelConfig, recorded: FirstOf) -> str | None:
    """Say which key a live build lacks; an unknown provider is an error where nothing is recorded."""
    if model.name.startswith(BY_HAND):
        return None
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
