"""The collections of others as one of ours: official FreshStack, BEIR, CRUX and nuggetizer."""
