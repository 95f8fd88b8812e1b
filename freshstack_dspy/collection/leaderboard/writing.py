"""Writing the results of a leaderboard beside its description."""

import secrets
from pathlib import Path

from freshstack_dspy.collection.leaderboard.results import RESULTS_FILE, Results, encode_results
from freshstack_dspy.errors import CollectionError


def write_results(folder: Path, results: Results) -> Path:
    """Write the results; the file appears as a whole, and a link in its place is replaced.

    Returns:
        The file.

    Raises:
        CollectionError: It cannot be written.
    """
    path = folder / RESULTS_FILE
    partial = folder / f".{RESULTS_FILE}.{secrets.token_hex(4)}.partial"
    try:
        partial.write_text(encode_results(results), encoding="utf-8", newline="\n")
        partial.replace(path)
    except OSError as error:
        raise CollectionError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return path
