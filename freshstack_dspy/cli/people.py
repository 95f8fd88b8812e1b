"""`freshstack sample`, `import-labels`, `agree` and `optimize`: what people say, and what it is for."""

import io
from collections import Counter
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import (
    Asking,
    AtLeastOne,
    FromZero,
    Outcome,
    Written,
    check_out,
    command,
    complain,
    judging,
    name_in,
    to_type,
    wrote,
)
from freshstack_dspy.pages.page import Page, Text, counted
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.calibration.optimization import Task
    from freshstack_dspy.recipes.session import Session

TaskKind = Literal["support", "answerability", "nuggets", "answer", "report"]
Purpose = Literal["agreement", "share", "runs"]


@command
def sample(
    collection: Path,
    *,
    out: Path,
    kind: TaskKind = "support",
    purpose: Annotated[Purpose, typer.Option("--for")] = "agreement",
    limit: AtLeastOne | None = None,
    against: Path | None = None,
    answers: Path | None = None,
    seed: int = 0,
    format: Literal["freshstack", "csv", "label-studio"] = "freshstack",  # noqa: A002
) -> Outcome:
    """Draw judgments for people to label, and say what their labels will tell.

    Args:
        out: File of tasks; to those that are in it more are added.
        kind: What people are asked: how well a passage supports a nugget, whether it answers it at
            all (CRUX), which nuggets a query should have, whether an answer agrees with the gold
            one, or which sub-questions a report answers, and where (CRUX).
        purpose: What labels are for: agreement of judge and people, the share of pairs that
            support, or the values of runs, which takes whole queries.
        limit: How many tasks of this kind, 200 by default; reports, 30; for runs queries, 20.
        against: The collection as another judge judged it: more where they differ.
        answers: With --kind answer or report: the folder that `freshstack answer` wrote; with
            report also the file of `freshstack contexts --out`.
        seed: The seed of the random order.
        format: freshstack has ids alone, in a file that grows; the others have the texts, in a new
            file.
    """
    from freshstack_dspy.calibration.label_files import tasks_as
    from freshstack_dspy.calibration.sampling import draw
    from freshstack_dspy.files import write_file

    options: Any = {"purpose": purpose, "seed": seed, "answers": answers}
    options["against"] = fs.Collection.load(against) if against else None
    if format == "freshstack":
        drawn = fs.sample(collection, out, kind, limit, **options)
        hint = to_type("label them", f"freshstack label {out} --annotator NAME")
        return Outcome(drawn.page(str(out)), [hint])
    check_out(out)
    loaded = fs.Collection.load(collection)
    drawn = draw(loaded, kind, limit, **options)
    write_file(out, tasks_as(format, drawn.tasks, loaded))
    return Outcome(drawn.page(str(out)))


def _label_formats() -> tuple[str, ...]:
    from freshstack_dspy.calibration.label_files import label_formats

    return label_formats()


@command
def import_labels(
    files: list[Path],
    *,
    collection: Path,
    format: Annotated[str, name_in(_label_formats)] = "freshstack",  # noqa: A002
    out: Path | None = None,
    tasks: Path | None = None,
    annotator: str | None = None,
    replace: bool = False,
) -> Written:
    """Read labels of other tools, and check them against the collection.

    Args:
        files: Files of labels, of one format.
        collection: Folder of the collection that was labelled.
        format: The tool that wrote them: freshstack, csv, json, label-studio, argilla,
            autojudge-annotate, nuggetizer, trec-support, or one of an installed package (a wrong
            name lists all).
        out: JSON Lines of labels; without it they are only checked.
        tasks: File of `freshstack sample`, to count what is labelled.
        annotator: Who labelled, where the files do not say.
    """
    from freshstack_dspy.calibration.labels import labelled
    from freshstack_dspy.calibration.sampling import read_tasks
    from freshstack_dspy.files import encode_records, write_file

    check_out(out, replace=replace)
    loaded = fs.Collection.load(collection)
    asked = read_tasks(tasks, loaded)[1] if tasks else ()
    imported = fs.import_labels(files, format, loaded, annotator=annotator, tasks=asked)
    if out is not None:
        write_file(out, encode_records(imported.labels))
    kinds = Counter((label.annotator, label.kind) for label in imported.labels)
    done = labelled(imported.labels, asked) if tasks is not None else {}
    written = wrote(
        [out] if out else [],
        f"{out or loaded.name}: {counted(len(imported.labels), 'label')}",
        *(f"  {name}: {number:,} of kind {kind}" for (name, kind), number in sorted(kinds.items())),
        *(
            f"{number:,} of {counted(len(asked), 'task')} labelled by {name}"
            for name, number in done.items()
        ),
        labels=len(imported.labels),
        kinds=[
            {"annotator": name, "kind": kind, "labels": number}
            for (name, kind), number in sorted(kinds.items())
        ],
        tasks=len(asked),
        labelled=done,
        left_out=imported.left_out,
    )
    lost = [f"left out: {number:,} {what}" for what, number in imported.left_out.items()]
    return written._replace(complaints=lost)


@command
def agree(
    collection: Path,
    labels: list[Path],
    *,
    by: str | None = None,
    disagreements: FromZero = 0,
    answers: Path | None = None,
) -> Page:
    """Compare a collection's judge with people, and people with each other.

    Args:
        labels: JSON Lines of labels, of one or several people.
        by: Also on parts of the pairs: kind (code or prose), length, position in the judge's call,
            duplicate, languages (of question and chunk), annotator, or tag, slice, date and the like, as
            evaluate --by.
        disagreements: How many of the worst disagreements to show, with both reasons.
        answers: Folder of `freshstack answer`, for labels of its answers or reports, or the file of
            `freshstack contexts --out`, for labels of its reports.
    """
    from freshstack_dspy.calibration.agreement import (
        agree_on_answers,
        agree_on_reports,
        nugget_ratings,
    )
    from freshstack_dspy.calibration.labels import all_labels
    from freshstack_dspy.errors import CollectionError
    from freshstack_dspy.views.calibration import pages_together

    loaded = fs.Collection.load(collection)
    given: dict[str, Any] = {}
    for _, label in all_labels(labels):
        given.setdefault(label.kind, []).append(label)
    pages: dict[str, Page] = {
        kind: fs.agree(loaded, given[kind], by=by).page(disagreements)
        for kind in ("support", "answerability")
        if kind in given
    }
    if answers and answers.is_dir() and "answer" in given:
        pages["answer"] = agree_on_answers(answers, given["answer"]).page(disagreements)
    if answers and "report" in given:
        report = agree_on_reports(loaded, answers, given["report"])
        pages["report"] = report.page(disagreements)
    if "nugget" in given:
        lists = given.get("nugget_list", ())
        pages["nugget"] = nugget_ratings(loaded, given["nugget"], lists).page()
    needed = {
        "answer": "the folder of `freshstack answer`",
        "report": "the folder of `freshstack answer`, or the file of `freshstack contexts --out`,",
    }
    left_out = [
        f"{counted(len(given[kind]), 'label')} of kind {kind}: name {where} with --answers"
        for kind, where in needed.items()
        if kind in given and kind not in pages
    ]
    if not pages:
        kinds = ", ".join(f"{len(each)} of kind {kind}" for kind, each in sorted(given.items()))
        what = f"the labels are {kinds}" if kinds else f"no label in {', '.join(map(str, labels))}"
        raise CollectionError(f"nothing to compare: {'; '.join(left_out) or what}")
    for line in left_out:
        complain(f"left out: {line}")
    return pages_together(f"{loaded.name}: agreement with people", pages)


@command
def optimize(
    config: Path,
    labels: Path | None = None,
    *,
    out: Path,
    program: str = "support_judge",
    optimizer: str = "bootstrap",
    prompt_model: Path | None = None,
    metric: str | None = None,
    collection: Path | None = None,
    retriever: str = "hybrid",
    mode: Literal["live", "replay", "rerecord"] = "live",
    log: Path | None = None,
    replace: bool = False,
    plan: bool = False,
) -> Outcome:
    """Tune a program against what people say, or a reranker against a collection.

    Either is tested on queries it never saw.

    Args:
        config: TOML file; its [model], [judge] scale, [nuggets], [reranker], [budget], [cache].
        labels: JSON Lines of people's labels, or of what a metric reads. For the reranker a run
            file of what is reranked, in place of --retriever.
        out: Program file to write.
        program: support_judge, nuggetizer or comparer, tuned on labels of kind support,
            nugget_list or answer, as is MODULE:NAME of a subclass; reranker, tuned on the judgments
            of --collection; or another of the recipe's, or any MODULE:NAME, or recipe, all of it,
            on lines with the query_id of a query of --collection.
        optimizer: DSPy's LabeledFewShot (labeled), BootstrapFewShot (bootstrap),
            BootstrapFewShotWithRandomSearch (bootstrap_random), MIPROv2 (mipro), GEPA (gepa) or
            SIMBA (simba), of which the last three let the model write instructions; or MODULE:NAME
            of one, or of what makes it from metric=.
        prompt_model: TOML file whose [model] writes instructions, in place of CONFIG's.
        metric: By which a program is chosen: kappa (the default), agreement, f1 (of nuggetizer the
            default); for the reranker a measure of runs (alpha_nDCG@10 the default); or MODULE:NAME
            of a function.
        collection: Where the labels' texts are, if not in the labels.
        retriever: For the reranker: whose first results ([reranker] depth) are put into order.
        mode: live: ask for what is not recorded. replay: no network.
        plan: Say what the plain program would ask for and cost; nothing is sent.
    """
    import dspy

    from freshstack_dspy.calibration.examples import read_examples
    from freshstack_dspy.calibration.optimization import TUNED, task_of
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.programs.saved import save_program
    from freshstack_dspy.registry import imported, is_imported

    def own(name: Any, option: str) -> Any:
        """What a name is of, where it is one of an object to import."""
        return imported(name, option, config.parent) if is_imported(name) else name

    check_out(out, replace=replace)
    module = own(program, "--program")
    module = module() if isinstance(module, type) else module
    # One of our programs, or a subclass of it, is tuned on labels.
    subclassed = (each for each in TUNED.values() if isinstance(module, each.program))
    tuned = TUNED.get(program) or next(subclassed, None)
    texts = fs.Collection.load(collection) if collection else None
    run, examples = None, list[Any]()
    if program == "reranker":
        run = _candidates(config, labels, texts, retriever, "replay" if plan else mode)
    elif labels is None:
        raise ConfigError(f"{program} is tuned on labels: freshstack optimize CONFIG LABELS …")
    else:
        examples = [
            *(fs.read_labels(labels, tuned.kind) if tuned else read_examples(labels, texts))
        ]
    dspy.disable_logging()
    role: Any = program if run is not None else tuned.role if tuned else None
    asking = Asking("replay" if plan else mode, log=log)
    # DSPy's optimizers print what they do; what they found is in the report.
    with judging(config, asking, out, [role]) as session, redirect_stdout(io.StringIO()):
        task: dict[str, Any] = {
            "program": _program(session, program) if module is program else module,
            "optimizer": own(optimizer, "--optimizer"),
            "metric": own(metric, "--metric"),
            "collection": texts,
            "scale": session.config.judge.graded,
            "limit": session.config.nuggets.limit,
        }
        if run is not None:
            examples, task["metric"] = _ranking_task(session, texts, run, task)
        if plan:
            return _optimization_plan(config, role, task_of(examples, **task))
        optimized = fs.optimize(
            examples,
            session.lm_of(role),
            **task,
            prompt_model=_prompt_model(session, prompt_model),
            progress=session.progress,
        )
    save_program(optimized.program, out, optimized.report)
    return Outcome(optimized.report.page(program, out))


def _candidates(
    config: Path,
    run: Path | None,
    collection: "fs.Collection | None",
    retriever: str,
    mode: Literal["live", "replay", "rerecord"],
) -> Any:
    """Give what a reranker puts into order: a run that is there, or that of a retriever."""
    from freshstack_dspy.config import base_of, load_judging
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.measures.searches import read_chunk_run
    from freshstack_dspy.recipes.opening import search_models, with_models_for
    from freshstack_dspy.recipes.shortlist import retrieve_with

    settings = load_judging(config)
    if collection is None:
        raise ConfigError("a reranker is tuned on judgments: name their --collection")
    if settings.reranker is None or not settings.reranker.asks_chat:
        raise ConfigError(
            f'{config}: no reranker that asks a chat model; write under [reranker]: method = "listwise"'
            ', "setwise" or "pointwise"'
        )
    if run is not None:
        return read_chunk_run(run)
    if base_of(retriever) != retriever:
        raise ConfigError(f"--retriever {retriever}: name what is reranked, {base_of(retriever)}")
    depth, settings = settings.reranker.depth, with_models_for(settings, [retriever])
    with search_models(settings, mode) as models, ProgressBars() as bars:
        return retrieve_with(settings, collection, retriever, models, depth=depth, progress=bars)


def _ranking_task(session: "Session", collection: Any, run: Any, task: Any) -> tuple[Any, Any]:
    """Give the examples and the metric of a reranker."""
    from freshstack_dspy.calibration.reranking import SHOWN, RankingMetric, ranking_examples

    metric = RankingMetric(collection, task["metric"] or SHOWN[0], against=run.name)
    reranker: Any = session.models.reranker
    fit, depth = reranker.fitted, session.models.rerank_depth
    return ranking_examples(collection, run, task["program"], depth=depth, fit=fit), metric


def _optimization_plan(config: Path, role: Any, task: "Task") -> Outcome:
    """Plan what the plain program asks for; what an optimizer asks for depends on the replies."""
    from freshstack_dspy.calibration.reranking import RankingMetric
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.plan import plan_asking

    settings = load_judging(config)
    settings = settings.model_copy(update={"model": settings.model_of(role), "reranker": None})

    def ask(session: "Session") -> None:
        for part, examples in task.split._asdict().items():
            session.each(part, lambda example: task.program(**example.inputs()), examples)

    hints, count = [], sum(map(len, task.split))
    if isinstance(task.measure, RankingMetric):
        given, best = task.measure.reachable([*chain(*task.split)])
        hints.append(
            Text(
                f"{task.measure.name} is {given:.3f} in the order of {task.measure.against[0]}, and "
                f"{best:.3f} in the best order of the same passages, about the most that a reranker can gain"
            )
        )
    with ProgressBars() as bars:
        plan = plan_asking(settings, ask, name="optimize", queries=count, progress=bars)
    hints.append(
        Text(
            "this is the plain program; each program that the optimizer tries asks as much as dev "
            "again or more, and the one that is chosen as much as test, with longer prompts"
        )
    )
    return Outcome(plan, hints)


def _prompt_model(session: "Session", path: Path | None) -> Any:
    if path is None:
        return None
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.lm.client import Client, RecordedLM

    return RecordedLM(Client(load_judging(path).model, session.lm.client.access))


def _program(session: "Session", name: str) -> Any:
    import dspy

    from freshstack_dspy.answering.comparing import answer_comparer
    from freshstack_dspy.calibration.optimization import TUNED
    from freshstack_dspy.errors import ConfigError

    recipe = session.recipe
    if name == "comparer":
        return answer_comparer(session, "yes_no")
    program = recipe if name == "recipe" else getattr(recipe, name, None)
    if not isinstance(program, dspy.Module):
        programs = {key for key, each in vars(recipe).items() if isinstance(each, dspy.Module)}
        allowed = ", ".join(sorted({*TUNED, *programs, "recipe"}))
        raise ConfigError(f"no program {name!r}; allowed: {allowed}, or MODULE:NAME")
    return program
