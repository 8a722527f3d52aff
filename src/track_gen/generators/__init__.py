"""Track families."""
