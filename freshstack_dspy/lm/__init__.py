"""The one door to language models: recorded, replayed, typed, and paid for once."""
