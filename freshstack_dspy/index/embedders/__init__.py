"""Embedders: hosted models through the client, and sentence-transformers models in a folder."""
