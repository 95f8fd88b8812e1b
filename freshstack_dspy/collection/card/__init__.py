"""The data card: the README of a collection, for who gets it from somebody else."""

from freshstack_dspy.collection.card.attribution import attribution
from freshstack_dspy.collection.card.card import CARD_FILE, data_card

__all__ = ["CARD_FILE", "attribution", "data_card"]
