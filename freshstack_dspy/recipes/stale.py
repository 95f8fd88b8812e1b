"""What a new revision of the documents or the questions makes of a collection's labels, unasked.

It is a refresh by the model of a plan, which sends nothing: what is reused, what is lost and what
would be asked are a refresh's own.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.diff import (
    QueryChange,
    Tally,
    match_chunks,
    match_nuggets,
    query_changes,
)
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress
from freshstack_dspy.recipes.corpus import commit_dates
from freshstack_dspy.recipes.make import Made, check_reusable, check_there, run
from freshstack_dspy.recipes.opening import configured
from freshstack_dspy.recipes.plan import Plan, plan_of_build
from freshstack_dspy.records import Judgment, Nugget, Record
from freshstack_dspy.stored.record_files import rows
from freshstack_dspy.text import terms

if TYPE_CHECKING:
    from freshstack_dspy.programs.own import Programs
    from freshstack_dspy.recipes.freshstack import FreshStack

NEAR = 0.5
"""The share of a nugget's terms that a new chunk, pooled for its question, has at least to be near."""

Change = Literal["moved", "gone", "edited", "retired"]


class StaleLabel(Record):
    """A label of support that a refresh would not reuse."""

    query_id: str
    nugget_id: str
    chunk_id: str
    label: int
    change: Change
    """`moved`: the words that show it are in the chunk `now`, several times, on other lines or with
    other white space; `gone`: they are in no new chunk of the file, nor in one that is pooled for the question;
    `edited`, `retired`: so is the question, or the nugget."""
    now: str | None = None


class StaleNugget(Record):
    """A nugget that lost a label, or that a new chunk may support."""

    query_id: str
    nugget_id: str
    text: str
    kept: int
    """Labels of support that are reused."""
    moved: int
    gone: int
    near: tuple[str, ...] = ()
    """New chunks that would be judged and that have at least half of its terms, most of them first."""
    true_at: str | None = None
    """When the latest commit was made whose chunks support it in the collection (UTC, ISO 8601)."""

    @property
    def unsupported(self) -> bool:
        """Whether it had support, and its evidence is gone."""
        return self.gone > 0 == self.kept + self.moved


class SourceRevision(Record):
    """The revision of a source that the labels are of, and the one that is there now."""

    source: str
    before: str | None
    now: str | None
    date_before: str | None
    date_now: str | None


class Stale(Record, Shown):
    """What a refresh would find changed, and what it would ask."""

    name: str
    supported: int
    """Labels of support in the collection."""
    kept: int
    """Those of them that hold: nugget and chunk say what they said."""
    elsewhere: int
    """Those kept whose chunk is at another place of its file, with another id."""
    followed: int
    """Labels of support that follow their evidence: their chunk was edited around it."""
    share: float = Field(ge=0, le=1)
    """The share of support labels that a refresh would not reuse."""
    others: int
    """Labels without support that are lost; nothing is measured by them."""
    labels: tuple[StaleLabel, ...]
    """The labels of support that do not hold, by query, nugget and chunk."""
    nuggets: tuple[StaleNugget, ...]
    queries: tuple[QueryChange, ...]
    """Those added, dropped and edited."""
    chunks: Tally
    revisions: tuple[SourceRevision, ...]
    plan: Plan
    """What a refresh would ask and cost."""

    def __repr__(self) -> str:
        calls = self.plan.total.requests - self.plan.total.recorded
        return (
            f"Stale({self.name!r}: {len(self.labels):,} of {self.supported:,} labels, "
            f"{calls:,} calls)"
        )

    __str__ = __repr__


def stale(
    config: BuildConfig | Path | str,
    *,
    keep_labels: bool = False,
    progress: Progress | bool | None = None,
    recipe: "FreshStack | None" = None,
    programs: "Programs | None" = None,
) -> Stale:
    """Say which labels of the collection at `out` the documents and questions of now make stale.

    Nothing is sent and nothing recorded. Where embedders are configured, what would be pooled is
    found without them, as by `plan`.

    Args:
        config: A configuration, or the path of its TOML file; a collection is at its `out`.
        keep_labels: Whether labels that another model or prompt made are reused too.
        progress: As in `SessionOptions`, as are the others.
        recipe: What is run, in place of the recipe that the configuration names.
        programs: By name, programs in place of the recipe's own.

    Raises:
        FreshstackError: All that would stop a refresh before its first request.
    """
    config = configured(config)
    check_there(config)
    before = Collection.load(config.out)
    return run(
        config,
        partial(_compared, before),
        before=before,
        check=partial(check_reusable, before.manifest, keep_labels=keep_labels),
        dry=True,
        progress=progress,
        recipe=recipe,
        programs=programs,
    )


def _compared(before: Collection, made: Made) -> Stale:
    progress = made.session.progress
    progress.start("labels", 0)
    plan = plan_of_build(made)
    chunks = match_chunks(before.chunks, made.chunks.__iter__)
    both, new = len(chunks), _New(before, made, chunks)
    nuggets = match_nuggets(before, made.contents)
    calls = {call_id for (call_id,) in rows(before.judgments, "call_id")}
    judged = rows(made.contents.judgments, "nugget_id", "chunk_id", "call_id", "followed_from")
    reused = {
        (nugget, chunk): followed_from
        for nugget, chunk, call_id, followed_from in judged
        if call_id in calls
    }
    changes = query_changes(before, made.contents)
    queries = [change for change in changes if change.change != "resliced"]
    retired = {change.query_id for change in queries if change.change == "dropped"}
    arrived = made.work.known.followed
    kept, lost = Counter[str](), list[StaleLabel]()
    elsewhere = followed = others = 0
    for judgment in before.judgments:
        nugget_id = nuggets.get(judgment.nugget_id)
        unedited = chunks.get(judgment.chunk_id)
        holds = unedited if (nugget_id, unedited) in reused else None
        if not before.supports(judgment):
            others += judgment.label is not None and holds is None
        elif holds is not None:
            kept[judgment.nugget_id] += 1
            if reused[nugget_id, holds] and not judgment.followed_from:  # another heading
                followed += 1
            else:
                elsewhere += holds != judgment.chunk_id
        elif (nugget_id, arrived.get((judgment.nugget_id, judgment.chunk_id))) in reused:
            kept[judgment.nugget_id] += 1
            followed += 1
        else:
            change: Change = "retired" if judgment.query_id in retired else "edited"
            now = None
            if nugget_id is not None:
                now = unedited or new.place_of(judgment)
                change = "moved" if now else "gone"
            ids = {
                "query_id": judgment.query_id,
                "nugget_id": judgment.nugget_id,
                "chunk_id": judgment.chunk_id,
            }
            lost.append(StaleLabel(**ids, label=judgment.label or 0, change=change, now=now))
    counts = Counter((label.nugget_id, label.change) for label in lost)
    true_at = before.true_at()
    nuggets_now = [
        StaleNugget(
            query_id=nugget.query_id,
            nugget_id=nugget.nugget_id,
            text=nugget.text,
            kept=kept[nugget.nugget_id],
            moved=counts[nugget.nugget_id, "moved"],
            gone=counts[nugget.nugget_id, "gone"],
            near=new.near(nugget),
            true_at=true_at.get(nugget.nugget_id),
        )
        for nugget in before.nuggets
        if nugget.nugget_id in nuggets and not nugget.doubtful
    ]
    dates = commit_dates(made.config)
    sources_before, sources_now = (
        dict(sorted(corpus.sources, key=str)) for corpus in (before.corpus, made.chunks)
    )
    progress.finish("labels", "")
    supported = kept.total() + len(lost)
    return Stale(
        name=before.name,
        supported=supported,
        kept=kept.total() - followed,
        elsewhere=elsewhere,
        followed=followed,
        share=len(lost) / supported if supported else 0.0,
        others=others,
        labels=tuple(lost),
        nuggets=tuple(each for each in nuggets_now if each.moved or each.gone or each.near),
        queries=tuple(queries),
        chunks=Tally(kept=both, added=len(made.chunks) - both, dropped=len(before.corpus) - both),
        revisions=tuple(
            SourceRevision(
                source=source,
                before=sources_before.get(source),
                now=sources_now.get(source),
                date_before=before.manifest.dates.get(source),
                date_now=dates.get(source),
            )
            for source in sorted(sources_before.keys() | sources_now.keys())
        ),
        plan=plan,
    )


class _New:
    """The chunks that are new and pooled, or in a file whose chunks had labels of support."""

    def __init__(self, before: Collection, made: Made, matched: Mapping[str, str]) -> None:
        supporting = {chunk_id for (chunk_id,) in before.supporting("chunk_id")}
        self._old = before.corpus.chunks(supporting - matched.keys())
        known = set(matched.values())
        self._pooled: dict[str, list[str]] = {}
        for query_id, chunk_id in rows(made.contents.pool, "query_id", "chunk_id"):
            if chunk_id not in known:
                self._pooled.setdefault(query_id, []).append(chunk_id)
        wanted = {chunk_id for pooled in self._pooled.values() for chunk_id in pooled}
        files = {(chunk.source, chunk.path) for chunk in self._old.values()}
        self._of_file: dict[tuple[str, str], list[str]] = {}
        self._words: dict[str, str] = {}
        self._terms: dict[str, set[str]] = {}
        for chunk in made.chunks:
            file, id_ = (chunk.source, chunk.path), chunk.chunk_id
            if id_ not in known and (id_ in wanted or file in files):
                self._of_file.setdefault(file, []).append(id_)
                self._words[id_] = _plain(chunk.titled)
                if id_ in wanted:
                    self._terms[id_] = {*terms(chunk.titled)}

    def place_of(self, judgment: Judgment) -> str | None:
        """The new chunk where the evidence of a label is, or its beginning; None: nowhere.

        For a label without evidence, its whole chunk is looked for.
        """
        old = self._old[judgment.chunk_id]
        pooled = self._pooled.get(judgment.query_id, ())
        ids = dict.fromkeys((*self._of_file.get((old.source, old.path), ()), *pooled))
        quoted = [old.text_at(*span) for span in judgment.evidence] or [old.text]
        found = [
            next((id_ for id_ in ids if words in self._words.get(id_, "")), None)
            for words in map(_plain, quoted)
        ]
        return found[0] if None not in found else None

    def near(self, nugget: Nugget) -> tuple[str, ...]:
        """The pooled chunks of its question that have half of a nugget's terms."""
        wanted = {*terms(nugget.text)}
        shares = {
            id_: len(wanted & self._terms.get(id_, set())) / max(1, len(wanted))
            for id_ in self._pooled.get(nugget.query_id, ())
        }
        near = (id_ for id_, share in shares.items() if share >= NEAR)
        return tuple(sorted(near, key=lambda id_: (-shares[id_], id_)))


def _plain(text: str) -> str:
    return " ".join(text.split())
