"""The questions of a build: some must be left."""

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.recipes.progress import Progress
from freshstack_dspy.sources import QueryReading, read_queries


def read_questions(config: BuildConfig, progress: Progress) -> QueryReading:
    """Read the questions of a configuration.

    Raises:
        SourceError: They cannot be read, or none is left.
    """
    progress.start("questions", 1)
    reading = read_queries(config.queries)
    if not reading.queries:
        left_out = "; ".join(f"{number} {why}" for why, number in reading.rejected.items())
        raise SourceError(
            f"{config.queries.path}: no question is left ({left_out or 'it holds none'}); widen the "
            "filters of [queries], or name another file"
        )
    progress.advance("questions")
    rejected = sum(reading.rejected.values())
    progress.finish("questions", f"{len(reading.queries):,}; {rejected:,} left out")
    return reading
