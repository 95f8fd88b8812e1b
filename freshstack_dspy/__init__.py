"""Judged retrieval and RAG test collections for your own domain."""
