"""Documents: the files of a corpus, and the chunks that they are cut into."""
