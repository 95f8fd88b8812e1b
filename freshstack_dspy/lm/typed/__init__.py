"""Typed questions: a DSPy adapter that asks for JSON, validates it fully, and asks again."""

from freshstack_dspy.lm.typed.predict import TypedAdapter, TypedPredict
from freshstack_dspy.lm.typed.prompt import instructions

__all__ = ["TypedAdapter", "TypedPredict", "instructions"]
