"""What a build would stumble over: each part of a configuration is tried, and nothing is paid for."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

from pydantic import Field

from freshstack_dspy.config import BuildConfig, ModelConfig, ProgramsConfig, load_config
from freshstack_dspy.errors import FreshstackError, IndexingError, file_named
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.capabilities import capabilities_of
from freshstack_dspy.lm.engine import check_model, check_reachable
from freshstack_dspy.lm.prices import price_of
from freshstack_dspy.lm.request import BASELINE, BY_HAND
from freshstack_dspy.lm.store import FirstOf, ReplyStore
from freshstack_dspy.measures.decision import few_questions
from freshstack_dspy.measures.statistics import FEWEST
from freshstack_dspy.pages.page import counted, money
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.questions.reading import read_queries
from freshstack_dspy.recipes.corpus import check_index, look, open_index
from freshstack_dspy.recipes.opening import recipe_maker, search_models
from freshstack_dspy.recipes.own_retrievers import open_retriever
from freshstack_dspy.recipes.session import open_replies
from freshstack_dspy.records import Record
from freshstack_dspy.stored.manifest import is_baseline

State = Literal["ok", "warning", "fault"]
_SMALL_CONTEXT = 8_192
"""Tokens; a judge with less is shown few chunks at a time."""
_LITTLE_SPACE = 2**30


class Check(Record):
    """What one part of a configuration would do."""

    part: str
    """The section of the configuration, with its model or name."""
    state: State
    """`warning`: a build runs, and its maker should know; `fault`: it stops here."""
    said: str
    advice: str = Field(default="", exclude_if=lambda advice: not advice)
    """What to type or write; empty where nothing has to be done."""


class Checkup(Record, Shown):
    """What `doctor` found, part by part."""

    config: str
    checks: tuple[Check, ...]

    @property
    def faults(self) -> int:
        """How many parts stop a build."""
        return sum(check.state == "fault" for check in self.checks)

    def __repr__(self) -> str:
        return f"Checkup({self.config!r}; {counted(self.faults, 'fault')})"

    __str__ = __repr__


def doctor(
    config: BuildConfig | Path | str,
    *,
    ask: bool = False,
    progress: Progress | bool | None = None,
) -> Checkup:
    """Try each part of a configuration: questions, documents, models, programs, index, disk.

    Nothing is sent to a model, and no connection is opened but to an address of one's own
    (`api_base`) and to an index in an object store.

    Args:
        config: The configuration, or its file.
        ask: Send one small typed request to each model, live; it is not recorded.
        progress: Notified how many documents are looked at.

    Raises:
        ConfigError: The configuration itself cannot be read.
    """
    settings = config if isinstance(config, BuildConfig) else load_config(config)
    with showing(progress) as shown, file_named(settings.file):
        checks = [*_checks(settings, shown)]
        faulty = {check.part for check in checks if check.state == "fault"}
        asked = [each for each in settings.models if not each.name.startswith(BY_HAND)]
        checks += [_asked(each) for each in asked if ask and _part(each) not in faulty]
    return Checkup(config=str(settings.file), checks=tuple(checks))


def _checks(config: BuildConfig, progress: Progress) -> Iterator[Check]:
    if config.queries.source != "synthetic":
        yield _tried("[queries]", lambda: _questions(config))
    yield _tried("[[corpus]]", lambda: _documents(config, progress))
    for model in config.models:
        yield from _model(config, model)
    if config.embedder or config.reranker:
        yield _tried("[[embedder]] and [reranker]", lambda: _searching(config))
    yield _tried("programs", lambda: _programs(config))
    if config.pool.own:
        yield _tried("[pool] retrievers", lambda: _retrievers(config))
    yield _tried("[index]", lambda: _index(config))
    yield _space(config)
    priced = not config.model.name.startswith((BASELINE, BY_HAND))
    if priced and not config.budget.model_fields_set:
        yield _warning(
            "[budget]", "no cap, so a build may cost anything", "write under [budget]: dollars = 20"
        )


def _warning(part: str, said: str, advice: str) -> Check:
    return Check(part=part, state="warning", said=said, advice=advice)


def _tried(part: str, check: Callable[[], str]) -> Check:
    try:
        return Check(part=part, state="ok", said=check())
    except FreshstackError as error:
        return Check(part=part, state="fault", said=str(error))


def _questions(config: BuildConfig) -> str:
    own_left_out = config.model_copy(
        update={"programs": ProgramsConfig()}
    )  # they are tried by themselves
    recipe, _ = recipe_maker(own_left_out, None, {})()
    reading = read_queries(config.queries, answered=recipe.needs_answers)
    left_out = sum(reading.rejected.values())
    number = len(reading.queries)
    questions = few_questions(number) if number < FEWEST else counted(number, "question")
    return f"{questions}; {left_out:,} left out"


def _documents(config: BuildConfig, progress: Progress) -> str:
    here = tuple(corpus for corpus in config.corpus if corpus.url is None)
    later = len(config.corpus) - len(here)
    said = []
    if here:
        files, skipped, _ = look(config.model_copy(update={"corpus": here}), progress)
        said.append(f"{counted(len(files), 'file')} to index, {len(skipped):,} skipped")
    if later:
        said.append(f"{counted(later, 'repository', 'repositories')} not fetched yet")
    return "; ".join(said) or "no documents"


def _part(model: ModelConfig) -> str:
    return f"{model.section} {model.name}"


def _model(config: BuildConfig, model: ModelConfig) -> Iterator[Check]:
    part = _part(model)
    if is_baseline(model.name):
        yield _warning(
            part,
            "a word counter: fine for a dry run, not a judge",
            'name a model under [model], as name = "openai/gpt-5-mini"',
        )
        return
    if model.name.startswith(BY_HAND):
        how = "answered by hand: build with --mode defer, and then freshstack requests next"
        yield Check(part=part, state="ok", said=how)
        return
    try:
        check_model(model)
        check_reachable(model)
        takes = capabilities_of(model)
    except FreshstackError as error:
        with open_replies(config, "replay") as replies:
            recorded = any(FirstOf(*replies).lines(f'"{model.name}"'.encode()))
        replayed = "; only what is recorded can be replayed" * recorded
        state: State = "warning" if recorded else "fault"
        yield Check(part=part, state=state, said=f"{error}{replayed}")
        return
    said = [
        f"context of {takes.context:,} tokens" if takes.context else "context not known",
        f"replies of up to {takes.reply_tokens():,}",
        "thinks" if takes.thinks else "does not think",
        f"structured output: {'strict ' * takes.strict}{takes.structured}",
    ]
    price = price_of(model.name, model.prices or config.prices)
    if price is not None:
        said.append(f"${price.input * 1e6:.3g} and ${price.output * 1e6:.3g} a million tokens")
    yield Check(part=part, state="ok", said="; ".join(said))
    if price is None:
        yield _warning(
            part,
            "no known price: what it costs is not counted, and no cap on dollars holds",
            "write under [prices]: input and output, in dollars per million tokens",
        )
    if takes.context is None or takes.context < _SMALL_CONTEXT:
        yield _warning(
            part,
            "its context is small or not known, so few chunks fit into one request",
            "write under [model]: context, if you know it",
        )


def _searching(config: BuildConfig) -> str:
    with search_models(config) as models:
        names = [embedder.name for embedder in models.embedders]
        return f"opened: {', '.join([*names, *['reranker'] * (models.reranker is not None)])}"


def _programs(config: BuildConfig) -> str:
    recipe, _ = recipe_maker(config, None, {})()
    own = ", ".join(sorted(config.programs.named))
    return f"{type(recipe).__name__}{f' with {own} of your own' if own else ''}"


def _retrievers(config: BuildConfig) -> str:
    for name, retriever in config.pool.own.items():
        open_retriever(name, retriever, config.pool.depth, config.file.parent)
    return f"of your own: {', '.join(config.pool.own)}"


def _index(config: BuildConfig) -> str:
    check_index(config)
    path = config.index.path / config.name
    with search_models(config, "replay") as models:
        try:
            return f"{path}: {counted(len(open_index(config, models)), 'chunk')}"
        except (
            IndexingError
        ):  # none, or of other settings or another version: a build makes it anew
            return f"{path}: not built yet as it is configured now"


def _space(config: BuildConfig) -> Check:
    places = {
        folder: shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.is_dir()))
        for folder in (config.cache.path, config.chunks_folder, config.out)
        for folder in [folder.absolute()]
    }
    folder, usage = min(places.items(), key=lambda place: place[1].free)
    said = f"{usage.free / 2**30:,.1f} GiB free at {folder}"
    little = usage.free < _LITTLE_SPACE
    advice = "free some, or move [cache] path, [index] path and out" if little else ""
    return Check(part="disk", state="warning" if little else "ok", said=said, advice=advice)


def _asked(model: ModelConfig) -> Check:
    """Send one small typed request."""
    import dspy

    from freshstack_dspy.lm.client import connect
    from freshstack_dspy.programs.support_judge import SupportJudge

    part, begun = f"{_part(model)}, asked", time.monotonic()
    model = model.model_copy(update={"retries": min(model.retries, 1)})
    with tempfile.TemporaryDirectory() as folder, closing(ReplyStore(Path(folder))) as store:
        try:
            lm = connect(model, mode="live", store=store, account=Account("doctor"))
            with closing(lm.client), dspy.context(lm=lm):
                judged = SupportJudge()(
                    "How do I list the files of a folder?",
                    ["os.listdir lists the entries of a folder"],
                    ["Use os.listdir(path): it returns the names of the entries in path."],
                )
        except FreshstackError as error:
            return Check(part=part, state="fault", said=str(error))
        steps = lm.ledger.steps().values()
    seconds, tokens = time.monotonic() - begun, sum(step.tokens for step in steps)
    spent = f"{seconds:.1f} s, {tokens:,} tokens, {money(sum(step.cost for step in steps))}"
    if judged.failure is not None:
        return Check(part=part, state="fault", said=f"{judged.failure.message} ({spent})")
    return Check(part=part, state="ok", said=f"a valid reply: {spent}")
