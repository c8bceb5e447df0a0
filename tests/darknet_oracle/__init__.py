"""Darknet networks held to what OpenCV answers: `python -m tests.darknet_oracle tests/data/darknet/oracle`."""
