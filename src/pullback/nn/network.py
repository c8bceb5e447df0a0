"""`Network`: layers put together, with their parameters, training and prediction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compile import Function
from ..config import config
from ..data.augment import Change
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GraphError,
    ShapeError,
    UnknownNameError,
    nearest,
)
from ..graph import SharedVariable, TensorType, Variable, layer_named
from ..ops import RandomStream
from .arrays import Samples, about, check_values, input_arrays, samples
from .assembly import Node, assemble, find, leading_to
from .history import History
from .layers.base import Context, Layer, Reference
from .layers.basic import Input
from .losses import Loss
from .metrics import Metric
from .optimizers import Optimizer
from .recipe import (
    Recipe,
    Totals,
    evaluation_function,
    gradient_function,
    make_recipe,
    prediction_function,
    training_function,
    update_function,
)

if TYPE_CHECKING:
    from ..testing import Report
    from .fitting import Training
    from .flow import GradientFlow

PREDICT_BATCH = 256


def _upstairs(room: str) -> Any:
    """A room above this one, for what a user looks for here but is done there."""
    return import_module(f"{__package__.partition('.')[0]}.{room}")


class Network:
    """Layers, each fed by the one before it or by those that it names, and their parameters.

    Args:
        layers: the first is an `Input`; further ones make a network of several inputs.
        outputs: the layers (numbers or names) whose outputs are the network's; the last layer unless given.
        dtype: of parameters and data, "float32" or "float64"; config.floatX unless given.
        seed: of first values, the order of samples in training, and dropout: same seed, same bits.
        name: for messages.

    Attributes:
        nodes: the layers at their places.
        parameters: {"<layer>.<parameter>": variable}, in the order of the layers.
        metadata: JSON values that a user wants to keep in the model file.
        history: of all training so far.

    Example:
        >>> import numpy as np
        >>> from pullback import nn
        >>> net = nn.Network([nn.Input(4), nn.Connected(8, activation="relu"), nn.Connected(3), nn.Softmax()])
        >>> net.compile(optimizer=nn.Adam(1e-2), loss="cross_entropy", metrics=["accuracy"])
        >>> X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
        >>> y = X[:, :3].argmax(axis=1)
        >>> history = net.fit(X, y, epochs=30, batch_size=20, verbose=False)
        >>> net.predict(X).shape, history["loss"][-1] < history["loss"][0]
        ((60, 3), True)
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        *,
        outputs: Reference | Sequence[Reference] | None = None,
        dtype: str | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        self._set_up(layers, outputs, dtype or config.floatX, seed, name, None)

    def _set_up(
        self,
        layers: Sequence[Layer],
        outputs: Reference | Sequence[Reference] | None,
        dtype: str,
        seed: int,
        name: str | None,
        values: Mapping[str, np.ndarray] | None,
    ) -> None:
        if dtype not in ("float32", "float64"):
            raise DTypeError(f"Network: dtype={dtype!r}; expected 'float32' or 'float64'")
        self.dtype = dtype
        self.seed = seed
        self.name = name
        self.nodes = assemble(layers, dtype, seed, values)
        self.inputs = [node for node in self.nodes if isinstance(node.layer, Input)]
        self.outputs = self._find_outputs(outputs)
        self.parameters = {v.name: v for node in self.nodes for v in node.parameters.values()}
        self.draws = RandomStream(seed, "draws").counter
        self.recipe: Recipe | None = None
        self.rate: SharedVariable | None = None
        self.optimizer_state: dict[str, SharedVariable] = {}
        self.metadata: dict[str, Any] = {}
        self.history = History()
        self.training: Training | None = None
        self._cursor: dict[str, Any] | None = None
        self._functions: dict[Any, Function] = {}
        self._step: Function | None = None  # of the latest training, for targets of the kind seen then

    def _find_outputs(self, outputs: Reference | Sequence[Reference] | None) -> list[Node]:
        references = [-1] if outputs is None else [outputs] if isinstance(outputs, (int, str)) else list(outputs)
        with about("Network: outputs"):
            found = [self.nodes[find(reference, self.nodes, len(self.nodes))] for reference in references]
        used = leading_to(found, self.nodes)
        for node in self.nodes:
            if node.index not in used:
                raise GraphError(f"{node} leads to no output: no later layer takes it, and it isn't among the outputs")
        return found

    # --- as an expression ---------------------------------------------------------------------------------------------
    def __call__(self, *inputs: Variable, context: Context | None = None) -> Any:
        """The network's output (the list of them, if several) as an expression of its inputs.

        Args:
            inputs: one per Input layer, the batch on the first axis.
            context: `net.context(training=True)` for the expression that is trained; it collects the updates of running
                statistics. By default layers behave as at predict.
        """
        if len(inputs) != len(self.inputs):
            raise ArgumentTypeError(f"the network has {len(self.inputs)} inputs, got {len(inputs)}")
        context = Context() if context is None else context
        given = iter(inputs)
        values = context.values = []
        for node in self.nodes:
            if node.sources:
                around = replace(context, training=False) if node.layer.frozen else context
                taken = [values[i] for i in node.sources]
                with layer_named(node.name):
                    values.append(node.layer.apply(node.parameters, taken, around))
                if taken[0] in context.lengths and node.output.shape[:1] == node.inputs[0].shape[:1]:
                    context.lengths.setdefault(values[-1], context.lengths[taken[0]])
            else:
                values.append(next(given))
        results = [values[node.index] for node in self.outputs]
        return results[0] if len(results) == 1 else results

    def context(self, training: bool) -> Context:
        """A pass through this network, with its own random numbers."""
        random = RandomStream(self.seed)
        random.counter = self.draws
        return Context(training, random)

    @property
    def trainable(self) -> list[SharedVariable]:
        """The parameters that training changes by gradient."""
        return [
            v
            for node in self.nodes
            for key, v in node.parameters.items()
            if node.described[key].trainable and not node.layer.frozen
        ]

    def reset_states(self) -> None:
        """Let stateful recurrent layers begin anew, with zeros."""
        for node in self.nodes:
            for key, v in node.parameters.items():
                if node.described[key].state:
                    v.set_value(np.zeros_like(v.storage))

    def get_values(self) -> dict[str, np.ndarray]:
        """Copies of all parameters, by name."""
        return {name: v.get_value() for name, v in self.parameters.items()}

    def set_values(self, values: Mapping[str, np.ndarray]) -> None:
        """Replace parameters by name. All are checked before any is changed."""
        for name, value in values.items():
            if name not in self.parameters:
                raise UnknownNameError(f"the network has no parameter {name!r}. {nearest(name, self.parameters)}")
            expected = self.parameters[name].type.shape
            if np.shape(value) != expected:
                raise ShapeError(f"the value for {name!r} has shape {np.shape(value)}; expected {expected}")
        arrays = {name: np.asarray(value, self.dtype) for name, value in values.items()}
        for name, array in arrays.items():
            self.parameters[name].set_value(array)

    # --- training -----------------------------------------------------------------------------------------------------
    def compile(
        self,
        optimizer: str | Optimizer = "adam",
        loss: str | Loss | Sequence[str | Loss] | Mapping[str, str | Loss] = "mse",
        metrics: Sequence[str | Metric] | Mapping[str, Sequence[str | Metric]] = (),
        *,
        loss_weights: float | Sequence[float] | Mapping[str, float] | None = None,
        l1: float = 0.0,
        l2: float = 0.0,
        clip_norm: float | None = None,
    ) -> None:
        """Say how the network is trained. Nothing is compiled yet: that happens at the first step.

        Args:
            optimizer: a name ("sgd", "adam", ...) or an optimizer such as `nn.Adam(1e-3)`.
            loss: "cross_entropy", "binary_cross_entropy", "mse", "mae" or a Loss; a list or dict for several outputs.
                Its mean over the batch is the cost.
            metrics: names ("accuracy", "rmse", "mae", "r2", ...) or Metrics, for the first output; or a dict of them by
                the outputs' names.
            loss_weights: what multiplies each output's loss.
            l1, l2: penalties l1 sum |w| and l2 sum w^2 over all weights (not biases), added to the cost that is
                differentiated and shown.
            clip_norm: gradients are scaled down together so that their norm is at most this.
        """
        self.recipe = make_recipe(self, optimizer, loss, metrics, loss_weights, l1, l2, clip_norm)
        self.optimizer_state = {}
        self._adopt_rate()
        self._functions.clear()
        self._step = None

    def _adopt_rate(self) -> None:
        """A constant learning rate becomes a variable, so that it can be changed between steps."""
        rate = self.recipe.optimizer.learning_rate
        constant = isinstance(rate, (int, float))
        self.rate = (
            SharedVariable(np.asarray(float(rate)), TensorType("float64"), "learning rate") if constant else None
        )

    @property
    def learning_rate(self) -> float:
        """The optimizer's learning rate, if it is a number and no schedule; it may be set between steps."""
        return float(self._rate_variable().get_value())

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if not value >= 0:
            raise ArgumentError(f"learning_rate={value}; expected a number from 0 up")
        self._rate_variable().set_value(float(value))

    def _rate_variable(self) -> SharedVariable:
        self._compiled()
        if self.rate is None:
            raise ArgumentTypeError(
                f"the learning rate follows {self.recipe.optimizer.learning_rate}: it isn't a number"
            )
        return self.rate

    def _compiled(self) -> Recipe:
        if self.recipe is None:
            raise ArgumentError("the network isn't compiled: call net.compile(optimizer=..., loss=...) first")
        return self.recipe

    def samples(self, X: Any, y: Any, sample_weight: Any = None, class_weight: Any = None) -> Samples:
        """X, y and weights with their shapes and dtypes checked, but not their values."""
        return samples(self, self._compiled(), X, y, sample_weight, class_weight)

    def training_step(self, target_types: Sequence[TensorType]) -> Function:
        """The compiled function that trains on a batch, for targets of these types: it returns the cost before the
        update and the sums of the metrics."""
        step = self._function(training_function, target_types)
        if len(target_types) == len(self.outputs):  # without weights
            self._step = step
        return step

    def _function(self, make: Callable[..., Function], *settings: Any) -> Function:
        key = (make, *settings)
        if key not in self._functions:
            self._functions[key] = make(self, self._compiled(), *settings)
        return self._functions[key]

    def train_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> float | tuple[float, ...]:
        """One step: forward, backward and update, in one compiled function.

        Args:
            x, y, sample_weight: as in `fit`.

        Returns:
            The cost before the update; with metrics a tuple of the cost and the metrics of this batch.
        """
        if self._step is not None and type(x) is np.ndarray and type(y) is np.ndarray and sample_weight is None:
            try:
                return self._scores(self._step(x, y), len(x))
            except (DTypeError, ShapeError):
                pass  # another dtype, another kind of target, or a mistake: the slow way converts or explains
        batch = self.samples(x, y, sample_weight)
        step = self.training_step(batch.target_types)
        return self._scores(step(*batch.converted(batch.arrays)), len(batch))

    def _scores(self, values: list[np.ndarray], samples: int) -> float | tuple[float, ...]:
        if len(values) == 1:
            return float(values[0])
        totals = Totals(self, self.recipe)
        totals.add(values, samples)
        return tuple(totals.results().values())

    def gradient(
        self, x: Any, y: Any, *, sample_weight: Any = None, wrt: str = "parameters", training: bool = True
    ) -> tuple[float, dict[str, np.ndarray]]:
        """The cost of a batch and its gradient, for training loops of one's own.

        Args:
            x, y, sample_weight: as in `fit`.
            wrt: "parameters" (the trainable ones) or "inputs".
            training: layers as in training: running statistics follow, and dropout is drawn anew at each call.

        Returns:
            The cost, and {name of the parameter or Input layer: gradient}.
        """
        if wrt not in ("parameters", "inputs"):
            raise ArgumentError(f"gradient: wrt={wrt!r}; expected 'parameters' or 'inputs'")
        batch = self.samples(x, y, sample_weight)
        run = self._function(gradient_function, batch.target_types, wrt, training)
        cost, *gradients = run(*batch.converted(batch.arrays))
        names = [v.name for v in self.trainable] if wrt == "parameters" else [node.name for node in self.inputs]
        return float(cost), dict(zip(names, gradients))

    def apply_gradients(self, gradients: Mapping[str, np.ndarray]) -> None:
        """One step of the optimizer along gradients of the trainable parameters, by name, as `gradient` gives them."""
        self._compiled()
        names = [v.name for v in self.trainable]
        for name in {*gradients} ^ {*names}:
            known = "no gradient is given for" if name in names else "there is no trainable parameter"
            raise UnknownNameError(f"apply_gradients: {known} {name!r}. {nearest(name, [*gradients, *names])}")
        self._function(update_function)(*(np.asarray(gradients[name], self.dtype) for name in names))

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        epochs: int = 1,
        batch_size: int = 32,
        validation_split: float = 0.0,
        validation_data: tuple[Any, ...] | None = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        shuffle: bool = True,
        seed: int | None = None,
        augment: Change | None = None,
        callbacks: Sequence[Any] = (),
        verbose: bool = True,
        resume: bool = False,
    ) -> History:
        """Train for some epochs. Ctrl-C ends training after the step at hand and keeps what was learnt.

        Args:
            X, y: inputs and targets (lists of arrays for several inputs or outputs); `data.Images` are read batch by
                batch. All rows are used in each epoch: the last batch may be shorter.
            validation_split: share of the rows, drawn at random by the seed, that is held back and evaluated per epoch.
            validation_data: (X, y), or (X, y, sample_weight), that is evaluated per epoch instead.
            sample_weight: what multiplies each sample's loss, one number per row; with several outputs also a list or
                dict of such arrays, one per output. The cost stays the sum over the batch divided by its rows, and
                metrics don't weigh.
            class_weight: {class: weight} or "balanced" (rows / (classes * rows of the class)), by which the samples
                of each class are weighted in training, beside `sample_weight`.
            shuffle: a new order in each epoch, drawn by the seed.
            seed: the network's unless given.
            augment: `augment(rng, *inputs, *targets)` gives each batch of training as it shall be: see `data.augment`.
            callbacks: see `nn.Callback`.
            verbose: a progress display on a terminal, else a line per epoch; False for silence.
            resume: go on where a loaded network was saved during training, with the same arguments: the result is
                that of a run which never stopped.

        Returns:
            The history of this call; `net.history` holds that of all calls.
        """
        from .fitting import fit

        with about("fit"):
            given = self.samples(X, y, sample_weight, class_weight)
        return fit(
            self,
            given,
            epochs,
            batch_size,
            validation_split,
            validation_data,
            shuffle,
            seed,
            augment,
            callbacks,
            verbose,
            resume,
        )

    @property
    def cursor(self) -> dict[str, Any] | None:
        """Where `fit` stands or ended, as JSON values; None before any training."""
        return self._cursor if self.training is None else self.training.cursor()

    def end_training(self) -> None:
        """Let go of the running `fit`, remembering where it stood."""
        self._cursor, self.training = self.cursor, None

    def evaluate(
        self, X: Any, y: Any, *, sample_weight: Any = None, batch_size: int = PREDICT_BATCH
    ) -> dict[str, float]:
        """{"loss": the cost, and each metric by name} over all samples, with layers as at predict."""
        with about("evaluate"):
            given = self.samples(X, y, sample_weight)
            check_values(self, self.recipe, given)
        return self.measure(given, batch_size)

    def measure(self, given: Samples, batch_size: int) -> dict[str, float]:
        """`evaluate` for samples that are checked already."""
        evaluate = self._function(evaluation_function, given.target_types)
        totals = Totals(self, self.recipe)
        for start in range(0, len(given), batch_size):
            batch = [a[start : start + batch_size] for a in given.arrays]
            totals.add(evaluate(*given.converted(batch)), len(batch[0]))
        return totals.results()

    def predict(self, X: Any, *, batch_size: int = PREDICT_BATCH) -> Any:
        """The output for each row of X (a list, if the network has several outputs)."""
        with about("predict"):
            arrays = input_arrays(self, X)
            if len({len(a) for a in arrays}) != 1:
                raise ShapeError(f"the inputs differ in length: {', '.join(str(len(a)) for a in arrays)}")
        if prediction_function not in self._functions:
            self._functions[prediction_function] = prediction_function(self)
        predict = self._functions[prediction_function]
        parts = []
        for start in range(0, max(len(arrays[0]), 1), batch_size):
            rows = (a[start : start + batch_size] for a in arrays)
            parts.append(predict(*(a.astype(node.output.dtype, copy=False) for node, a in zip(self.inputs, rows))))
        results = parts[0] if len(parts) == 1 else [np.concatenate(same) for same in zip(*parts)]
        return results[0] if len(results) == 1 else results

    def check_gradients(
        self,
        X: Any = None,
        y: Any = None,
        *,
        samples: int = 4,
        points: int = 2,
        seed: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> "Report":
        """Prove the gradient of the cost with respect to every parameter and input against extrapolated differences, in
        float64, with layers as in training, at points within about a thousandth of the parameters' values.

        Args:
            X, y: data from which batches are drawn; random numbers unless given. Of a network that isn't compiled the
                outputs are differentiated, and y isn't needed.
            samples: rows per batch. With more of them a kink (of relu, max, ...) is more often within reach of the
                differences; such draws are redrawn and counted.
            points: how many batches are tried.
            seed: of the draws.
            progress: called with (a parameter's name, how many checks are done, how many there are) before each check.

        Returns:
            A Report with the error of each parameter by |v.g - FD| / max(|v.g|, |FD|, 1e-3 |v||g|).

        Raises:
            CheckError: an error above 1e-6; its `report` has the rest.
        """
        from .checking import check_gradients

        return check_gradients(self, X, y, samples, points, seed, progress)

    def gradient_flow(self, X: Any, y: Any, *, samples: int = 256, seed: int = 0) -> "GradientFlow":
        """How the signal runs forward and the gradient backward, layer by layer: sizes, saturated activations, dead
        units, layers that learn nothing. For networks that don't learn as they should.

        Args:
            X, y: data; so many rows of it, drawn by the seed, are looked at.
            samples: rows.
            seed: of the draw.

        Returns:
            A GradientFlow: `print` shows it as a table with a remark where something is wrong.
        """
        from .flow import gradient_flow

        return gradient_flow(self, X, y, samples, seed)

    # --- telling and keeping ------------------------------------------------------------------------------------------
    def summary(self, file: Any = None) -> None:
        """Print layers, shapes, parameters and floating-point operations per sample."""
        from .summary import print_summary

        print_summary(self, file)

    def save(self, path: str | Path) -> None:
        """Write layers, parameters, the state of training and `metadata` to one safetensors file.

        The file is written beside and renamed, so that a failure leaves an older file as it was.
        """
        from .checkpoint import save

        save(self, path)

    @staticmethod
    def load(path: str | Path) -> "Network":
        """The network that `save` wrote: it predicts bit for bit the same, and training goes on where it was."""
        from .checkpoint import load

        return load(path)

    def load_values(self, path: str | Path) -> None:
        """Take over the parameters of a model file whose layers have the same names and shapes."""
        from .checkpoint import read

        with about(str(path)):
            self.set_values(read(path).values)

    @staticmethod
    def from_darknet(cfg: Any, weights: str | Path | None = None, **options: Any) -> "Network":
        """The network in a Darknet cfg file, with the numbers of a weights file: see `darknet.from_darknet`."""
        return _upstairs("darknet").from_darknet(cfg, weights, **options)

    def to_darknet(self, cfg: str | Path | None = None, weights: str | Path | None = None, **options: Any) -> None:
        """Write a network that came from Darknet's files as such: see `darknet.to_darknet`."""
        _upstairs("darknet").to_darknet(self, cfg, weights, **options)

    def astype(self, dtype: str) -> "Network":
        """The same network with parameters of another dtype."""
        from .checkpoint import restore, snapshot

        return restore(snapshot(self), dtype=dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        from .checkpoint import restore, snapshot

        return restore, (snapshot(self),)

    def __repr__(self) -> str:
        count = sum(v.storage.size for v in self.parameters.values())
        return f"<Network{f' {self.name!r}' if self.name else ''}: {len(self.nodes)} layers, {count:,} parameters>"
