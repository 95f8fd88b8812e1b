"""Collections that grow: runs, new questions and documents, another judge."""
