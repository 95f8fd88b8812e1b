"""The embedded baseline `extractive/baseline`: a "language model" without network or weights.

It makes every recipe run on anyone's own data with no key: a dry run, and a floor to compare
judges with. It extracts and compares words; it understands nothing (`docs/judging.md`).
"""
