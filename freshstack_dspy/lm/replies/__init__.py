"""Recorded replies: the store, the bundles that people exchange, and what both are checked for."""
