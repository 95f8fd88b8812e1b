"""`freshstack questions`, `suggest`, `synthesize`, `decontextualize`: over questions or documents alone."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from freshstack_dspy.cli.command import (
    Asking,
    AtLeastOne,
    Written,
    check_out,
    command,
    judging,
    wrote,
)
from freshstack_dspy.pages.page import Page
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.config import QueriesConfig


@command
def suggest(
    source: Path,
    *,
    tag: list[str] | None = None,
    ignore: list[str] | None = None,
    limit: AtLeastOne = 10,
    since: str | None = None,
    at_least: AtLeastOne | None = None,
) -> Page:
    """List the tags, repositories, packages and sites of a topic's questions, for a corpus.

    With --since it lists topics instead: the tags that are new since a date.

    Args:
        source: A Stack Exchange dump, unpacked: Posts.xml or its folder; or a configuration, whose
            [queries] are taken.
        tag: Only questions with any of these tags; may be repeated.
        ignore: A tag not to list, e.g. one that is too general; may be repeated.
        limit: The most listed of each kind: those that add the most questions.
        since: An ISO date: list the tags that hardly any question had before it, as FreshStack
            chooses its topics.
        at_least: With --since: how many questions with an accepted answer they have since then.
            [default: 50]
    """
    from importlib.metadata import packages_distributions

    from rich.console import Console
    from rich.progress import Progress

    from freshstack_dspy.errors import SourceError, file_named
    from freshstack_dspy.questions.reading import read_queries
    from freshstack_dspy.questions.topics import (
        asked_questions,
        corpus_entries,
        link_coverage,
        new_topics,
        tag_coverage,
    )
    from freshstack_dspy.views.searching import new_topics_page, suggest_page

    config = _queries(source)
    if tag:
        config = config.model_copy(update={"tags": tuple(tag)})
    if since is not None:  # also what was asked before it is looked at
        config = config.model_copy(update={"since": None})
    elif at_least is not None:
        raise typer.BadParameter("--at-least goes with --since DATE")
    topic = (*config.tags, *config.all_tags)
    console = Console(stderr=True)
    with (
        file_named(source),
        Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as bar,
    ):
        task = bar.add_task(str(source), total=None)
        questions = asked_questions(
            config, lambda done, of: bar.update(task, completed=done, total=of)
        )
        ignored = (*topic, *(ignore or ()))
        if since is not None:
            least = at_least or 50
            topics = new_topics(questions, since, least, ignored=ignored)
            return new_topics_page(topics, since, least, limit=limit, source=str(source))
        covered = tag_coverage((each.tags for each in questions), ignored=ignored, limit=limit)
    if not covered.questions:
        raise SourceError(f"{source}: no question passes the filters; widen them")
    of_dump = config.source == "stackexchange"
    with file_named(source):
        unlimited = config.model_copy(update={"limit": None})
        queries = read_queries(unlimited, answered=of_dump).queries
    linked = link_coverage(queries, limit=limit)
    entries = corpus_entries(linked, packages_distributions())
    answered = sum(bool(query.answer) for query in queries)
    return suggest_page(covered, linked, entries, topic=topic, answered=answered, of_dump=of_dump)


def _queries(source: Path) -> "QueriesConfig":
    """Take the questions of a configuration, or of a dump; the rest may not be there yet."""
    from freshstack_dspy.config import QueriesConfig, load_judging
    from freshstack_dspy.errors import ConfigError

    if source.suffix in (".jsonl", ".json", ".csv", ".tsv", ".parquet"):
        raise ConfigError(
            f"{source}: give a configuration whose [queries] name this file (freshstack init "
            "writes one)"
        )
    if source.suffix != ".toml":
        return QueriesConfig(source="stackexchange", path=source)
    config = load_judging(source).queries
    if config.source == "synthetic":
        raise ConfigError(
            f"{source}: queries.source is synthetic, and such questions have no tags; name a "
            "dump, or a configuration that reads questions"
        )
    return config


@command
def questions(
    source: Path,
    *,
    sample: AtLeastOne | None = None,
    limit: AtLeastOne = 10,
    answers: Path | None = None,
    replace: bool = False,
) -> Page:
    """Show the questions that a build would read: counted, masked, merged and sampled.

    Nothing is sent.

    Args:
        source: A log of searches or exported traces, or a configuration.
        sample: How many questions of a log to draw, in place of [queries] sample.
        limit: The most questions shown.
        answers: JSON Lines file to write: what the system answered to each, masked, for `freshstack
            answer --answers`. It is never an accepted answer.
    """
    from freshstack_dspy.config import QueriesConfig, load_judging
    from freshstack_dspy.errors import file_named
    from freshstack_dspy.files import write_file
    from freshstack_dspy.progress import Fractions
    from freshstack_dspy.questions.logs import answers_of, read_log
    from freshstack_dspy.questions.reading import read_queries
    from freshstack_dspy.views.queries import log_page, read_page

    is_config = source.suffix == ".toml"
    settings = load_judging(source) if is_config else None
    config = settings.queries if settings else QueriesConfig(source="log", path=source)
    if config.source != "log":
        if sample or answers:
            raise typer.BadParameter(
                '--sample and --answers are for logs: [queries] source = "log"'
            )
        answered = settings is not None and settings.recipe.program != "nuggets"
        return read_page(config.place, read_queries(config, answered=answered), limit)
    if answers is not None:
        check_out(answers, replace=replace)
    config = config.model_copy(update={"sample": sample or config.sample})
    with file_named(source), ProgressBars() as bars:
        fractions = Fractions(bars)
        log = read_log(
            config,
            lambda done, size: fractions("questions", done / max(size, 1)),
            answers=answers is not None,
        )
    if answers is not None:
        write_file(answers, answers_of(log))
    return log_page(config, log, limit)


class Harvesting(NamedTuple):
    """What is made of documents, by which model.

    Args:
        config: TOML file; its [model], [budget] and [cache].
        out: JSON Lines file to write.
        limit: The most for each piece of a document.
    """

    config: Path
    out: Path
    limit: Annotated[int, typer.Option(min=1, max=20)] = 3
    log: Path | None = None
    replace: bool = False


@command
def synthesize(path: Path, *, how: Harvesting) -> Written:
    """Make questions with answers from documents.

    Args:
        path: A file or a folder.
    """
    return _harvest(path, how, "synthesize", "questions")


@command
def decontextualize(path: Path, *, how: Harvesting) -> Written:
    """Break documents into passages that can be read alone.

    Args:
        path: A file or a folder.
    """
    return _harvest(path, how, "decontextualize", "passages")


def _harvest(path: Path, how: Harvesting, name: str, what: str) -> Written:
    from freshstack_dspy.files import encode_records, write_file
    from freshstack_dspy.recipes import pieces

    check_out(how.out, replace=how.replace)
    with judging(how.config, Asking(log=how.log), how.out, ["synthesis"]) as session:
        harvest = getattr(pieces, name)(session, path, limit=how.limit)
    write_file(how.out, encode_records(harvest.records))
    number, failures, skipped = len(harvest.records), harvest.failures, harvest.skipped
    complaints = [
        f"failed: {each.path} {each.start_byte}–{each.end_byte}: {each.status}: {each.message}"
        for each in failures
    ]
    if skipped:
        first = skipped[0]
        complaints.append(f"{len(skipped)} files skipped, such as {first.path}: {first.reason}")
    about: dict[str, Any] = {what: number, "failures": failures, "skipped": skipped}
    written = wrote(how.out, f"{how.out}: {number} {what}", **about)
    return written._replace(complaints=complaints, code=int(bool(failures)))
