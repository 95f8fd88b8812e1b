"""Recipes: the steps that make a judged collection, in order."""
