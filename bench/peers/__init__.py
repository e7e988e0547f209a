"""Servers of other projects, doing a comparable job, for the comparison. They are run in environments of their own."""
