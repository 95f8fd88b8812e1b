"""Repositories that lie elsewhere are brought here first; whatever follows reads what is here."""

from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.corpus.git import fetch
from freshstack_dspy.recipes.session import Progress


def with_repositories(config: BuildConfig, mode: Mode, progress: Progress) -> BuildConfig:
    """Fetch the repository of each corpus that has a URL, and pin its revision to a commit.

    In `replay` nothing is fetched: a branch is then what it was when it was last looked up.

    Raises:
        SourceError: A repository or revision cannot be had.
    """
    elsewhere = [corpus for corpus in config.corpus if corpus.url is not None]
    if not elsewhere:
        return config
    notes: list[str] = []
    progress.start("repositories", len(elsewhere))
    found = []
    for corpus in config.corpus:
        found.append(
            fetch(corpus, config.cache.clones, offline=mode == "replay", progress=notes.append)
        )
        if corpus.url is not None:
            progress.advance("repositories")
    standing_in = [note for note in notes if " as last fetched" in note]
    progress.finish("repositories", "; ".join(standing_in) or f"{len(elsewhere)} at their commits")
    return config.model_copy(update={"corpus": tuple(found)})
