"""Of the process that imports us nothing is changed, but for one variable of LiteLLM's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "examples" / "quickstart"
CODE = """
import faulthandler, gc, json, locale, logging, os, signal, socket, sys, threading, warnings
import dspy, instructor, lancedb, openai, scipy.sparse, threadpoolctl  # what they change when they are imported is theirs
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm; litellm.ModelResponse()
from pathlib import Path


NAMES = ("", "bm25s", "dspy", "instructor", "lancedb", "litellm", "LiteLLM", "httpx", "openai")

def state():
    loggers = {name: logging.getLogger(name) for name in NAMES}
    return {
        "environment": dict(os.environ),
        "streams": [id(sys.stdin), id(sys.stdout), id(sys.stderr)],
        "loggers": {
            name: [each.level, each.propagate, each.disabled, len(each.handlers), len(each.filters)]
            for name, each in loggers.items()
        },
        "disabled": [logging.root.manager.disable],
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()],
        "warnings": list(map(str, warnings.filters)),
        "signals": {each.name: str(signal.getsignal(each)) for each in signal.valid_signals()
                    if isinstance(each, signal.Signals)},
        "sockets": [socket.getdefaulttimeout()],
        "hooks": [id(sys.excepthook), id(threading.excepthook), id(sys.unraisablehook)],
        "others": [faulthandler.is_enabled(), locale.setlocale(locale.LC_ALL), os.getcwd(),
                   sys.getrecursionlimit(), sys.path, sys.getswitchinterval()],
    }

before, changes = state(), {}

def compare(where):
    now = state()
    for name, value in before.items():
        if now[name] != value:
            was, is_now = (set(map(str, each.items() if isinstance(each, dict) else each))
                           for each in (value, now[name]))
            changes.setdefault(name, [where, *sorted(was ^ is_now)])

class Watching:
    def __getattr__(self, name):
        return lambda *_, **__: compare(f"progress.{name}")

folder, sample = Path(sys.argv[1]), Path(sys.argv[2])
from freshstack_dspy.config import BuildConfig, ModelConfig
from freshstack_dspy.calibration.labels import HumanLabel
from freshstack_dspy.calibration.optimization import optimize
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.index.table import ChunkTable
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.engine import provider_for
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.recipes.make import build
compare("imports")

config = BuildConfig.model_validate({
    "name": "tiny", "out": folder / "out",
    "queries": {"path": sample / "questions.jsonl", "limit": 2},
    "corpus": [{"name": "xylochron", "path": sample / "corpus/xylochron"}],
    "index": {"path": folder / "index"}, "cache": {"path": folder / "cache"},
})
build(config, progress=Watching(), callback=lambda _: compare("a call"))
compare("build")
collection = Collection.load(folder / "out")
collection.retrieve("bm25", depth=5)
compare("collection")
provider_for(ModelConfig(name="together_ai/a"))
compare("litellm")

from dspy.lm15 import Message, Response, Usage
class Scribe:
    def complete(self, asked):
        compare("a request")
        return Response(id=None, model=asked.model, message=Message.assistant("prose"),
                        finish_reason="stop", usage=Usage())
store = ReplyStore(folder / "cache")
from freshstack_dspy.programs.nuggetizer import Nuggetizer
from freshstack_dspy.errors import ReplyError
lm = connect(ModelConfig(name="openai/scripted"), store=store, provider=Scribe())
with dspy.context(lm=lm):
    try:
        Nuggetizer()(query=collection.queries[0])
    except ReplyError:
        pass
compare("re-asks")
text = "words that a label has of its own"
labels = [HumanLabel(query_id=str(q), nugget_id=f"{q}.{n}", chunk_id=f"c{q}.{n}", label=n % 2,
                     annotator="a", question=f"{text} {q}", nugget=f"{text} {n}", chunk=f"{text} {q} {n}")
          for q in range(9) for n in range(4)]
lm = connect(ModelConfig(), store=store)
optimize(labels, lm, optimizer="bootstrap", progress=Watching())
compare("optimize")
store.close()
print(json.dumps(changes), file=sys.stderr)
"""


@pytest.mark.slow
def test_nothing_of_the_host_process_is_changed_before_during_or_after(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path), str(SAMPLE)],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == {}
