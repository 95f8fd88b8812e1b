"""How long it takes to begin: importing the package, and the help of its commands.

    python benchmarks/startup.py [--tiny]

Each in processes of their own, in turns, with compiled bytecode; the best of several. Prints one
JSON line for each figure: name, value, goal, holds.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

TURNS = 1 if "--tiny" in sys.argv else 7
COMMANDS = {
    "python alone": ("-c", "pass"),
    "import dspy": ("-c", "import dspy"),
    "import freshstack_dspy": ("-c", "import freshstack_dspy"),
    "freshstack --help": ("-m", "freshstack_dspy", "--help"),
    "freshstack build --help": ("-m", "freshstack_dspy", "build", "--help"),
    "freshstack --version": ("-m", "freshstack_dspy", "--version"),
    "import freshstack_dspy.recipes.build": ("-c", "import freshstack_dspy.recipes.build"),
}
WITHOUT_GOAL = ("python alone", "import dspy", "import freshstack_dspy.recipes.build")


def seconds(words: tuple[str, ...], environment: dict[str, str]) -> float:
    """Run Python once."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as bytecode:
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        for words in COMMANDS.values():
            seconds(words, environment)  # compiles
        turns = [
            {name: seconds(words, environment) for name, words in COMMANDS.items()}
            for _ in range(TURNS)
        ]
    best = {name: round(min(turn[name] for turn in turns), 3) for name in COMMANDS}
    for name, value in best.items():
        goal = None if name in WITHOUT_GOAL else f"< import dspy, {best['import dspy']}"
        holds = None if goal is None else value < best["import dspy"]
        print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}))


if __name__ == "__main__":
    main()
