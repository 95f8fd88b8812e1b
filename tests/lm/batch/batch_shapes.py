"""How batches, lines and replies look on three providers' wires."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.lm.chat_server import Scripted

Json = dict[str, Any]


@dataclass
class Made:
    """A batch that was made here."""

    batch_id: str
    requests: list[Json]
    """The lines: custom_id, and body or params."""
    created_at: float
    file_id: str | None = None
    endpoint: str | None = None
    metadata: dict[str, str] | None = None
    looks: int = 0
    """How often somebody asked how it stands."""


@dataclass
class Course:
    """How batches go."""

    looks: int = 0
    """How often they are still underway when somebody asks."""
    end: str = "completed"
    faults: list[Json] = field(default_factory=list)
    """`errors.data`, of a batch that failed as a whole."""
    extra_lines: list[str] = field(default_factory=list)
    """Appended to the output as they are."""


Shape = Callable[[Made, Course], Json]
FILE = {"object": "file", "purpose": "batch", "status": "processed", "created_at": 1}


def as_json(value: Json) -> Scripted:
    return Scripted(body=json.dumps(value).encode())


def as_lines(lines: list[str]) -> Scripted:
    return Scripted(body="".join(f"{line}\n" for line in lines).encode())


def openai_batch(made: Made, course: Course) -> Json:
    over = made.looks > course.looks
    failed = over and course.end == "failed"
    files = over and not failed
    total = len(made.requests)
    return {
        "id": made.batch_id,
        "object": "batch",
        "endpoint": made.endpoint,
        "input_file_id": made.file_id,
        "completion_window": "24h",
        "created_at": int(made.created_at),
        "status": course.end if over else "in_progress",
        "metadata": made.metadata,
        "errors": {"object": "list", "data": course.faults} if failed else None,
        "output_file_id": f"output-of-{made.batch_id}" if files else None,
        "error_file_id": f"errors-of-{made.batch_id}" if files else None,
        "request_counts": {"total": total, "completed": total if files else 0, "failed": 0},
    }


def message_batch(made: Made, course: Course) -> Json:
    over = made.looks > course.looks
    created = datetime.fromtimestamp(made.created_at, UTC).isoformat().replace("+00:00", "Z")
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    counts["succeeded" if over else "processing"] = len(made.requests)
    return {
        "id": made.batch_id,
        "type": "message_batch",
        "processing_status": "ended" if over else "in_progress",
        "request_counts": counts,
        "created_at": created,
        "expires_at": created,
        "ended_at": created if over else None,
        "results_url": f"/v1/messages/batches/{made.batch_id}/results" if over else None,
    }


def output_line(custom_id: str, reply: Scripted) -> Json:
    body = json.loads(reply.encoded())
    response = {"status_code": reply.status, "request_id": "r", "body": body}
    return {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None}


_STOP = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def message(reply: Scripted) -> bytes:
    if reply.status != 200:
        return json.dumps(_message_error(reply)).encode()
    usage = {
        "input_tokens": reply.usage["prompt_tokens"],
        "output_tokens": reply.usage["completion_tokens"],
    }
    return json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [{"type": "text", "text": reply.content or ""}],
            "stop_reason": _STOP[reply.finish_reason],
            "usage": usage,
        }
    ).encode()


def _message_error(reply: Scripted) -> Json:
    error = {"type": "invalid_request_error", "message": reply.content}
    return {"type": "error", "error": error}


def message_result(reply: Scripted) -> Json:
    if reply.status != 200:
        return {"type": "errored", "error": _message_error(reply)}
    return {"type": "succeeded", "message": json.loads(message(reply))}
