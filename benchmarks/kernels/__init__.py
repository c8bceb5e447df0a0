"""Single kernels: forward and backward of one operation, in pullback and in PyTorch, alternately in one process."""
