"""Rejudge a collection: another judge labels the same pairs, and the labels are compared."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Unpack

from freshstack_dspy.calibration.agreement import AgreementReport, agree_with_judge
from freshstack_dspy.collection.collection import Collection, write_collection
from freshstack_dspy.collection.diff import Difference, difference
from freshstack_dspy.config import BuildConfig, load_judging
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import only_writer
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.pages.page import counted, interval
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.recipes.make import Made, run
from freshstack_dspy.recipes.opening import SessionOptions, configured
from freshstack_dspy.recipes.provenance import provenance
from freshstack_dspy.recipes.session import ROLES
from freshstack_dspy.stored.contents import Contents, nuggets_by_query
from freshstack_dspy.stored.record_files import rows

if TYPE_CHECKING:
    from freshstack_dspy.progress import Progress
    from freshstack_dspy.recipes.flow import Stages, Work
    from freshstack_dspy.recipes.judge import ToJudge
    from freshstack_dspy.recipes.plan import Plan


@dataclass(frozen=True, repr=False)
class Rejudged(Shown):
    """What another judge says of the same pairs."""

    model: str
    """That of the other judge."""

    collection: Collection | None
    """As it is on disk; None of a sample, which is not written."""
    agreement: AgreementReport | None
    """With the labels before as those of a person; None where no pair has a label twice."""
    on_support: bool
    """Whether labels were compared as support or none, for their scales differ."""
    difference: Difference | None
    """With every pair whose label is another; None of a sample."""
    textless: int
    """Pairs of which nothing was asked, for the chunk has no text."""
    failed: int
    """Pairs without a label now, these among them."""

    def __repr__(self) -> str:
        pairs = counted(self.agreement.pairs if self.agreement else 0, "pair")
        agreed = self.agreement.metrics["share agreed"].judge if self.agreement else None
        return f"Rejudged({self.model}: {pairs}, share agreed {interval(agreed, '.3f')})"


def rejudge(
    collection: Path | str,
    config: BuildConfig | Path | str,
    out: Path | None = None,
    *,
    sample: int | None = None,
    **options: Unpack[SessionOptions],
) -> Rejudged:
    """Judge every judged pair of a collection again, and write a collection with the new labels.

    Queries, nuggets, pool and corpus stay; what the old judge said about contamination is left out.

    Args:
        collection: Its folder; nothing in it is changed.
        config: A configuration, or its TOML file; its `[model]` and `[judge]` judge.
        out: A new folder; needed unless a sample is judged.
        sample: Judge so many pooled chunks alone, once, spread over the queries, and write nothing.
            With the model of the collection this says how far batches agree with single judging.
        options: Mode, progress, provider and the like; see `SessionOptions`.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: `out` exists, or is missing.
        CollectionError: No judged pair has a text to judge, or the folder cannot be written.
    """
    config = configured(config, options, load_judging)
    if (out is None) == (sample is None):
        raise ConfigError("name either out, for a collection with new labels, or sample")
    if out is not None and out.exists():
        raise ConfigError(f"{out} exists; name a folder that does not")
    writing = nullcontext() if out is None else only_writer(out, "freshstack rejudge")
    with span("rejudge"), writing:
        before = Collection.load(collection)
        config, pairs = _to_judge(before, config, sample)
        finish = partial(_rejudged, before, out)
        return run(config, finish, stages=_stages(pairs), **options)


def plan_rejudging(
    collection: Collection | Path | str,
    config: BuildConfig | Path | str,
    *,
    sample: int | None = None,
    progress: "Progress | bool | None" = None,
) -> "Plan":
    """Plan what `rejudge` would ask for and cost; nothing is sent. Arguments and errors are its own."""
    from freshstack_dspy.recipes.plan import plan_of

    before = Collection.load(collection)
    config, pairs = _to_judge(before, configured(config, read=load_judging), sample)
    queries = len({pair.query.query_id for pair in pairs})

    def finish(made: Made) -> "Plan":
        return plan_of(made.session, name=before.name, queries=queries)

    return run(config, finish, stages=_stages(pairs), dry=True, progress=progress)


def _stages(pairs: Sequence["ToJudge"]) -> "Stages":
    from freshstack_dspy.recipes.judge import judge

    def judge_again(work: "Work", made: Contents) -> Contents:
        judged = judge(work.session, work.recipe.support_judge, pairs)
        return replace(made, judgments=judged.judgments, failures=judged.failures)

    return ((judge_again,),)


def _to_judge(
    before: Collection, config: BuildConfig, sample: int | None
) -> tuple[BuildConfig, list["ToJudge"]]:
    """Give the configuration of the judge, and the pairs to judge: those of chunks with a text."""
    from freshstack_dspy.recipes.judge import grouped

    chunks = before.corpus.chunks({chunk_id for (chunk_id,) in rows(before.judgments, "chunk_id")})
    nuggets = nuggets_by_query(before.nuggets)
    judged: dict[str, dict[tuple[str, str], None]] = {}
    for one in before.judgments:
        if chunks[one.chunk_id].passage:
            judged.setdefault(one.query_id, {})[one.nugget_id, one.chunk_id] = None
    pairs = []
    for query in before.queries:
        of_query = judged.get(query.query_id, {})
        shown = [chunks[id_] for id_ in dict.fromkeys(id_ for _, id_ in of_query)]
        pairs += grouped(query, nuggets.get(query.query_id, []), shown, of_query)
    if not pairs:
        raise CollectionError(
            f"{before.name}: no judged chunk has a text, so there is nothing to judge; "
            "import it with its corpus: freshstack import … --corpus PATH"
        )
    if sample is not None:
        pairs = _sampled(pairs, sample, config.judge.shuffle or 0)
        once = {"votes": 1, "shuffle": None, "batch": 1, "duplicates": "judge"}
        config = config.model_copy(update={"judge": config.judge.model_copy(update=once)})
    return config, pairs


def _sampled(pairs: Sequence["ToJudge"], count: int, seed: int) -> list["ToJudge"]:
    """Single chunks, drawn by a seed: each query gives one before any gives a second."""
    drawn = []
    for pair in pairs:
        ordered = sorted(pair.chunks, key=lambda chunk: chunk.chunk_id)
        seeded = Random(f"{seed}:{pair.query.query_id}:{len(pair.nuggets)}")  # noqa: S311 - no secret
        seeded.shuffle(ordered)
        drawn += [(turn, pair._replace(chunks=[chunk])) for turn, chunk in enumerate(ordered)]
    return [pair for _, pair in sorted(drawn, key=lambda turn: turn[0])[:count]]


def _rejudged(before: Collection, out: Path | None, made: Made) -> Rejudged:
    """Compare the labels, and write those of all pairs to a collection of their own."""
    from freshstack_dspy.recipes.judge import with_judgments

    session, judged, old = made.session, made.contents, before.manifest
    scale = made.config.judge.graded
    differ = scale.name != old.scale.name
    if out is None:
        agreement = agree_with_judge(judged.judgments, scale, before.judgments, old.scale)
        failed = sum(one.label is None for one in judged.judgments)
        return Rejudged(session.judges, None, agreement, differ, None, 0, failed)
    asked = {(one.nugget_id, one.chunk_id) for one in judged.judgments}
    unasked = {
        "label": None,
        "status": "failed",
        "reason": "the chunk has no text, so nothing was asked",
        "call_id": None,
        "parts": 1,
        "votes": (),
        "probability": None,
    }
    certain = {nugget.nugget_id for nugget in before.nuggets if not nugget.doubtful}
    textless = [
        one.model_copy(update=unasked)
        for one in before.judgments
        if one.nugget_id in certain and (one.nugget_id, one.chunk_id) not in asked
    ]
    failures = [failure for failure in before.failures if failure.step != "support"]
    contents = with_judgments(
        before,
        [*judged.judgments, *textless],
        [*failures, *judged.failures],
        scale,
        contamination=(),
    )
    now = provenance(session, contents, dates=old.dates, corpus=before.corpus)
    rejudged = old.model_dump(include={"content_hash", "recipe", "model", "scale"})
    judge_now = {name: now.config[name] for name in ("model", "judge")}
    others = {step: models for step, models in old.models.items() if ROLES.get(step) != "judge"}
    described = now.model_copy(
        update={
            "name": old.name,
            "recipe": f"rejudge:{old.recipe}",
            "models": {**others, **now.models},
            "config": {**old.config, **judge_now, "rejudged": rejudged},
        }
    )
    written = write_collection(
        out, contents, before.corpus, described, rejected=old.counts.rejected
    )
    agreement = agree_with_judge(written.judgments, scale, before.judgments, old.scale)
    changes = difference(before, written, before.corpus, before.corpus)
    failed = written.manifest.counts.unlabelled
    return Rejudged(described.model, written, agreement, differ, changes, len(textless), failed)
