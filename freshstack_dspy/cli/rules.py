"""Options of commands that evaluate: which measures, by whose rules, on which queries."""

from typing import Annotated, Literal

import typer

OURS = "freshstack_dspy"
CONTAMINATED = 0.5

MeasureOption = Annotated[
    list[str] | None,
    typer.Option("--measure", "-m", help="As alpha_nDCG@10, Coverage@20, AP; may be repeated."),
]
ContaminatedOption = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="The share of its nuggets known from which on a query is one of them.",
    ),
]
ConventionsOption = Annotated[
    str,
    typer.Option(
        help="Whose rules for ties and for what is missing: freshstack_dspy, freshstack, "
        "pyndeval, ndeval, 'ndeval -c', trec_eval, 'trec_eval -c'."
    ),
]
UndefinedOption = Annotated[
    Literal["zero", "skip"] | None,
    typer.Option(
        help="What a query counts where a measure has no value, as Recall where no chunk is "
        "relevant: 0, or it is left out of that mean; by default as the conventions have it."
    ),
]
