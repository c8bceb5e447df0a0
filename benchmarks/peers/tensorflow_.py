"""TensorFlow. function: tf.function; xla: with jit_compile. LSTM, GRU and optimizers are Keras', the rest raw ops."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from benchmarks import workloads as w

tf.config.threading.set_intra_op_parallelism_threads(w.THREADS)
tf.config.threading.set_inter_op_parallelism_threads(1)
VERSION = tf.__version__
Step = Callable[[], float]


def compiled(function: Callable, variant: str) -> Callable:
    return tf.function(function, jit_compile=variant == "xla", autograph=False)


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def trainer(
    loss: Callable, parameters: Sequence[tf.Variable], kind: w.Adam | w.Sgd, variant: str, data: tuple
) -> Step:
    if isinstance(kind, w.Adam):
        optimizer = tf.keras.optimizers.Adam(kind.learning_rate, kind.beta1, kind.beta2, kind.epsilon)
    else:
        optimizer = tf.keras.optimizers.SGD(kind.learning_rate, kind.momentum)
    optimizer.build(parameters)
    x, y = data

    def training_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            cost = loss(x, y)
        optimizer.apply_gradients(zip(tape.gradient(cost, parameters), parameters))
        return cost

    run = compiled(training_step, variant)

    def step() -> float:
        return float(run(tf.convert_to_tensor(x), tf.convert_to_tensor(y)))

    return step


def dense_network(spec: w.Mlp) -> tuple[list[tf.Variable], Callable]:
    pairs = [(tf.Variable(weights), tf.Variable(bias)) for weights, bias in spec.parameters()]

    def forward(x: tf.Tensor) -> tf.Tensor:
        for weights, bias in pairs[:-1]:
            x = tf.nn.relu(x @ weights + bias)
        weights, bias = pairs[-1]
        return x @ weights + bias

    return [variable for pair in pairs for variable in pair], forward


def mlp(spec: w.Mlp, variant: str) -> Step:
    parameters, forward = dense_network(spec)
    return trainer(lambda x, y: cross_entropy(forward(x), y), parameters, w.ADAM, variant, spec.data())


def keras_cell(spec: w.Recurrent) -> tf.keras.layers.Layer:
    p, n = spec.parameters(), spec.hidden

    def update_gate_first(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array[..., n : 2 * n], array[..., :n], array[..., 2 * n :]], -1)

    cell = tf.keras.layers.LSTM(n) if spec.cell == "lstm" else tf.keras.layers.GRU(n)
    cell.build((spec.batch, spec.time, spec.features))
    if spec.cell == "lstm":
        cell.set_weights([p["input_weights"], p["recurrent_weights"], p["bias"]])
    else:
        weights = [update_gate_first(p[name]) for name in ("input_weights", "recurrent_weights")]
        biases = [update_gate_first(p[name]) for name in ("bias", "recurrent_bias")]
        cell.set_weights([*weights, np.stack(biases)])
    return cell


def recurrent(spec: w.Recurrent, variant: str) -> Step:
    cell, p = keras_cell(spec), spec.parameters()
    output, bias = tf.Variable(p["output_weights"]), tf.Variable(p["output_bias"])
    parameters = [*(variable.value for variable in cell.trainable_variables), output, bias]
    x, y = spec.data()
    data = np.ascontiguousarray(x.transpose(1, 0, 2)), y
    return trainer(lambda x, y: cross_entropy(cell(x) @ output + bias, y), parameters, w.ADAM, variant, data)


def run_recurrent(spec: w.Recurrent, variant: str) -> Step:
    x = np.ascontiguousarray(spec.data()[0].transpose(1, 0, 2))
    run = compiled(keras_cell(spec), variant)
    return lambda: float(run(tf.convert_to_tensor(x)).numpy().sum())


def conv_network(spec: w.ConvNet) -> tuple[list[tf.Variable], Callable]:
    running = ("mean", "variance")
    parameters = [
        {name: tf.Variable(a, trainable=name not in running) for name, a in values.items()}
        for values in spec.parameters_nhwc()
    ]

    def batch_norm(x: tf.Tensor, p: dict[str, tf.Variable], train: bool) -> tf.Tensor:
        fused = tf.compat.v1.nn.fused_batch_norm
        scale_and_shift, epsilon = (p["gamma"], p["beta"]), w.BATCH_NORM_EPSILON
        if not train:
            return fused(x, *scale_and_shift, p["mean"], p["variance"], epsilon=epsilon, is_training=False)[0]
        x, mean, variance = fused(x, *scale_and_shift, epsilon=epsilon)
        keep = w.BATCH_NORM_MOMENTUM
        for name, now in zip(running, (mean, variance)):
            p[name].assign(keep * p[name] + (1 - keep) * now)
        return x

    def forward(x: tf.Tensor, train: bool) -> tf.Tensor | list[tf.Tensor]:
        outputs, heads = [], []
        for i, (layer, p) in enumerate(zip(spec.layers, parameters)):
            match layer:
                case w.Conv():
                    x = tf.nn.conv2d(x, p["weights"], 1, "SAME" if layer.pad else "VALID")
                    x = batch_norm(x, p, train) if layer.batch_norm else tf.nn.bias_add(x, p["bias"])
                case w.MaxPool(size=k, stride=s):
                    x = tf.nn.max_pool2d(x, k, s, "SAME" if s == 1 else "VALID")
                case w.Dense():
                    x = tf.reshape(x, (spec.batch, -1)) @ p["weights"] + p["bias"]
                case w.AveragePool():
                    x = tf.reduce_mean(x, (1, 2))
                case w.Upsample():
                    x = tf.repeat(tf.repeat(x, 2, 1), 2, 2)
                case w.Route():
                    x = tf.concat([outputs[j] for j in spec.sources(i)], -1)
                case w.Yolo():
                    heads.append(tf.sigmoid(x))
            match getattr(layer, "activation", "linear"):
                case "leaky":
                    x = tf.nn.leaky_relu(x, w.LEAKY_SLOPE)
                case "relu":
                    x = tf.nn.relu(x)
            outputs.append(x)
        return heads or x

    return [v for p in parameters for v in p.values() if v.trainable], forward


def train_convnet(spec: w.ConvNet, variant: str) -> Step:
    parameters, forward = conv_network(spec)
    return trainer(lambda x, y: cross_entropy(forward(x, True), y), parameters, w.SGD, variant, spec.data("NHWC"))


def run_convnet(spec: w.ConvNet, variant: str) -> Step:
    _, forward = conv_network(spec)
    x, _ = spec.data("NHWC")
    run = compiled(lambda x: forward(x, False), variant)

    def step() -> float:
        return float(run(tf.convert_to_tensor(x))[0].numpy().mean())

    return step


def transformer(spec: w.Transformer, variant: str) -> Step:
    p = {name: tf.Variable(value) for name, value in spec.parameters().items()}
    depth = spec.features // spec.heads
    full = (spec.batch, spec.time, spec.features)

    def normalized(x: tf.Tensor, name: str) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + spec.epsilon) * p[f"{name}_gain"] + p[f"{name}_bias"]

    def dense(x: tf.Tensor, name: str) -> tf.Tensor:
        rows = tf.reshape(x, (spec.batch * spec.time, -1)) @ p[name] + p[f"{name}_bias"]
        return tf.reshape(rows, (spec.batch, spec.time, -1))

    def loss(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        qkv = tf.reshape(dense(normalized(x, "norm1"), "qkv"), (spec.batch, spec.time, 3, spec.heads, depth))
        q, k, v = tf.unstack(tf.transpose(qkv, (2, 0, 3, 1, 4)))
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / depth**0.5)
        x = x + dense(tf.reshape(tf.transpose(weights @ v, (0, 2, 1, 3)), full), "projection")
        x = x + dense(tf.nn.gelu(dense(normalized(x, "norm2"), "expand")), "contract")
        return tf.reduce_mean((x - y) ** 2)

    return trainer(loss, list(p.values()), w.ADAM, variant, spec.data())


def hessian_vector_product(spec: w.Mlp, variant: str) -> Step:
    parameters, forward = dense_network(spec)
    x, y = spec.data()
    vector = [tf.constant(array) for pair in spec.direction() for array in pair]

    def product(x: tf.Tensor, y: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                cost = cross_entropy(forward(x), y)
            gradients = inner.gradient(cost, parameters)
        result = outer.gradient(gradients, parameters, output_gradients=vector)
        return result, sum(tf.reduce_sum(h * v) for h, v in zip(result, vector))

    run = compiled(product, variant)

    def step() -> float:
        return float(run(tf.convert_to_tensor(x), tf.convert_to_tensor(y))[1])

    return step
