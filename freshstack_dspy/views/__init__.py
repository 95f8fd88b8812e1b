"""Views: what is shown of each result, in a module for the results of each room; and the report."""
