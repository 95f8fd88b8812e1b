"""A model that is a program: each request runs a command, the prompt on stdin, the reply on stdout."""

import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.lm.request import COMMAND

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

MOST_BYTES = 16 * 2**20
"""The longest reply."""
_TAIL = 4096
"""So much of what it wrote to stderr is shown: the end, where errors are."""


class CommandProvider:
    """Runs the command that a model's name holds, without a shell, once for each request.

    No settings of a request are passed on: the prompt describes the reply. A command that does not
    answer in time is killed with all that it started.
    """

    def __init__(self, model: ModelConfig, did_not_answer: Callable[[str], Exception]) -> None:
        """Find the program, or raise a FatalModelError; nothing is run.

        `did_not_answer` makes the error of a reason, without keys.
        """
        self._model, self._did_not_answer = model, did_not_answer
        try:
            self._words = shlex.split(model.name.removeprefix(COMMAND))
        except ValueError as error:
            raise FatalModelError(f"{model.section} name is {model.name!r}: {error}") from None
        program = shutil.which(self._words[0]) if self._words else None
        if program is None:
            raise FatalModelError(
                f"{model.section} name is {model.name!r}, and there is no such program: install it, "
                'or name its path, as "command//home/me/judge.sh"'
            )
        self._words[0] = program
        self._running: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()

    def complete(self, request: "Request") -> "Response":
        """Run the command once.

        A TransientModelError: it failed, said nothing or took too long. A ReplyError: it said too
        much. A FatalModelError: it cannot be run.
        """
        from freshstack_dspy.lm.dspy_parts import lm15

        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(self._run(prompt_of(request))),
            finish_reason="stop",
            usage=lm15.Usage(),
        )

    def close(self) -> None:
        """Kill what still runs."""
        with self._guard:
            for process in self._running:
                _kill(process)

    def _run(self, prompt: str) -> str:
        deadline = time.monotonic() + self._model.timeout
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(prompt.encode())
            stdin.seek(0)
            with self._started(stdin, stderr) as process:
                with self._guard:
                    self._running.add(process)
                try:
                    output = self._read(process, deadline)
                    code = process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    seconds = self._model.timeout
                    late = f"no whole reply within timeout = {seconds:g} s"
                    raise self._did_not_answer(late) from None
                finally:
                    _kill(process)
                    with self._guard:
                        self._running.discard(process)
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _TAIL))
            said = stderr.read().decode(errors="replace")
        if code:
            how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            raise self._did_not_answer(f"{how}: {said}")
        try:
            text = output.decode().strip()
        except UnicodeDecodeError as error:
            raise self._did_not_answer(f"its output is not UTF-8: {error}") from None
        if not text:
            raise self._did_not_answer(f"it wrote nothing: {said}")
        return text

    def _started(self, stdin: IO[bytes], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - the user's own command, and no shell
                self._words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise FatalModelError(f"{self._model.name} cannot be run: {error}") from None

    def _read(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        """Read stdout until it is closed, or raise a TimeoutExpired."""
        assert process.stdout is not None
        output = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    return bytes(output)
                output += data
                if len(output) > MOST_BYTES:
                    raise ReplyError(
                        f"{self._model.name} wrote more than {MOST_BYTES >> 20} MiB",
                        status="failed",
                        call_id=None,
                    )
        raise subprocess.TimeoutExpired(self._words, self._model.timeout)


def prompt_of(request: "Request") -> str:
    """The system message and the user's; of a longer conversation each turn below its role."""
    turns = [(message.role, message.text or "") for message in request.messages]
    texts = [text for _, text in turns]
    if len(turns) > 1:
        texts = [f"# {role.capitalize()}\n\n{text}" for role, text in turns]
    system = [request.system] if isinstance(request.system, str) else []
    return "\n\n".join([*system, *texts]) + "\n"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that is not waited for yet, and those that it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
