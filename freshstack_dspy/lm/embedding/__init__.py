"""Vectors and rerank scores through the one door: asked once, recorded, replayed, paid within caps."""
