"""Files that a command writes: never over one that it reads."""

from pathlib import Path

from freshstack_dspy.errors import ConfigError


def refuse_inputs(out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write over an input, or over a file in a folder that is one.

    Raises:
        ConfigError: The output is an input.
    """
    if out is None or not out.exists():
        return
    for given in inputs:
        if given is not None and out.resolve().is_relative_to(given.resolve()):
            raise ConfigError(f"{out} is read by this command, and would be lost; write elsewhere")
