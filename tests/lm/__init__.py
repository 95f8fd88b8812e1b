"""The client to language models, against a real server on the loopback."""
