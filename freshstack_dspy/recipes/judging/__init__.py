"""Judging: calls, votes, parts, windows, and the sample that is judged alone."""
