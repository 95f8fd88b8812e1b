"""A server for measuring benches: encoder in, ring widths out."""

__version__ = "2.4.0"
