"""A build that names models, and what it opens them with."""

from typing import Any

from freshstack_dspy.config import BuildConfig


def build_config(**sections: Any) -> BuildConfig:
    """The least of a build's configuration, and these sections."""
    return BuildConfig.model_validate(
        {
            "name": "domain",
            "out": "collection",
            "queries": {"path": "queries.jsonl"},
            "corpus": [{"name": "docs", "path": "docs"}],
            **sections,
        }
    )
