"""What a language model is asked: one file per question, each with a typed answer."""
