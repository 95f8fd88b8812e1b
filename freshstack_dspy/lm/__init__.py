"""The one client to language models: recorded, replayed, typed, and paid for once."""
