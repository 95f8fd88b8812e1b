"""The steps of a recipe as DSPy modules: records in, records out.

Each raises a `ReplyError` where the model gave no valid answer.
"""
