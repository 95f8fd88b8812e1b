"""`freshstack optimize`: a program tuned on people's labels."""

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from freshstack_dspy.cli.command import command
from freshstack_dspy.cli.options import (
    LogOption,
    ReplaceOption,
    check_out,
    judging,
)
from freshstack_dspy.pages.page import Page

if TYPE_CHECKING:
    from freshstack_dspy.config import Role
    from freshstack_dspy.recipes.session import Session

_KINDS = {"support_judge": "support", "nuggetizer": "nugget_list", "comparer": "answer"}
_ROLES: dict[str, "Role"] = {"support_judge": "judge", "nuggetizer": "nuggets", "comparer": "judge"}


@command
def optimize(
    config: Annotated[
        Path,
        typer.Argument(help="TOML file; its [model], [judge] scale, [nuggets], [budget], [cache]."),
    ],
    labels: Annotated[
        Path, typer.Argument(help="JSON Lines of people's labels, or of what a metric reads.")
    ],
    out: Annotated[Path, typer.Option(help="Program file to write.")],
    program: Annotated[
        str,
        typer.Option(
            help="support_judge, nuggetizer or comparer, tuned on labels of kind support, "
            "nugget_list or answer, as is MODULE:NAME of a subclass; or another of the recipe's, "
            "or any MODULE:NAME, or recipe, all of it, on lines with the query_id of a query of "
            "--collection."
        ),
    ] = "support_judge",
    optimizer: Annotated[
        str,
        typer.Option(
            help="DSPy's LabeledFewShot (labeled), BootstrapFewShot (bootstrap), "
            "BootstrapFewShotWithRandomSearch (bootstrap_random), MIPROv2 (mipro), GEPA (gepa) or "
            "SIMBA (simba), of which the last three let the model write instructions; or "
            "MODULE:NAME of one, or of what makes it from metric=."
        ),
    ] = "bootstrap",
    prompt_model: Annotated[
        Path | None,
        typer.Option(help="TOML file whose [model] writes instructions, in place of CONFIG's."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="By which a program is chosen: kappa (the default), agreement, f1 (of nuggetizer "
            "the default), balanced_accuracy or expected_cost; or MODULE:NAME of a function."
        ),
    ] = None,
    miss_cost: Annotated[
        float, typer.Option(min=0, help="Of expected_cost: a miss, where a false one costs 1.")
    ] = 1.0,
    collection: Annotated[
        Path | None, typer.Option(help="Where the labels' texts are, if not in the labels.")
    ] = None,
    mode: Annotated[
        Literal["live", "replay", "rerecord"],
        typer.Option(help="live: ask for what is not recorded. replay: no network."),
    ] = "live",
    log: LogOption = None,
    replace: ReplaceOption = False,
) -> Page:
    """Tune a program against what people say, tested on queries it never saw."""
    import dspy

    from freshstack_dspy.calibration.examples import read_examples
    from freshstack_dspy.calibration.labels import read_labels
    from freshstack_dspy.calibration.optimization import optimize as compile_program
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.programs.saved import save_program

    check_out(out, replace=replace)
    module = _own(program, "--program", config.parent)
    module = module() if isinstance(module, type) else module
    kind = _KINDS.get(program) or _kind_of(module)
    texts = Collection.load(collection) if collection else None
    given = read_labels(labels, kind) if kind else ()
    dspy.disable_logging()
    # DSPy's optimizers print what they do; what they found is in the report.
    with judging(config, mode, log=log, out=out) as session, redirect_stdout(io.StringIO()):
        optimized = compile_program(
            given or read_examples(labels, texts),
            session.lm_of(_ROLES.get(program)),
            program=_program(session, program) if module is program else module,
            optimizer=_own(optimizer, "--optimizer", config.parent),
            metric=_own(metric, "--metric", config.parent),
            miss_cost=miss_cost,
            collection=texts,
            scale=session.config.judge.graded,
            limit=session.config.nuggets.limit,
            prompt_model=_prompt_model(session, prompt_model),
            progress=session.progress,
        )
    save_program(optimized.program, out, optimized.report)
    return optimized.report.page(program, out)


def _own(name: Any, option: str, folder: Path) -> Any:
    """What a name is of, where it is one of an object to import."""
    from freshstack_dspy.registry import imported, is_imported

    return imported(name, option, folder) if is_imported(name) else name


def _kind_of(module: Any) -> str | None:
    """The kind of the labels that one of our programs, or a subclass, is tuned on."""
    from freshstack_dspy.programs.answers import AnswerComparer
    from freshstack_dspy.programs.nuggetizer import Nuggetizer
    from freshstack_dspy.programs.support_judge import SupportJudge

    kinds = {SupportJudge: "support", Nuggetizer: "nugget_list", AnswerComparer: "answer"}
    return next((kind for of, kind in kinds.items() if isinstance(module, of)), None)


def _prompt_model(session: "Session", path: Path | None) -> Any:
    if path is None:
        return None
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.lm.client import Client, RecordedLM

    return RecordedLM(Client(load_judging(path).model, session.lm.client.access))


def _program(session: "Session", name: str) -> Any:
    import dspy

    from freshstack_dspy.answering.comparing import answer_comparer
    from freshstack_dspy.errors import ConfigError

    recipe = session.recipe
    if name == "comparer":
        return answer_comparer(session, "yes_no")
    found = recipe if name == "recipe" else getattr(recipe, name, None)
    if not isinstance(found, dspy.Module):
        there = {key for key, one in vars(recipe).items() if isinstance(one, dspy.Module)}
        allowed = ", ".join(sorted({*_KINDS, *there, "recipe"}))
        raise ConfigError(f"no program {name!r}; allowed: {allowed}, or MODULE:NAME")
    return found
