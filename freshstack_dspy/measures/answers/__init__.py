"""Measures of answers: what they tell, what they cite, and what they say of the retriever."""
