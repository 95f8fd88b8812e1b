"""What commands, notebooks, data cards and reports show: a page, and the five ways to write one."""
