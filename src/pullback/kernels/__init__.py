"""Native loops, written in the kernel language: pointers and numbers only."""
