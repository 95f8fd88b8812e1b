"""The report: a collection and its runs on one page, from what a reader has to decide."""
