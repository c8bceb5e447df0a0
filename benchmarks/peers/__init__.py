"""One module per library, each with VERSION and a function per kind of workload that the library can do:

`mlp, recurrent, scan_recurrent, characters, train_convnet, transformer` give a step that trains once and returns the
loss before the update; `run_convnet` gives a forward pass, whose value is the mean of the first head; `run_recurrent`
one whose value is the sum of the last outputs; `hessian_vector_product` gives v . H v.
Each takes the workload's spec and the variant.
"""
