from .calibration.agreement import agree as agree
from .calibration.labels import read_labels as read_labels
from .calibration.optimization import optimize as optimize
from .collection.collection import Collection as Collection
from .collection.exports import export_collection as export_collection
from .collection.retrieve import retrieve as retrieve
from .config import BuildConfig as BuildConfig
from .config import ModelConfig as ModelConfig
from .config import load_config as load_config
from .errors import FreshstackError as FreshstackError
from .index.hybrid import HybridIndex as HybridIndex
from .lm.client import connect as connect
from .lm.store import ReplyStore as ReplyStore
from .measures.compare import compare as compare
from .measures.evaluation import evaluate as evaluate
from .measures.qrels import NuggetQrels as NuggetQrels
from .measures.qrels import read_qrels as read_qrels
from .measures.run import Run as Run
from .measures.run import read_run as read_run
from .measures.run import write_run as write_run
from .programs.answer_comparer import AnswerComparer as AnswerComparer
from .programs.answer_generator import AnswerGenerator as AnswerGenerator
from .programs.closed_book_answerer import ClosedBookAnswerer as ClosedBookAnswerer
from .programs.nuggetizer import Nuggetizer as Nuggetizer
from .programs.passage_decontextualizer import PassageDecontextualizer as PassageDecontextualizer
from .programs.query_synthesizer import QuerySynthesizer as QuerySynthesizer
from .programs.question_decomposer import QuestionDecomposer as QuestionDecomposer
from .programs.support_judge import SupportJudge as SupportJudge
from .recipes.build import build as build
from .recipes.freshstack import FreshStack as FreshStack
from .records import (
    Chunk as Chunk,
)
from .records import (
    HumanLabel as HumanLabel,
)
from .records import (
    Judgment as Judgment,
)
from .records import (
    Nugget as Nugget,
)
from .records import (
    Query as Query,
)
