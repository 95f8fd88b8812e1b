"""What `peers.py` runs in the environment of each peer: its own public way to do a job.

    python benchmarks/peers/peer_jobs.py JOB PEER RESULT SETTINGS

writes one JSON object to the file RESULT; SETTINGS is JSON. Only the standard library is imported
at the top, for each environment holds one peer and what it needs.
"""

import asyncio
import contextlib
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))
from chat_server import TO_JUDGE

os.environ |= {  # none of them may phone home; each by the variable that its documentation names
    "RAGAS_DO_NOT_TRACK": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "NEMO_TELEMETRY_ENABLED": "false",
    "TELEMETRY_ENABLED": "false",
    "DO_NOT_TRACK": "true",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
MOST_TOKENS = 512
_WORDS = "table column index query value option error file version path thread cache".split()
_ASKED = "Does the passage state the claim?"


class Task(NamedTuple):
    """A claim to be judged by a passage."""

    question: str
    passage: str
    claim: str

    @property
    def prompt(self) -> str:
        """For peers that take one text."""
        return (
            f"{_ASKED} Answer as JSON with `reason`, a text, and `supported`, a truth value.\n\n"
            f"Question: {self.question}\n\nPassage: {self.passage}\n\nClaim: {self.claim}"
        )


class Settings(NamedTuple):
    """How a peer is to judge."""

    api_base: str
    in_flight: int
    latency: float
    folder: str


Judge = Callable[[list[Task]], int]
"""Judges all; gives how many verdicts came."""


def tasks(count: int, seed: int = 0) -> list[Task]:
    """Claims and passages of a realistic size, all different."""
    rng = random.Random(seed)

    def prose(words: int) -> str:
        return " ".join(rng.choice(_WORDS) for _ in range(words))

    return [
        Task(prose(30), prose(220), f"{TO_JUDGE}: {seed}.{number} {prose(15)}")
        for number in range(count)
    ]


def _together(
    judge: Callable[[Task], Awaitable[Any]], wanted: list[Task], in_flight: int
) -> list[Any]:
    """What a user of an asynchronous client writes."""

    async def run() -> list[Any]:
        places = asyncio.Semaphore(in_flight)

        async def one(task: Task) -> Any:
            async with places:
                return await judge(task)

        return await asyncio.gather(*map(one, wanted), return_exceptions=True)

    return asyncio.run(run())


def ours(settings: Settings) -> Judge:
    """The judge of builds over recorded replies."""
    import dspy

    from freshstack_dspy import Chunk, ModelConfig, Nugget, Query, SupportJudge, connect
    from freshstack_dspy.lm.workers import map_in_order

    model = ModelConfig(
        name="openai/scripted", api_base=settings.api_base, concurrency=settings.in_flight
    )
    lm = connect(model, store=Path(settings.folder, "replies"))
    judge = SupportJudge("binary")

    def one(task: Task) -> bool:
        size = len(task.passage.encode())
        place = {"source": "docs", "path": "a.md", "start_byte": 0, "end_byte": size}
        chunk = Chunk(chunk_id="1", text=task.passage, tokens=size // 4, **place)
        nugget = Nugget(nugget_id="1", query_id="1", text=task.claim, call_id=None)
        query = Query(query_id="1", title=task.question, body="")
        (judgment,) = judge(query=query, nuggets=[nugget], chunks=[chunk]).judgments
        return judgment.label == 1

    def run(wanted: list[Task]) -> int:
        with dspy.context(lm=lm):
            return sum(map_in_order(one, wanted, workers=settings.in_flight))

    return run


def dspy_(settings: Settings) -> Judge:
    """`dspy.Evaluate` over a `ChainOfThought`, with DSPy's cache, which is on by default."""
    import dspy

    dspy.configure_cache(disk_cache_dir=str(Path(settings.folder, "dspy")))
    lm = dspy.LM("openai/scripted", api_base=settings.api_base, api_key=_key())
    dspy.configure(lm=lm)
    program = dspy.ChainOfThought(
        dspy.Signature("question, passage, claim -> supported: bool", _ASKED)
    )

    def run(wanted: list[Task]) -> int:
        examples = [dspy.Example(**task._asdict()).with_inputs(*Task._fields) for task in wanted]
        evaluate = dspy.Evaluate(
            devset=examples,
            metric=lambda _, prediction, __=None: prediction.supported is True,
            num_threads=settings.in_flight,
            max_errors=len(wanted) + 1,
        )
        return sum(score is True for _, _, score in evaluate(program).results)

    return run


def ragas(settings: Settings) -> Judge:
    """`evaluate` with an `AspectCritic`, and the disk cache."""
    from openai import AsyncOpenAI
    from ragas import EvaluationDataset, RunConfig, SingleTurnSample, evaluate
    from ragas.cache import DiskCacheBackend
    from ragas.llms import llm_factory
    from ragas.metrics import AspectCritic

    client = AsyncOpenAI(base_url=settings.api_base, api_key=_key())
    cache = DiskCacheBackend(str(Path(settings.folder, "ragas")))
    llm = llm_factory("scripted", client=client, cache=cache)
    metric = AspectCritic(name="supported", definition=_ASKED, llm=llm)

    def run(wanted: list[Task]) -> int:
        samples = [
            SingleTurnSample(
                user_input=task.question, retrieved_contexts=[task.passage], response=task.claim
            )
            for task in wanted
        ]
        result = evaluate(
            EvaluationDataset(samples),
            metrics=[metric],
            run_config=RunConfig(max_workers=settings.in_flight),
            show_progress=False,
        )
        return sum(score["supported"] == 1 for score in result.scores)

    return run


def deepeval(settings: Settings) -> Judge:
    """`evaluate` with a `GEval` whose steps are given, so that a verdict is one call."""
    os.chdir(settings.folder)  # it writes .deepeval into the working directory
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import GEval
    from deepeval.models import LocalModel
    from deepeval.test_case import LLMTestCase, SingleTurnParams

    model = LocalModel(model="scripted", base_url=settings.api_base, api_key=_key())
    metric = GEval(
        name="supported",
        evaluation_steps=[_ASKED],
        evaluation_params=[
            SingleTurnParams.INPUT,
            SingleTurnParams.ACTUAL_OUTPUT,
            SingleTurnParams.RETRIEVAL_CONTEXT,
        ],
        model=model,
        threshold=0,
    )

    def run(wanted: list[Task]) -> int:
        cases = [
            LLMTestCase(
                input=task.question, actual_output=task.claim, retrieval_context=[task.passage]
            )
            for task in wanted
        ]
        result = evaluate(
            cases,
            [metric],
            async_config=AsyncConfig(max_concurrent=settings.in_flight),
            cache_config=CacheConfig(use_cache=True),
            display_config=DisplayConfig(
                show_indicator=False, print_results=False, inspect_after_run=False
            ),
            error_config=ErrorConfig(ignore_errors=True),
        )
        return sum(
            one.score is not None for case in result.test_results for one in case.metrics_data or ()
        )

    return run


def mlflow(settings: Settings) -> Judge:
    """A judge of `make_judge`, called by threads: `evaluate` would also write a trace of each."""
    os.environ["OPENAI_API_KEY"] = _key()
    import mlflow as package
    from mlflow.genai.judges import make_judge

    package.set_tracking_uri(f"sqlite:///{settings.folder}/mlflow.db")
    judge = make_judge(
        name="supported",
        instructions=f"{_ASKED} {{{{ inputs }}}} Claim: {{{{ outputs }}}}",
        model="openai:/scripted",
        feedback_value_type=bool,
        base_url=f"{settings.api_base}/chat/completions",
    )

    def one(task: Task) -> bool:
        inputs = {"question": task.question, "passage": task.passage}
        with contextlib.suppress(Exception):
            return judge(inputs=inputs, outputs=task.claim).value is True
        return False

    def run(wanted: list[Task]) -> int:
        with ThreadPoolExecutor(settings.in_flight) as threads:
            return sum(threads.map(one, wanted))

    return run


def benchmark_qed(settings: Settings) -> Judge:
    """`get_assertion_scores` with one trial."""
    import pandas as pd
    from benchmark_qed.autoe.assertion_scores import get_assertion_scores
    from benchmark_qed.config.llm_config import LLMConfig
    from benchmark_qed.llm.factory import ModelFactory
    from graphrag_llm.config.retry_config import RetryConfig

    config = LLMConfig(
        model="scripted",
        api_key=_key(),
        # Its `concurrent_requests` are requests a second: so many are in flight as elsewhere.
        concurrent_requests=round(settings.in_flight / settings.latency),
        init_args={"api_base": settings.api_base},
        retry=RetryConfig(),
    )
    client = ModelFactory.create_chat_model(config)

    def run(wanted: list[Task]) -> int:
        asyncio.set_event_loop(asyncio.new_event_loop())
        numbered = [(number, task) for number, task in enumerate(wanted)]
        scores = get_assertion_scores(
            llm_client=client,
            llm_config=config,
            answers=pd.DataFrame(
                [
                    {"question_id": n, "question_text": task.question, "answer": task.passage}
                    for n, task in numbered
                ]
            ),
            assertions=pd.DataFrame(
                [
                    {"question_id": n, "question_text": task.question, "assertion": task.claim}
                    for n, task in numbered
                ]
            ),
            trials=1,
        )
        return int((scores["score"] == 1).sum())

    return run


def data_designer(settings: Settings) -> Judge:
    """A structured column over seed rows, written in row groups of 16, resumed where it stopped."""
    import data_designer.config as dd
    import pandas as pd
    from data_designer.interface import DataDesigner
    from pydantic import BaseModel

    class Verdict(BaseModel):
        reason: str
        supported: bool

    provider = dd.ModelProvider(name="local", endpoint=settings.api_base, api_key=_key())
    designer = DataDesigner(
        artifact_path=settings.folder,
        model_providers=[provider],
        managed_assets_path=settings.folder,
    )
    designer.set_run_config(dd.RunConfig(buffer_size=16))
    parameters = dd.ChatCompletionInferenceParams(max_parallel_requests=settings.in_flight)

    def run(wanted: list[Task]) -> int:
        builder = dd.DataDesignerConfigBuilder(
            model_configs=[
                dd.ModelConfig(
                    alias="judge",
                    model="scripted",
                    provider="local",
                    inference_parameters=parameters,
                    skip_health_check=True,
                )
            ]
        )
        rows = pd.DataFrame([{"text": task.prompt} for task in wanted])
        builder.with_seed_dataset(dd.DataFrameSeedSource(df=rows))
        builder.add_column(
            dd.LLMStructuredColumnConfig(
                name="verdict", prompt="{{ text }}", model_alias="judge", output_format=Verdict
            )
        )
        from data_designer.engine.storage.artifact_storage import ResumeMode

        result = designer.create(
            builder,
            num_records=len(wanted),
            dataset_name=f"judged{len(wanted)}",
            resume=ResumeMode.IF_POSSIBLE,
        )
        return sum(row["supported"] for row in result.load_dataset()["verdict"])

    return run


def curator(settings: Settings) -> Judge:
    """An `LLM` by its LiteLLM backend, as the other needs the network; its answers read as JSON.

    It asks LiteLLM whether the model takes a response format, and an unknown model is refused one.
    """
    os.environ |= {"CURATOR_CACHE_DIR": settings.folder, "OPENAI_API_KEY": _key()}
    from bespokelabs import curator as package
    from datasets import Dataset

    class Judging(package.LLM):
        def prompt(self, input: dict[str, str]) -> str:  # noqa: A002
            return input["text"]

        def parse(self, input: dict[str, str], response: str) -> dict[str, bool]:  # noqa: A002
            return {"supported": json.loads(response)["supported"]}

    llm = Judging(
        model_name="openai/scripted",
        backend="litellm",
        backend_params={
            "base_url": settings.api_base,
            "max_concurrent_requests": settings.in_flight,
            "max_requests_per_minute": 1_000_000,
            "max_tokens_per_minute": 1_000_000_000,
        },
    )

    def run(wanted: list[Task]) -> int:
        found = llm(Dataset.from_list([{"text": task.prompt} for task in wanted]))
        return sum(row["supported"] for row in found.dataset)

    return run


def inspect_ai(settings: Settings) -> Judge:
    """`eval` of a task whose model answers are the verdicts, with its cache; logs are written."""
    os.environ |= {"INSPECT_CACHE_DIR": settings.folder, "INSPECT_DISPLAY": "none"}
    from inspect_ai import Task as Evaluation
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate

    model = get_model(
        "openai/scripted", base_url=settings.api_base, api_key=_key(), responses_api=False
    )

    def run(wanted: list[Task]) -> int:
        samples = [Sample(input=task.prompt, target='"supported": true') for task in wanted]
        task = Evaluation(
            dataset=MemoryDataset(samples), solver=generate(cache=True), scorer=includes()
        )
        (log,) = evaluate(
            task,
            model=model,
            max_connections=settings.in_flight,
            max_samples=settings.in_flight,
            log_dir=str(Path(settings.folder, "logs")),
            fail_on_error=False,
        )
        return sum(
            score.value == "C"
            for sample in log.samples or ()
            for score in (sample.scores or {}).values()
        )

    return run


def instructor(settings: Settings) -> Judge:
    """What one writes with instructor and the client of OpenAI."""
    import instructor as package
    from openai import AsyncOpenAI
    from pydantic import BaseModel

    class Verdict(BaseModel):
        reason: str
        supported: bool

    def run(wanted: list[Task]) -> int:
        client = package.from_openai(
            AsyncOpenAI(base_url=settings.api_base, api_key=_key()), mode=package.Mode.JSON
        )

        def one(task: Task) -> Awaitable[Any]:
            return client.chat.completions.create(
                model="scripted",
                messages=[{"role": "user", "content": task.prompt}],
                response_model=Verdict,
            )

        found = _together(one, wanted, settings.in_flight)
        return sum(isinstance(verdict, Verdict) and verdict.supported for verdict in found)

    return run


def notorious(settings: Settings) -> Judge:
    """A judging run: a plan by what its file of judgments lacks, and a line for each as it comes."""
    os.environ |= {"OPENAI_API_BASE": settings.api_base, "OPENAI_API_KEY": _key()}
    from notorious.cache import JudgmentCache
    from notorious.judging import execute_plan, plan_judge
    from notorious.labeler import PointwiseLabeler
    from notorious.llm import LLMClient
    from notorious.models import Judgment, PooledDoc, Query
    from notorious.rubric import load_rubric

    judged = Path(settings.folder, "judgments.jsonl")
    judged.touch()
    rubric = Path(settings.folder, "rubric.md")
    rubric.write_text(_ASKED, encoding="utf-8")

    def run(wanted: list[Task]) -> int:
        known = [Judgment.model_validate_json(line) for line in judged.read_text().splitlines()]
        numbered = [(str(number), task) for number, task in enumerate(wanted)]
        queries = [
            Query(provenance="log", query_id=id_, text=f"{task.question}\n\nClaim: {task.claim}")
            for id_, task in numbered
        ]
        pool = [
            PooledDoc(query_id=id_, doc_id=id_, text=task.passage, source_ranks={"a": 1})
            for id_, task in numbered
        ]
        asked = load_rubric(rubric)
        plan = plan_judge(pool, queries, asked, ["openai/scripted"], JudgmentCache(known))
        with judged.open("a") as file:
            summary = execute_plan(
                plan,
                asked,
                PointwiseLabeler(),
                LLMClient(),
                lambda one: print(one.model_dump_json(), file=file, flush=True),
                concurrency=settings.in_flight,
            )
        return summary.new + summary.cached

    return run


def _cpu() -> float:
    """Seconds of the processor, those of ended child processes too."""
    sides = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(side.ru_utime + side.ru_stime for side in sides)


def _key() -> str:
    """The key of the environment; where it has none, the peer is given an empty one."""
    return os.environ.get("OPENAI_API_KEY", "")


JUDGES = {
    "freshstack_dspy": ours,
    "dspy": dspy_,
    "ragas": ragas,
    "deepeval": deepeval,
    "mlflow": mlflow,
    "benchmark-qed": benchmark_qed,
    "data-designer": data_designer,
    "bespokelabs-curator": curator,
    "inspect-ai": inspect_ai,
    "instructor": instructor,
    "notorious": notorious,
}


def calls(peer: str, settings: dict[str, Any]) -> dict[str, float]:
    """Judge claims; `warm` asks some before, for connections and compiled code."""
    count, warm = settings.pop("count"), settings.pop("warm", 0)
    begun = _cpu()
    judge = JUDGES[peer](Settings(**settings))
    ready = _cpu() - begun
    if warm:
        assert judge(tasks(warm, seed=1)) == warm
    wall, cpu = time.perf_counter(), _cpu()
    judged = judge(tasks(count))
    return {
        "judged": judged,
        "seconds": time.perf_counter() - wall,
        "cpu": _cpu() - cpu,
        "ready_cpu": ready,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def chunking(peer: str, settings: dict[str, Any]) -> dict[str, float]:
    """Cut texts into chunks of at most 512 tokens of cl100k_base."""
    texts = _data(settings)
    cut = CHUNKERS[peer]()
    cut(texts[0])  # what is loaded at the first text
    begun = _cpu()
    chunks = [cut(text) for text in texts]
    seconds = _cpu() - begun
    import tiktoken

    encoding = tiktoken.get_encoding("cl100k_base")
    every = [
        (text, chunk) for text, of_text in zip(texts, chunks, strict=True) for chunk in of_text
    ]
    return {
        "cpu": seconds,
        "megabytes": sum(len(text.encode()) for text in texts) / 1e6,
        "chunks": len(every),
        "over": sum(len(encoding.encode_ordinary(chunk)) > MOST_TOKENS for _, chunk in every),
        "inexact": sum(chunk not in text for text, chunk in every),
    }


def _data(settings: dict[str, Any]) -> Any:
    return json.loads(Path(settings["data"]).read_text(encoding="utf-8"))


def _our_chunks() -> Callable[[str], list[str]]:
    from freshstack_dspy.corpus.chunks import chunk_file
    from freshstack_dspy.records import SourceFile

    def cut(text: str) -> list[str]:
        return [one.text for one in chunk_file(SourceFile("a", "a.py", text.encode()), MOST_TOKENS)]

    return cut


def _langchain() -> Callable[[str], list[str]]:
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

    marks = RecursiveCharacterTextSplitter.get_separators_for_language(Language.PYTHON)
    return RecursiveCharacterTextSplitter.from_tiktoken_encoder(
        "cl100k_base", separators=marks, chunk_size=MOST_TOKENS, chunk_overlap=0
    ).split_text


def _chonkie() -> Callable[[str], list[str]]:
    import tiktoken
    from chonkie import RecursiveChunker

    chunker = RecursiveChunker(
        tokenizer=tiktoken.get_encoding("cl100k_base"), chunk_size=MOST_TOKENS
    )
    return lambda text: [chunk.text for chunk in chunker(text)]


def _llama_index() -> Callable[[str], list[str]]:
    import tiktoken
    from llama_index.core.node_parser import SentenceSplitter

    encode = tiktoken.get_encoding("cl100k_base").encode_ordinary
    return SentenceSplitter(chunk_size=MOST_TOKENS, chunk_overlap=0, tokenizer=encode).split_text


def _freshstack() -> Callable[[str], list[str]]:
    from freshstack.chunking import UniversalFileChunker

    chunker = UniversalFileChunker(MOST_TOKENS)

    def cut(text: str) -> list[str]:
        with contextlib.suppress(Exception):  # a file that fails gives none
            found = chunker.chunk(text, {"file_path": "a.py"})
            return [text[chunk.start_byte : chunk.end_byte] for chunk in found]
        return []

    return cut


CHUNKERS: dict[str, Callable[[], Callable[[str], list[str]]]] = {
    "freshstack_dspy": _our_chunks,
    "freshstack": _freshstack,
    "langchain-text-splitters": _langchain,
    "chonkie": _chonkie,
    "llama-index-core": _llama_index,
}


def measuring(peer: str, settings: dict[str, Any]) -> dict[str, float]:
    """nDCG@10, Recall@50 and MRR of dictionaries: the first call and the best of five."""
    data = _data(settings)
    evaluate = EVALUATORS[peer]()
    taken = []
    for _ in range(5):
        begun = _cpu()
        mean = evaluate(data["qrels"], data["run"])
        taken.append(_cpu() - begun)
    return {"first": taken[0], "cpu": min(taken), "ndcg": mean}


Evaluate = Callable[[dict[str, dict[str, int]], dict[str, dict[str, float]]], float]
"""From judgments and a run to the mean nDCG@10."""


def _ours() -> Evaluate:
    from freshstack_dspy import evaluate

    names = ("nDCG@10", "Recall@50", "RR")
    return lambda qrels, run: evaluate(qrels, run, names).means["nDCG@10"]


def _pytrec_eval() -> Evaluate:
    import pytrec_eval

    def evaluate(qrels: Any, run: Any) -> float:
        names = {"ndcg_cut.10", "recall.50", "recip_rank"}
        found = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
        return sum(one["ndcg_cut_10"] for one in found.values()) / len(found)

    return evaluate


def _ir_measures() -> Evaluate:
    import ir_measures
    from ir_measures import RR, R, nDCG

    return lambda qrels, run: ir_measures.calc_aggregate([nDCG @ 10, R @ 50, RR], qrels, run)[
        nDCG @ 10
    ]


def _ranx() -> Evaluate:
    import ranx

    names = ["ndcg@10", "recall@50", "mrr"]
    return lambda qrels, run: float(
        ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names)["ndcg@10"]
    )


def _retrieval_eval() -> Evaluate:
    from retrieval_eval import Judgment, RunEntry, score

    def evaluate(qrels: Any, run: Any) -> float:
        judgments = [
            Judgment(query_id=query, doc_uri=chunk, relevance=grade)
            for query, grades in qrels.items()
            for chunk, grade in grades.items()
        ]
        rankings = [
            RunEntry(query, sorted(scores, key=scores.__getitem__, reverse=True))
            for query, scores in run.items()
        ]
        found = {k: score(judgments, rankings, k=k).metrics for k in (10, 50, 100)}
        return float(found[10]["ndcg@10"].value)

    return evaluate


def _autorag() -> Evaluate:
    from autorag.evaluation.metric import retrieval_mrr, retrieval_ndcg, retrieval_recall
    from autorag.schema.metricinput import MetricInput

    def evaluate(qrels: Any, run: Any) -> float:
        pairs = [
            (
                [[chunk for chunk, grade in qrels[query].items() if grade]],
                sorted(scores, key=scores.__getitem__, reverse=True),
            )
            for query, scores in run.items()
        ]
        means = []
        for measure, k in ((retrieval_ndcg, 10), (retrieval_recall, 50), (retrieval_mrr, 100)):
            values = measure(
                metric_inputs=[
                    MetricInput(retrieval_gt=relevant, retrieved_ids=ranked[:k])
                    for relevant, ranked in pairs
                ]
            )
            means.append(sum(value or 0 for value in values) / len(values))
        return means[0]

    return evaluate


EVALUATORS: dict[str, Callable[[], Evaluate]] = {
    "freshstack_dspy": _ours,
    "pytrec-eval-terrier": _pytrec_eval,
    "ir-measures": _ir_measures,
    "ranx": _ranx,
    "retrieval-eval": _retrieval_eval,
    "AutoRAG": _autorag,
}


def searching(peer: str, settings: dict[str, Any]) -> dict[str, float]:
    """Index chunks by their words, then search for the best 100 of each query."""
    data = _data(settings)
    with tempfile.TemporaryDirectory() as folder:
        begun = _cpu()
        search = SEARCHERS[peer](data["texts"], Path(folder))
        built = _cpu()
        search(data["queries"])
        return {"build": built - begun, "cpu": _cpu() - built}


Search = Callable[[list[str]], Any]
"""Finds the ids of the best 100 of each query; all at once where the peer can."""


def _our_index(texts: list[str], folder: Path) -> Search:
    from freshstack_dspy import Chunk, HybridIndex

    chunks = [
        Chunk(
            chunk_id=f"c{n}",
            source="a",
            path=f"{n}",
            start_byte=0,
            end_byte=len(text.encode()),
            text=text,
            tokens=1,
        )
        for n, text in enumerate(texts)
    ]
    index = HybridIndex.build(folder, "a", chunks, dimensions=0)
    return lambda queries: index.search("bm25", queries, 100)


def _bm25s(texts: list[str], folder: Path) -> Search:
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    tokens = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    index.index(tokens, show_progress=False)
    index.save(folder)

    def search(queries: list[str]) -> Any:
        asked = bm25s.tokenize(queries, stopwords="en", stemmer=stemmer, show_progress=False)
        return index.retrieve(asked, k=100, show_progress=False)

    return search


def _tantivy(texts: list[str], folder: Path) -> Search:
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_integer_field("number", stored=True)
    schema.add_text_field("text", tokenizer_name="en_stem")
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(num_threads=1)
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(number=number, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> Any:
        asked, _ = index.parse_query_lenient(query, ["text"])
        return [
            searcher.doc(place)["number"] for _, place in searcher.search(asked, limit=100).hits
        ]

    return lambda queries: list(map(search, queries))


def _lancedb(texts: list[str], folder: Path) -> Search:
    import lancedb
    from lancedb.index import FTS
    from lancedb.query import MatchQuery

    rows = [{"number": number, "text": text} for number, text in enumerate(texts)]
    table = lancedb.connect(folder).create_table("chunks", rows)
    table.create_index("text", config=FTS(stem=True, remove_stop_words=True))
    table.wait_for_index(["text_idx"])

    def search(query: str) -> Any:
        asked = MatchQuery(query, "text")
        return table.search(asked, query_type="fts").limit(100).select(["number"]).to_arrow()

    return lambda queries: list(map(search, queries))


def _autorag_index(texts: list[str], folder: Path) -> Search:
    import pandas as pd
    from autorag.nodes.lexicalretrieval.bm25 import BM25, bm25_ingest

    for name in ("data", "resources"):
        (folder / name).mkdir()
    now = {"last_modified_datetime": pd.Timestamp("2026-01-01")}
    rows = [{"doc_id": str(n), "contents": text, "metadata": now} for n, text in enumerate(texts)]
    corpus = pd.DataFrame(rows)
    corpus.to_parquet(folder / "data/corpus.parquet")
    bm25_ingest(str(folder / "resources/bm25_porter_stemmer.pkl"), corpus)
    index = BM25(str(folder))
    return lambda queries: index._pure([[query] for query in queries], 100)  # noqa: SLF001 `pure` reads texts from disk too


SEARCHERS: dict[str, Callable[[list[str], Path], Search]] = {
    "freshstack_dspy": _our_index,
    "bm25s": _bm25s,
    "tantivy": _tantivy,
    "lancedb": _lancedb,
    "AutoRAG": _autorag_index,
}

JOBS = {"calls": calls, "chunking": chunking, "measuring": measuring, "searching": searching}


def main() -> None:
    job, peer, result, settings = sys.argv[1:]
    found = JOBS[job](peer, json.loads(settings))
    Path(result).write_text(json.dumps(found | {"version": version(peer)}), encoding="utf-8")


if __name__ == "__main__":
    main()
