"""Progress that is remembered."""

from freshstack_dspy.progress import Progress


class Heard(Progress):
    """What was begun, how many parts of it are done, and how it ended."""

    def __init__(self) -> None:
        self.started: dict[str, int] = {}
        self.advanced: dict[str, int] = {}
        self.notes: dict[str, str] = {}

    def start(self, step: str, total: int) -> None:
        self.started[step] = total
        self.advanced[step] = 0

    def advance(self, step: str, note: str = "") -> None:
        self.advanced[step] += 1

    def finish(self, step: str, note: str = "") -> None:
        self.notes[step] = note
