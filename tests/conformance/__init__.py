"""Conformance: golden vectors and public bug reports, run through the public face on both backends.

python -m tests.conformance PATH [--only FAMILY] [--list-skipped]
"""
