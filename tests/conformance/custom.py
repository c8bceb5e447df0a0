"""Tests of the cases that no expression can state: `test_<case id>(case, backend)`."""
