"""The retriever through the answer: LLM-retEval, and what the answers hold."""
