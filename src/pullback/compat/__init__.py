"""Faces of other libraries: their names and conventions over this one's operations."""
