"""A collection in the layouts of other tools: one file for each."""
