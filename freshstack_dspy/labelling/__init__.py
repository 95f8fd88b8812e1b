"""`freshstack label`: people label what a sample asks for, on a page served on the loopback."""
