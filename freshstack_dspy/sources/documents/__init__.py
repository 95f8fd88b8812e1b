"""Where documents come from: folders, repositories, wheels, packages, and what is left out."""
