"""Calibration: how far a judge can be trusted, and programs tuned against people's labels."""
