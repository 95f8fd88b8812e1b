"""A short cut for a build in which nothing changed: no input is read, and DSPy is not imported."""

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from freshstack_dspy.config import SOURCES, BuildConfig
from freshstack_dspy.errors import FreshstackError
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.questions.reading import query_files
from freshstack_dspy.recipes.corpus import code_sha256, look
from freshstack_dspy.recipes.opening import SessionOptions
from freshstack_dspy.registry import is_imported
from freshstack_dspy.stored.manifest import MANIFEST_FILE
from freshstack_dspy.stored.writing import is_as_written


class Stamp:
    """What a build depended on, kept on this machine beside the index.

    Files count by their size and time, as for make; any other change of them is a change. If stamp
    and collection are as the last build left them, a build would write the same again. Whoever
    loses the stamp only waits longer.
    """

    def __init__(self, config: BuildConfig, options: SessionOptions) -> None:
        """Look at the inputs, before a build reads them.

        Args:
            config: The configuration, with repositories at their commits.
            options: Those of the session.
        """
        name = hashlib.sha256(str(config.out.resolve()).encode()).hexdigest()
        self._path = config.chunks_folder / ".built" / name
        self._config = config
        self._inputs = None if _is_own(config, options) else _inputs(config)

    def matches(self) -> bool:
        """Whether nothing changed since the last build, in its folder neither."""
        try:
            return self._path.read_text() == self._now() and is_as_written(self._config.out)
        except (OSError, UnicodeDecodeError, FreshstackError):  # it is missing, or damaged
            return False

    def keep(self) -> None:
        """Keep it, after the build."""
        if (now := self._now()) is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(now)

    def _now(self) -> str | None:
        cache, manifest = self._config.cache, self._config.out / MANIFEST_FILE
        replies = [*cache.path.glob("cache.db*"), *cache.bundles]
        return self._inputs and sha256_of([self._inputs, _files([manifest, *replies])])


def _is_own(config: BuildConfig, options: SessionOptions) -> bool:
    """Whether code, models in memory or vectors take part, whose changes no file tells."""
    given = any(options.get(name) for name in ("recipe", "programs", "models"))
    settings = getattr(sys.modules.get("dspy"), "settings", None)
    given = given or any(getattr(settings, name, None) for name in ("lm", "adapter"))
    own = config.programs.named or is_imported(config.recipe.program) or config.recipe.state
    others = config.embedder or config.reranker or config.queries.source not in SOURCES
    return bool(given or own or others)


def _inputs(config: BuildConfig) -> str | None:
    """Hash all that a build depends on but replies; None if the build must say what is wrong."""
    labels = [*config.trust.labels, config.nuggets.edited]
    try:
        read, skipped, licences = look(config, NoProgress())
        return sha256_of(
            {
                "code": code_sha256(("",)),
                "config": config.resolved().model_dump(mode="json"),
                "files": _files([*query_files(config.queries), *filter(None, labels)]),
                "corpus": [
                    *([*file] for file in read),
                    *(file.model_dump() for file in (*skipped, *licences)),
                ],
            }
        )
    except (OSError, FreshstackError):
        return None


def _files(paths: Iterable[Path]) -> list[Any]:
    """Name, size and time of files; nothing but the name of those that are missing."""
    states = [(path, path.stat() if path.exists() else None) for path in sorted(paths)]
    return [[str(path), state and [state.st_size, state.st_mtime_ns]] for path, state in states]
