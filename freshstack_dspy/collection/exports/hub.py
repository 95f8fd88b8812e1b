"""Pushing a collection to the Hugging Face hub, as a data set."""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.exports.export import export_collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.records import SliceName

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

_ENDPOINT = "https://huggingface.co"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_REPOSITORY = re.compile(f"{_NAME}/{_NAME}")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def push_collection(
    collection: Collection,
    repo_id: str,
    *,
    private: bool = False,
    update: bool = False,
    slices: Sequence[SliceName] | None = None,
) -> str:
    """Export a collection as a data set and upload it, as one commit.

    The hub is that of `HF_ENDPOINT`, the token that of `HF_TOKEN`; it is neither kept nor shown.

    Args:
        collection: What is pushed.
        repo_id: `owner/name` of the data set.
        private: Whether only its owner may see it; of a data set that exists, nothing changes.
        update: Allow for a data set that exists; its Parquet files that are not of this collection
            are deleted from it.
        slices: Which queries, as for `export_collection`.

    Returns:
        The address of the data set.

    Raises:
        ConfigError: The name is none, there is no token, or the endpoint would get it in plain text.
        CollectionError: There is nothing to export, the data set exists, or the hub refuses.
    """
    if len(repo_id) > 96 or not _REPOSITORY.fullmatch(repo_id) or ".." in repo_id:
        raise ConfigError(
            f"{repo_id!r} is no name of a data set; type owner/name, of letters, digits, '-', '_' "
            "and '.'"
        )
    endpoint, token = _endpoint(), _token()
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise ConfigError(
            "pushing needs huggingface_hub; type: pip install 'freshstack_dspy[hub]'"
        ) from None
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "dataset"
        export_collection(collection, "hf", folder, slices=slices)
        message = f"{collection.name}, content hash {collection.manifest.content_hash}"
        _upload(HfApi(endpoint=endpoint, token=token), repo_id, folder, message, private, update)
    return f"{endpoint}/datasets/{repo_id}"


def _upload(
    api: "HfApi", repo_id: str, folder: Path, message: str, private: bool, update: bool
) -> None:
    import httpx
    from huggingface_hub.errors import HfHubHTTPError

    try:
        api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=update)
        api.upload_folder(
            repo_id=repo_id,
            repo_type="dataset",
            folder_path=folder,
            commit_message=message,
            delete_patterns="*.parquet" if update else None,
        )
    except HfHubHTTPError as error:
        raise CollectionError(_refusal(error, repo_id, api)) from None
    except (httpx.HTTPError, OSError, ValueError, RuntimeError) as error:
        told = _one_line(error, api)
        raise CollectionError(f"{repo_id} could not be pushed to {api.endpoint}: {told}") from None


def _refusal(error: "HfHubHTTPError", repo_id: str, api: "HfApi") -> str:
    reasons = {
        401: "the token of HF_TOKEN is not known there; set another",
        403: "the token of HF_TOKEN may not write there; set one that may",
        404: "there is no such owner or data set",
        409: "the data set exists; name another, or add --update to replace what is in it",
    }
    status = error.response.status_code
    reason = reasons.get(status) or f"the hub answers {status}: {_one_line(error, api)}"
    return f"{repo_id} could not be pushed to {api.endpoint}: {reason}"


def _one_line(error: BaseException, api: "HfApi") -> str:
    """Say what happened, and what that came from, without the token."""
    text = f"{type(error).__name__}: {error}"
    if error.__cause__:
        text += f" ({type(error.__cause__).__name__}: {error.__cause__})"
    return " ".join(text.replace(str(api.token), "…").split())


def _token() -> str:
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        raise ConfigError("pushing needs a token that may write; set HF_TOKEN")
    return token


def _endpoint() -> str:
    endpoint = (os.environ.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")
    # Not shown: what stands before an @, or in a query, may be a password.
    if set(endpoint) & set("@?#"):
        raise ConfigError(
            "HF_ENDPOINT holds a user, a query or a fragment; allowed: a plain address, as "
            f"{_ENDPOINT}, and the token in HF_TOKEN"
        )
    no_address = ConfigError(
        f"HF_ENDPOINT is {endpoint!r}, which is no address; allowed: one as {_ENDPOINT}"
    )
    try:
        parts = urlsplit(endpoint)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise no_address from None
    if not valid:
        raise no_address
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return endpoint
    raise ConfigError(
        f"HF_ENDPOINT is {endpoint!r}, which would get the token in plain text; it begins with "
        "https://"
    )
