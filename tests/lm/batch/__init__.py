"""Requests answered later."""
