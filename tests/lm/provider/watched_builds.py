"""Builds the sample from its recorded replies and live, and prints what was opened meanwhile.

A program of its own, so that the libraries below are imported under its eyes:

    python -m tests.lm.provider.watched_builds '{"folder": …, "api_base": …, "models": […]}'
"""

import json
import sys
from pathlib import Path
from typing import Any

_opened: list[Any] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        _opened.append(arguments[1])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        _opened.append(arguments[0])


def _build(folder: Path, mode: Any, model: dict[str, str]) -> int:
    """Build, search and measure; give the number of queries."""
    from freshstack_dspy import build, evaluate, load_config, retrieve

    config = load_config(Path(__file__).parents[3] / "examples/quickstart/build.toml")
    changes: dict[str, Any] = {
        "out": folder / "collection",
        "index": config.index.model_copy(update={"path": folder / "index"}),
        "cache": config.cache.model_copy(update={"path": folder / "cache"}),
        "model": config.model.model_copy(update=model),
    }
    if model:
        changes["queries"] = config.queries.model_copy(update={"limit": 2})
    collection = build(config.model_copy(update=changes), mode=mode)
    evaluate(collection.qrels(), retrieve(collection, "hybrid", index_path=folder / "index"))
    return len(collection.queries)


def main() -> None:
    """Build as the first argument says."""
    settings = json.loads(sys.argv[1])
    folder = Path(settings["folder"])
    replayed = _build(folder / "replayed", "replay", {})
    opened_by_replay = len(_opened)
    live = [
        _build(folder / str(number), "live", {"name": name, "api_base": settings["api_base"]})
        for number, name in enumerate(settings["models"])
    ]
    hosts = sorted({str(to[0] if isinstance(to, (list, tuple)) else to) for to in _opened})
    told = {
        "replayed": replayed,
        "opened_by_replay": opened_by_replay,
        "live": live,
        "hosts": hosts,
        "imported": sorted({name.partition(".")[0] for name in sys.modules}),
    }
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    sys.addaudithook(_watch)
    main()
