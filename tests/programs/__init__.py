"""The steps of a recipe."""
