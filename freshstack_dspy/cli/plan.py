"""`freshstack plan`."""

from pathlib import Path
from typing import Annotated

import typer


def plan(
    config: Annotated[Path, typer.Argument(help="TOML file; `freshstack init` writes an example.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Say what a build would ask for and cost; nothing is sent."""
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.cli.plan_tables import plan_table
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes.planning.plan import plan as plan_build

    with Bars() as bars:
        found = plan_build(load_config(config), progress=bars)
    if as_json:
        print(found.model_dump_json(indent=2))
    else:
        plan_table(found)
