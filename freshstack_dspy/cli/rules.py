"""Options of commands that evaluate: whose rules for ties and for what is missing."""

from typing import Annotated, Literal

import typer

OURS = "freshstack_dspy"

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
