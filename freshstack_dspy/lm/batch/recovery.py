"""Finding a batch whose creation was asked for, and whose id never arrived."""

import itertools
import json
from collections.abc import Iterator
from datetime import timedelta

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.batch.api import Batch, BatchAPI
from freshstack_dspy.lm.batch.jobs import Job

_CLOCKS_DIFFER = timedelta(minutes=10)
_MOST_LISTED = 100_000
"""Batches that are looked through; a list may have no end."""


def find_lost(api: BatchAPI, job: Job, claimed: frozenset[str]) -> Batch | None:
    """Find the batch of a job in the provider's list, or None where it was never made.

    Where the provider keeps no name of ours with the batch, one of the right age and size is
    taken: its custom ids are our keys and tell, as soon as it has ended, whether it is the one.

    Args:
        api: The provider's.
        job: At step `creating`.
        claimed: Ids of the batches that other jobs have.

    Raises:
        StoreError: Several could be the one.
    """
    asked_at = job.asked_at or job.begun_at
    similar = []
    for batch in itertools.islice(api.created_since(asked_at - _CLOCKS_DIFFER), _MOST_LISTED):
        if batch.submission == job.submission:
            return batch
        if job.file_id is not None:
            if batch.file_id == job.file_id:
                return batch
        elif batch.batch_id not in claimed and batch.total == len(job.keys):
            similar.append(batch)
    return _the_one(api, job, similar)


def _the_one(api: BatchAPI, job: Job, similar: list[Batch]) -> Batch | None:
    open_ones = []
    for batch in similar:
        if not batch.ended:
            open_ones.append(batch)
        elif set(custom_ids(api.results(batch))) == set(job.keys):
            return batch
    if len(open_ones) > 1:
        listed = ", ".join(batch.batch_id for batch in open_ones)
        raise StoreError(
            f"submission {job.submission} was cut off, and any of the batches {listed} could be "
            "its own; wait until they have ended and run freshstack requests status CONFIG, or "
            "submit its requests anew with: freshstack requests submit CONFIG --forget "
            f"{job.submission}"
        )
    return open_ones[0] if open_ones else None


def custom_ids(lines: Iterator[str]) -> Iterator[str]:
    """The custom ids in lines of results."""
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("custom_id"), str):
            yield value["custom_id"]
