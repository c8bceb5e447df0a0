"""Darknet networks held to what OpenCV's importer answers: `python -m tests.darknet_oracle tests/data/darknet/oracle`."""
