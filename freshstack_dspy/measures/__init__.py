"""Measures: pure functions over runs, judgments and labels."""
