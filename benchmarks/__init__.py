"""pullback beside other libraries on the same work: `python -m benchmarks mlp lenet`. See README.md here."""
