"""Synthetic questions: seeds, what is refused, and the style that is followed."""
