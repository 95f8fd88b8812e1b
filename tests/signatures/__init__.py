"""What a language model is asked."""
