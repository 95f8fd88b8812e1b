"""A short cut for a build in which nothing changed: no input is read, and DSPy is not imported."""

import hashlib
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from freshstack_dspy.config import SOURCES, BuildConfig
from freshstack_dspy.errors import FreshstackError
from freshstack_dspy.lm.request import endpoint_identity, sha256_of
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.questions.reading import query_files
from freshstack_dspy.recipes.corpus import code_sha256, look
from freshstack_dspy.recipes.opening import SessionOptions
from freshstack_dspy.recipes.provenance import LABELLING
from freshstack_dspy.registry import is_imported
from freshstack_dspy.stored.manifest import MANIFEST_FILE
from freshstack_dspy.stored.writing import is_as_written


class Stamp:
    """What a build depended on, kept on this machine beside the index.

    Files count by size, times and inode. If stamp and collection are as the last build left them, a
    build would write the same again. Without a stamp it makes everything, and compares. A build
    during which a reply was recorded, by itself or by others, leaves none.
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
        self._replies = self._recorded()

    def matches(self) -> bool:
        """Whether nothing changed since the last build, in its folder neither."""
        try:
            return self._path.read_text() == self._now() and is_as_written(self._config.out)
        except (OSError, UnicodeDecodeError, FreshstackError):  # it is missing, or damaged
            return False

    def keep(self) -> None:
        """Keep it after the build, if it can be written."""
        if (now := self._now()) is not None and self._recorded() == self._replies:
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text(now)

    def _now(self) -> str | None:
        manifest, replies = _files([self._config.out / MANIFEST_FILE]), self._recorded()
        if self._inputs is None or replies is None:
            return None
        return sha256_of([self._inputs, manifest, replies])

    def _recorded(self) -> list[Any] | None:
        """What changes with the replies; None if the store cannot be read."""
        store, entries = self._config.cache.path / "cache.db", None
        try:
            if store.exists():
                address = f"{store.resolve().as_uri()}?mode=ro"
                with closing(sqlite3.connect(address, uri=True)) as replies:
                    # The times of entries: the file's own changes whenever a store is opened.
                    counts = "SELECT COUNT(*), TOTAL(store_time) FROM Cache"
                    entries = replies.execute(counts).fetchone()
        except sqlite3.Error:
            return None
        return [entries, _files(self._config.cache.bundles)]


def _is_own(config: BuildConfig, options: SessionOptions) -> bool:
    """Whether code, models in memory or vectors take part, whose changes no file tells."""
    given = any(options.get(name) for name in ("recipe", "programs", "models"))
    settings = getattr(sys.modules.get("dspy"), "settings", None)
    given = given or any(getattr(settings, name, None) for name in ("lm", "adapter"))
    own = config.programs.named or is_imported(config.recipe.program) or config.recipe.state
    searched = any(not isinstance(one, Path) for one in config.pool.own.values())
    others = config.embedder or config.reranker or config.queries.source not in SOURCES
    return bool(given or own or searched or others)


def _inputs(config: BuildConfig) -> str | None:
    """Hash all that a build depends on but replies; None if the build must say what is wrong."""
    labels = [*config.trust.labels, config.nuggets.edited, *config.pool.own.values()]
    try:
        read, skipped, licences = look(config, NoProgress())
        return sha256_of(
            {
                "code": code_sha256(("",)),
                "config": config.resolved().model_dump(mode="json"),
                "endpoints": [
                    endpoint_identity(model.name, model.api_base)
                    for model in map(config.model_of, (None, *LABELLING))
                ],
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
    """Name, size, times and inode of files; nothing but the name of those that are missing."""
    states = [(path, path.stat() if path.exists() else None) for path in sorted(paths)]
    return [
        [
            str(path),
            state and [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino],
        ]
        for path, state in states
    ]
