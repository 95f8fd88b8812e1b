"""Typed questions."""
