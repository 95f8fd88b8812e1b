"""How far a collection has come, what it may be trusted for, and what to type next."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shlex import quote

from freshstack_dspy.config import BuildConfig, load_config
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.batch.deferred import requests_waiting
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.request import BY_HAND
from freshstack_dspy.lm.store import open_store
from freshstack_dspy.measures.decision import few_questions
from freshstack_dspy.measures.statistics import FEWEST
from freshstack_dspy.pages.page import counted, money
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress
from freshstack_dspy.recipes.plan import plan
from freshstack_dspy.records import Record
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import (
    MANIFEST_FILE,
    Trust,
    asking_again,
    by_hand,
    is_dry_run,
    people_of,
    trust_line,
    uncalibrated,
)


class NextStep(Record):
    """A command that leads on."""

    command: str
    why: str
    cost: str = ""
    """In dollars, or in pairs that people label; empty where it costs nothing."""


class Status(Record, Shown):
    """What there is of a collection, what it may be trusted for, and the next commands."""

    name: str
    there: tuple[str, ...]
    """What there is, line by line."""
    trust: str
    """What its labels may be used for."""
    next: tuple[NextStep, ...]
    """The most useful first."""

    def __repr__(self) -> str:
        return f"Status({self.name!r}; next: {self.next[0].command if self.next else 'nothing'})"

    __str__ = __repr__


def status(source: Path | str, *, progress: Progress | bool | None = None) -> Status:
    """Say how far a collection has come.

    Args:
        source: The TOML file of a build, or the folder of a collection.
        progress: Notified how far the plan of a build is, where there is no collection yet.

    Raises:
        FreshstackError: The configuration or the collection cannot be read.
    """
    path = Path(source)
    if path.is_dir():
        return _of_collection(path, path.name, None, [])
    if path.suffix != ".toml":
        raise ConfigError(f"{path}: neither a TOML file of a build nor the folder of a collection")
    config, typed = load_config(path), quote(str(path))
    waiting, is_agent = _waiting(config), config.model.name.startswith(BY_HAND)
    there, first = [], []
    if waiting:
        there.append(f"{counted(waiting, 'deferred request')} waiting")
        first.append(
            NextStep(
                command=f"freshstack requests {'next' if is_agent else 'answer'} {typed}",
                why="then repeat the command that wrote them",
            )
        )
    if batches := sum(job.pending for job in JobFolder.of(config).jobs()):
        there.append(f"{counted(batches, 'batch', 'batches')} under way")
        first.append(
            NextStep(command=f"freshstack requests status {typed}", why="fetches their replies")
        )
    if (config.out / MANIFEST_FILE).is_file():
        collection = _of_collection(config.out, config.name, path, there)
        return collection.model_copy(update={"next": (*first, *collection.next)})
    if first:
        return Status(name=config.name, there=tuple(there), trust="nothing yet", next=tuple(first))
    planned = plan(config, progress=progress)
    total = planned.total
    there.append(
        f"{counted(planned.queries, 'question')}, and no collection at {config.out}; "
        f"{total.recorded:,} of {counted(total.requests, 'request')} recorded"
    )
    if planned.queries < FEWEST:
        there.append(few_questions(planned.queries))
    steps = (
        NextStep(command=f"freshstack doctor {typed}", why="tries keys, models and documents"),
    )
    build = NextStep(
        command=f"freshstack build {typed}{' --mode defer' * is_agent}",
        why="makes the collection",
        cost=money(total.cost) if total.cost else "",
    )
    return Status(
        name=config.name,
        there=tuple(there),
        trust="nothing yet",
        next=(*(steps if not total.recorded else ()), build),
    )


def _waiting(config: BuildConfig) -> int:
    """Count the deferred requests that wait for replies."""
    store = open_store(config.cache.path, "replay")
    if store is None:
        return 0
    with closing(store):
        return len(requests_waiting(store, config))


def _of_collection(folder: Path, name: str, config: Path | None, there: list[str]) -> Status:
    collection = StoredCollection.load(folder)
    counts = collection.manifest.counts
    there.append(
        f"{folder}: {counted(counts.queries, 'query', 'queries')}, {counted(counts.nuggets, 'nugget')}, "
        f"{counted(counts.judgments - counts.unlabelled, 'judged pair')}, {counts.supported:,} "
        "supported"
    )
    if counts.unlabelled:
        there.append(f"{counted(counts.unlabelled, 'pair')} without a label")
    return Status(
        name=name,
        there=tuple(there),
        trust=_trusted_for(collection),
        next=tuple(_next(collection, folder, config)),
    )


def _trusted_for(collection: StoredCollection) -> str:
    manifest = collection.manifest
    if is_dry_run(manifest):
        return "a dry run: a word counter made the labels, so nothing may be concluded"
    measured = len(collection.query_ids())
    lacking = [few_questions(measured)] if measured < FEWEST else []
    if uncalibrated(manifest):
        lacking.append(trust_line(manifest))
    if lacking:
        return f"to find failures, not yet to decide between retrievers: {'; '.join(lacking)}"
    return f"to decide between retrievers: {collection.labels_by}"


def _next(collection: StoredCollection, folder: Path, config: Path | None) -> Iterator[NextStep]:
    manifest, named = collection.manifest, quote(str(config or "CONFIG"))
    typed = quote(str(folder))
    if manifest.counts.unlabelled:
        yield NextStep(
            command=f"freshstack build {named} {asking_again(manifest)}",
            why="asks again for what failed",
        )
    if is_dry_run(manifest):
        yield NextStep(
            command=f"freshstack plan {named}", why="with a model named under [model], its price"
        )
    elif needed := people_of(manifest).needed:
        yield NextStep(
            command=f"freshstack sample {typed} --for agreement --limit {needed} --out tasks.jsonl",
            why="draws pairs for people to label, which says how far the labels can be trusted",
            cost=f"{needed} pairs to label",
        )
    elif uncalibrated(manifest) and manifest.trust:
        yield _calibrating(manifest.trust, typed, config, is_agent=by_hand(manifest))
    runs = " ".join(quote(str(path)) for path in _runs(collection, folder, config))
    if not runs:
        yield NextStep(
            command=f"freshstack retrieve {typed} --retriever hybrid --out hybrid.run",
            why="a run to begin with; --retriever package.module:name is your own",
        )
    elif " " in runs:
        yield NextStep(command=f"freshstack compare {typed} {runs}", why="which of them to ship")
    yield NextStep(
        command=f"freshstack report {typed} {runs or 'hybrid.run'} --out report.html",
        why="all that is known, on one page",
    )


def _calibrating(trust: Trust, folder: str, config: Path | None, *, is_agent: bool) -> NextStep:
    """What comes where no number of labels of these pairs calibrates a collection."""
    named = quote(str(config or "CONFIG"))
    if trust.kappa is not None and (trust.kappa.value or 0) > trust.min_kappa:
        return NextStep(
            command=f"freshstack refresh {named}{' --mode defer' * is_agent}",
            why="after adding questions: its pairs are too few to show how far people agree",
        )
    if is_agent:
        return NextStep(
            command=f"freshstack rejudge {folder} --config {named} --out {folder}-rejudged",
            why="people agree too little with the agent that judged; name another [judge] model first",
        )
    theirs = load_config(config).trust.labels if config else ()
    labels = " ".join(quote(str(path)) for path in theirs[:1]) or "labels.jsonl"
    return NextStep(
        command=f"freshstack optimize {named} {labels} --out judge.json",
        why="people agree with the judge too little for more labels to tell; tune it on theirs",
    )


def _runs(collection: StoredCollection, folder: Path, config: Path | None) -> list[Path]:
    """The run files here, beside the collection and beside its configuration that are of its queries."""
    folders = [Path(), folder.parent, config.parent if config else folder.parent]
    places = {each.resolve(): each for each in reversed(folders)}
    ids = {query.query_id for query in collection.queries}
    runs = []
    for path in sorted(path for place in places.values() for path in place.glob("*.run")):
        with path.open("rb") as lines:
            first = lines.readline(10_000).decode(errors="replace").split()
        if len(first) == 6 and first[0] in ids:
            runs.append(path)
    return runs
