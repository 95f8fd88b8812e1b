"""The files and words of the formats that collections are exported to and imported from."""

from typing import Literal

ExportFormat = Literal["freshstack", "beir", "mteb", "trec", "hf", "crux", "nuggetizer"]
JUDGED_CHUNKS: tuple[ExportFormat, ...] = ("nuggetizer",)
"""Formats that hold the chunks that were judged and no others."""

EXPORT_FILE = "export.json"
"""In every export: of which collection, format, scale and slices it is, and its counts."""
IDS_FILE = "ids.json"
"""Exported id -> our id, by kind (`queries`, `nuggets`, `chunks`), of those that had to change."""
LICENCES_FILE = "licences.jsonl"
README_FILE = "README.md"

# FreshStack, as the official data sets on the Hugging Face hub.
FRESHSTACK_QUERIES, FRESHSTACK_CORPUS = "queries", "corpus"
FRESHSTACK_QUERIES_SPLIT, FRESHSTACK_CORPUS_SPLIT = "test", "train"

# BEIR; MTEB's task file reads the same three.
BEIR_CORPUS, BEIR_QUERIES = "corpus.jsonl", "queries.jsonl"
BEIR_QRELS = "qrels/test.tsv"
BEIR_QRELS_HEADER = ("query-id", "corpus-id", "score")
MTEB_TASK, MTEB_TASK_VALUES = "task.py", "task.json"

TREC_TOPICS, TREC_TOPICS_JSON = "topics.tsv", "topics.jsonl"
TREC_NUGGETS, TREC_CORPUS = "nuggets.jsonl", "corpus.jsonl"
TREC_QRELS, TREC_DIVERSITY_QRELS = "qrels.txt", "diversity_qrels.txt"

# CRUX: {threshold} is the label from which on a passage answers a question.
CRUX_RANKING = "ranking_{threshold}"
CRUX_TOPICS, CRUX_TOPICS_JSON = "test_topics.tsv", "test_topics.jsonl"
CRUX_JUDGEMENTS = "test_judgements.jsonl"
CRUX_DOCUMENT_QRELS = "test_qrels_oracle_adhoc_dr.txt"
CRUX_CONTEXT_QRELS = "test_qrels_oracle_context_pr.txt"
CRUX_DIVERSITY_QRELS = "test_div_qrels_pr.txt"
CRUX_PASSAGES = "passages/test_psgs.jsonl"
CRUX_NO_RATING = -1
"""Stands in a rating where there is none: the judgment failed, or the pair was never judged."""

NUGGETIZER_INPUT, NUGGETIZER_NUGGETS = "input.jsonl", "nuggets.jsonl"
NUGGETIZER_ASSIGNMENTS = "assignments.jsonl"
