"""The commented example that `freshstack init` writes."""

EXAMPLE = """\
# A build of freshstack_dspy. Paths are relative to this file.
name = "my-domain"
recipe = "freshstack"
out = "collections/my-domain"           # the judged collection is written here

[queries]
source = "stackexchange"                # a dump, .7z or XML; or jsonl, csv, parquet, huggingface, freshstack
path = "Posts.xml"
# site = "stackoverflow.com"            # for the links of the attribution
tags = []                               # keep questions with any of these; empty: all
# since = "2023-01-01"                  # asked on or after
# until = "2024-10-01"                  # asked before
# min_score = 1
# duplicates = "drop"                   # leave out questions closed as duplicates
limit = 100

[[corpus]]                              # as many as you like
name = "my-library"
path = "src/my-library"                 # a folder, a git repository, a wheel or JSON Lines;
                                        # or url of a repository, or package, an installed one
# revision = "v1.2.0"                   # git only: a commit, tag or branch
# include = ["docs/**", "src/**"]
# exclude = ["**/generated/**"]

[chunking]
max_tokens = 512

# [[embedder]]                          # a retriever next to bm25 and lsa
# name = "small"
# model = "openai/text-embedding-3-small"

# [reranker]                            # makes the retriever hybrid+rerank
# model = "cohere/rerank-v3.5"

[model]
name = "extractive/baseline"            # needs no key: a dry run and a floor; or openai/…, anthropic/…, hosted_vllm/…
temperature = 0.1
# api_base = "http://127.0.0.1:8000/v1" # any OpenAI-compatible server
# max_tokens = 4096                     # longest reply
concurrency = 16                        # most requests in flight
# timeout = 120                         # seconds for one attempt

# [budget]                              # caps over all runs of this collection; a build stops before them
# dollars = 5
# tokens = 20_000_000
# calls = 10_000

# [prices]                              # US dollars per million tokens, where LiteLLM's table is wrong
# input = 0.15
# output = 0.60

[pool]
depth = 100                             # chunks by each retriever for each technique
top_k = 20                              # chunks of each technique that are judged
# techniques = ["question", "sub_questions", "closed_book_answer", "answer", "nuggets"]
# retrievers = ["bm25", "lsa"]          # and the names of embedders
# lists = "concatenate"                 # or "fuse": each sub-question and nugget searched for alone

# [fusion]
# method = "normalised_sum"             # or rrf, weighted

# [nuggets]
# limit = 10                            # most nuggets of an answer
# importance = true                     # rate each vital or okay, by one more call for each query

[judge]
batch = 20                              # most chunks in one call
# shape = "batch"                       # or "windowed", "pairwise": fewer texts in more calls
# scale = "binary"                      # or "support", "graded_3", "graded_5"
# votes = 3                             # judge as often, in different orders, and keep every vote

# [contamination]
# cutoff = "2024-06-01"                 # the date up to which the model has read
# score = false                         # do not judge the closed-book answers

# [programs]
# support_judge = "judge.json"          # what `freshstack optimize` saved

# [cache]
# path = ".freshstack/cache"            # every reply is kept here
# bundles = ["replies.jsonl"]           # recorded replies to read next to it
"""
