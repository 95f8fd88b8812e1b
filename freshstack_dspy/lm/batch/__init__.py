"""Requests answered later: by a provider's batch API, another program, or a person."""
