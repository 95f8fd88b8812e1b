"""Embedders: hosted models through the door, and sentence-transformers models in a folder."""
