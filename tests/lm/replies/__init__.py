"""The store and bundles."""
