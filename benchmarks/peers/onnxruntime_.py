"""ONNX Runtime: inference only. The model is written with the onnx package from the same spec."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime

from benchmarks import workloads as w

VERSION = onnxruntime.__version__


def onnx_model(spec: w.ConvNet) -> bytes:
    """Batch normalisation stays a node of its own: the runtime may fuse it."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, outputs, heads = [], [], [], []

    def constant(name: str, array: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    x = "x"
    for i, (layer, p) in enumerate(zip(spec.layers, spec.parameters())):
        values = [constant(f"{i}_{name}", array) for name, array in p.items()]
        match layer:
            case w.Conv(size=k):
                weights, *rest = values
                bias = [] if layer.batch_norm else rest
                x = add("Conv", [x, weights, *bias], f"{i}_conv", kernel_shape=[k, k], pads=[layer.pad] * 4)
                if layer.batch_norm:
                    x = add("BatchNormalization", [x, *rest], f"{i}_norm", epsilon=w.BATCH_NORM_EPSILON)
                if layer.activation == "leaky":
                    x = add("LeakyRelu", [x], f"{i}_leaky", alpha=w.LEAKY_SLOPE)
            case w.MaxPool(size=k, stride=s):
                pads = [0, 0, 1, 1] if s == 1 else [0] * 4
                x = add("MaxPool", [x], f"{i}_max", kernel_shape=[k, k], strides=[s, s], pads=pads)
            case w.Upsample():
                scales = constant(f"{i}_scales", np.array([1, 1, 2, 2], np.float32))
                how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": "nearest"}
                x = add("Resize", [x, "", scales], f"{i}_up", **how)
            case w.Route():
                x = add("Concat", [outputs[j] for j in spec.sources(i)], f"{i}_route", axis=1)
            case w.Yolo():
                shape = [spec.batch, *spec.shapes()[i]]
                name = add("Sigmoid", [x], f"head{len(heads)}")
                heads.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        outputs.append(x)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [spec.batch, *spec.image])
    graph = helper.make_graph(nodes, "network", [image], heads, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=9).SerializeToString()


def run_convnet(spec: w.ConvNet, variant: str) -> Callable[[], float]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = w.THREADS
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_model(spec), options, providers=["CPUExecutionProvider"])
    x, _ = spec.data()

    def step() -> float:
        return float(session.run(None, {"x": x})[0].mean())

    return step
