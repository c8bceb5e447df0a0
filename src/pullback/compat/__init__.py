"""The interfaces of other libraries over this one: their users change an import."""
