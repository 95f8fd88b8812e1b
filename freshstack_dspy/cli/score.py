"""`freshstack score`: answers, their citations, their retriever, and nuggets, from what was said."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from freshstack_dspy.measures.answers import FoundAndAgrees

app = typer.Typer(
    help="Score answers, citations, retrievers and nuggets from what judges said of them.",
    no_args_is_help=True,
)

EmptyName = Literal["skip", "zero"]
EmptyOption = Annotated[
    EmptyName | None,
    typer.Option(
        help="What an answer counts in a measure that it has nothing for. skip (the default): it "
        "is left out, and named. zero: 0."
    ),
]
AbsentOption = Annotated[
    Literal["skip", "zero"],
    typer.Option(
        help="What a query counts that other runs answer and this one does not, or for which it "
        "retrieved nothing. skip: it is left out, and named. zero: 0."
    ),
]
ByOption = Annotated[
    Literal["run", "query", "answer"],
    typer.Option(help="A row for each run, for each query over all runs, or for each answer."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Everything as JSON, with the values of each answer.")
]
CsvOption = Annotated[bool, typer.Option("--csv", help="The rows as CSV.")]


@app.command("assignments")
def assignments(
    files: Annotated[
        list[Path],
        typer.Argument(help="Assignments of nuggets to answers, as nuggetizer writes them."),
    ],
    missing: Annotated[
        Literal["leave_out", "zero", "no_value"] | None,
        typer.Option(
            help="What a nugget counts whose assignment failed or is not there. leave_out (the "
            "default): it does not count. zero: not supported. no_value: the answer has no value."
        ),
    ] = None,
    empty: EmptyOption = None,
    absent: AbsentOption = "skip",
    compat: Annotated[
        Literal["nuggetizer"] | None,
        typer.Option(
            help="nuggetizer: its figures, as --missing zero --empty zero, of each answer's own "
            "nuggets, those that were not rated as vital ones."
        ),
    ] = None,
    by: ByOption = "run",
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Nugget recall: how much of what a good answer must hold, each answer holds."""
    from freshstack_dspy.cli.score_tables import View, print_scores
    from freshstack_dspy.collection.answers import read_assignments
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.measures.answers import score_assignments

    if compat is not None and (missing or empty):
        raise ConfigError("--compat nuggetizer says --missing and --empty; leave these out")
    otherwise: EmptyName = "zero" if compat else "skip"
    scores = score_assignments(
        read_assignments(files, rated_only=compat is None),
        missing=missing or ("zero" if compat else "leave_out"),
        empty=empty or otherwise,
        absent=absent,
        counted="answer" if compat else "query",
    )
    shown = ("nuggets", "failed", "missing")
    print_scores(scores, View(scores.measures, shown, by=by, as_json=as_json, as_csv=as_csv))


@app.command("citations")
def citations(
    files: Annotated[
        list[Path], typer.Argument(help="Labels of citations, as the TREC RAG track has them.")
    ],
    counted: Annotated[
        Literal["first", "all"],
        typer.Option(
            "--citations",
            help="Of each sentence the first citation, as TREC judged, or the mean of all that "
            "have a label.",
        ),
    ] = "first",
    outside: Annotated[
        Literal["no_support", "leave_out", "uncited"],
        typer.Option(
            help="What a citation counts that is not of the answer's references. no_support: it "
            "supports nothing. leave_out: as one without a label. uncited: as if not there."
        ),
    ] = "no_support",
    empty: EmptyOption = None,
    absent: AbsentOption = "skip",
    by: ByOption = "run",
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Citation support: whether the passages that answers cite say what they say."""
    from freshstack_dspy.cli.score_tables import View, print_scores
    from freshstack_dspy.collection.answers import read_citations
    from freshstack_dspy.measures.answers import CITATION_MEASURES, score_citations

    scores = score_citations(
        read_citations(files), outside=outside, empty=empty or "skip", absent=absent
    )
    chosen = [name for name, each in CITATION_MEASURES.items() if each.citations == counted]
    shown = ("uncited", "unlabelled", "outside")
    print_scores(scores, View(chosen, shown, by=by, as_json=as_json, as_csv=as_csv))


@app.command("agreement")
def agreement(
    files: Annotated[
        list[Path],
        typer.Argument(help="Verdicts: run_id, query_id, agrees (true, false, null), reason."),
    ],
    undecided: Annotated[
        Literal["leave_out", "disagrees"],
        typer.Option(
            help="What an answer counts that has no verdict. leave_out: it does not count. "
            "disagrees: it does not agree."
        ),
    ] = "leave_out",
    absent: AbsentOption = "skip",
    collection: Annotated[
        Path | None, typer.Option(help="Folder of the collection, to compare with --ranking.")
    ] = None,
    ranking: Annotated[
        list[Path] | None,
        typer.Option(help="TREC run file that the answers came from; may be repeated."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="Measure of the ranking, as Recall@50; may be repeated."),
    ] = None,
    found_from: Annotated[
        float | None,
        typer.Option(
            help="The value from which on the measure is above its threshold; by default any above 0."
        ),
    ] = None,
    by: ByOption = "run",
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """LLM-retEval: how often answers from what was retrieved agree with those from gold chunks."""
    from freshstack_dspy.cli.score_relations import compare_rankings, relation_table
    from freshstack_dspy.cli.score_tables import View, print_scores
    from freshstack_dspy.collection.answers import read_agreement
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.measures.answers import AGREEMENT, score_agreement

    if (collection is None) != (not ranking):
        raise ConfigError("--collection and --ranking go together: give both, or neither")
    if collection is None and (measure or found_from is not None):
        raise ConfigError("--measure and --found-from are of a ranking; give --ranking RUN too")
    if as_csv and collection is not None:
        raise ConfigError("--csv has no place for the comparison with a ranking; use --json")
    answers = read_agreement(files)
    scores = score_agreement(answers, undecided=undecided, absent=absent)
    relations: dict[str, list[FoundAndAgrees]] = {}
    if collection is not None:
        relations = compare_rankings(scores, collection, ranking or [], measure or [], found_from)
    shown = ("agree", "disagree", "undecided")
    view = View([AGREEMENT], shown, by=by, as_json=as_json, as_csv=as_csv, counts_are_all=True)
    print_scores(scores, view, {"relations": relations} if relations else None)
    if relations and not as_json:
        relation_table(relations)


@app.command("nuggets")
def nuggets(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Verdicts of people on nuggets: annotator, query_id, nuggets, additional."
        ),
    ],
    by: ByOption = "run",
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Nugget quality: precision, recall and groundedness, as people see them (FreshStack)."""
    from freshstack_dspy.cli.score_tables import View, pooled_lines, print_scores
    from freshstack_dspy.collection.answers import read_nugget_verdicts
    from freshstack_dspy.measures.answers import pooled_nugget_quality, score_nuggets

    read = read_nugget_verdicts(files)
    scores = score_nuggets(read)
    shown = ("nuggets", "hallucinated", "redundant", "additional", "unanswered")
    pooled = {
        run.run: pooled_nugget_quality([one for one in read if one.annotator == run.run])
        for run in scores.runs
    }
    view = View(
        scores.measures,
        shown,
        by=by,
        as_json=as_json,
        as_csv=as_csv,
        run="annotator",
        answers="queries",
    )
    print_scores(scores, view, {"pooled": pooled})
    if not as_json and not as_csv:
        pooled_lines(pooled)
