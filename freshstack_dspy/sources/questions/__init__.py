"""Where questions with accepted answers come from: dumps, tables, datasets."""
