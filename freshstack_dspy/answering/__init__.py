"""Answers of RAG systems: how they are made, read, judged and scored."""
