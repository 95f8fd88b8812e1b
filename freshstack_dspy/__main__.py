"""`python -m freshstack_dspy` is `freshstack`."""

from freshstack_dspy.cli import main

main()
