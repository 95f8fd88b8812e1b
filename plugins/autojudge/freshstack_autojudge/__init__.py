"""TREC Auto-Judge: its formats, and our nuggetizer and judge for its runner."""
