"""Rerankers: hosted models through the door, and cross-encoders in a folder."""
