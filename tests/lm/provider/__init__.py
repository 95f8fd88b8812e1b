"""How providers are spoken to."""
