"""The built-in keyword matcher `extractive/baseline`: a "language model" without network or weights.

It makes every recipe run on any data with no key: a dry run, and a lower bound to compare judges
with. It extracts and compares words (`docs/judging.md`).
"""
