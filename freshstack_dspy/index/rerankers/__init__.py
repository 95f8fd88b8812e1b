"""Rerankers: hosted models through the client, and cross-encoders in a folder."""
