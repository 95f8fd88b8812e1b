"""A collection as it is stored: its records, chunks and manifest, and what follows from these alone."""
