"""Questions with accepted answers: dumps, tables, datasets; filters and tags."""
