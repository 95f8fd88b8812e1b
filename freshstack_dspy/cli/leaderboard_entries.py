"""Evaluated runs as entries of the official FreshStack leaderboard."""

import json
from collections.abc import Sequence

from freshstack_dspy.cli.evaluated import Report
from freshstack_dspy.errors import ConfigError

_NEEDED = {
    "type": "--info type=open_source (or proprietary, upper_baseline)",
    "date": "--info date=2026-01-31 (of the model)",
}
"""What must be told of a system, and how."""
_TYPE = "--info type=open_source --info date=2026-01-31"


def report_entries(report: Report, info: Sequence[str]) -> str:
    """Write the data of a leaderboard of one topic, the collection: one entry for each run.

    Args:
        report: What was found.
        info: What is told of the systems, as `type=open_source`; `name` is else the run's.

    Raises:
        ConfigError: Something that is told is not as the leaderboard has it or is missing, or a
            measure of it was not computed.
    """
    from pydantic import ValidationError

    from freshstack_dspy.collection.leaderboard import AVERAGE, EntryInfo, leaderboard_entry
    from freshstack_dspy.faults import in_one_line

    told = _told(info)
    if missing := [name for name in _NEEDED if name not in told]:
        raise ConfigError(
            f"--format freshstack-entry lacks the {' and the '.join(missing)} of the systems; type "
            f"as {' '.join(map(_NEEDED.__getitem__, missing))}"
        )
    topic = report.judgments.name
    if topic == AVERAGE:
        raise ConfigError(
            f"the leaderboard keeps {AVERAGE!r} for itself; no collection is called so"
        )
    entries = []
    for run in report.runs:
        try:
            system = EntryInfo.model_validate({"name": run.evaluation.run, **told})
        except ValidationError as error:
            raise ConfigError(
                f"an entry of the FreshStack leaderboard: {in_one_line(error, EntryInfo)}; type as {_TYPE}"
            ) from None
        entries.append(leaderboard_entry(system, {topic: run.evaluation.means}))
    return json.dumps({"leaderboardData": entries}, indent=4) + "\n"


def _told(info: Sequence[str]) -> dict[str, str]:
    told: dict[str, str] = {}
    for each in info:
        name, divided, value = each.partition("=")
        if not divided or name in told:
            raise ConfigError(f"--info {each!r}: a name and its value, each name once, as {_TYPE}")
        told[name] = value
    return told
