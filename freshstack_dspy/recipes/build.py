"""Build a judged collection, or find that the one at `out` is what a build would make.

A build is a pure function of its configuration, its inputs and the replies. It keeps no state of
its own: kill it at any moment and run it again, and only what was in flight is asked again.
"""

from pathlib import Path
from typing import Unpack

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.files import only_writer
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.progress import Progress, one_part, report
from freshstack_dspy.recipes.make import Made, run
from freshstack_dspy.recipes.opening import SessionOptions, check_options, configured
from freshstack_dspy.recipes.prepare import check_replaced
from freshstack_dspy.recipes.provenance import fingerprint_inputs, unchanged
from freshstack_dspy.recipes.session import Replies

UNCHANGED = "unchanged"
"""The one step of a build that finds the collection as it would make it."""


def build(
    config: BuildConfig | Path | str,
    *,
    replace: bool = False,
    **options: Unpack[SessionOptions],
) -> Collection:
    """Build the collection that a configuration describes, and write it to its folder.

    Args:
        config: A configuration, or the path of its TOML file.
        replace: Whether a collection at `out` that was built with other settings is replaced.
        options: Mode, progress, provider and the like; see `SessionOptions`.

    Returns:
        The collection, as it is on disk.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded, and a larger one goes on.
        DeferredError: In mode `defer`, requests were written down; answer and import them.
        FreshstackError: Anything else that stops a build, in one line.
    """
    check_options(options)
    config = configured(config, options)
    mode, programs = options.get("mode", "live"), options.get("programs")
    inputs: dict[str, str] = {}

    def existing(config: BuildConfig, replies: Replies, progress: Progress) -> Collection | None:
        if not replace:
            check_replaced(config, options.get("recipe"), programs)
        with span("inputs"), one_part(progress, "inputs"):
            inputs.update(fingerprint_inputs(config, options.get("recipe"), programs))
            same = unchanged(config, mode, inputs, replies)
        if same is not None:
            report(progress, UNCHANGED, "same inputs, same replies: nothing to build")
        return same

    def finish(made: Made) -> Collection:
        with span("collection"), one_part(made.session.progress, "collection"):
            return made.write(made.described(inputs))

    with span("build", collection=config.name), only_writer(config.out, "freshstack build"):
        return run(config, finish, existing=existing, **options)
