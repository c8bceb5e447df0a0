"""`pullback train model.cfg --data my.data`: a detector, trained as Darknet does."""

import time
from argparse import Namespace
from pathlib import Path

from ..darknet import from_darknet, read_cfg, read_data
from ..darknet.detector import Detector
from ..darknet.training import PhotoFiles, Trainer
from ..errors import ArgumentError, FileAccessError
from ..nn.fitting import interrupts
from .map import measure, print_evaluation

SHOWN_EVERY = 10  # batches
SAVED_EVERY = 100  # batches


def run(options: Namespace) -> None:
    """Train until max_batches, with a backup every hundred batches, then measure on the images held back."""
    data = read_data(options.data)
    if data.train is None:
        raise ArgumentError(f"{options.data} names no images to train on: add a line `train = train.txt`")
    cfg = read_cfg(options.source)
    changing = any(section.real("random", 0.0) for section in cfg.layers)
    network = from_darknet(
        cfg,
        options.weights,
        dialect=options.dialect,
        any_size=changing,
        darknet_gradients=options.darknet_gradients,
        seed=options.seed,
    )
    trainer = Trainer(
        network, PhotoFiles(data.train, data.classes), seed=options.seed, darknet_gradients=options.darknet_gradients
    )
    if Detector(network).classes != data.classes:
        raise ArgumentError(f"{options.data} has {data.classes} classes, the network {Detector(network).classes}")
    if not trainer.regime.max_batches:
        raise ArgumentError(f"{options.source}: [net] has no max_batches, so training would never end")
    folder, name = _writable(data.backup), Path(options.source).stem
    network.summary()
    if trainer.seen:
        print(f"going on after {trainer.seen:,} images")
    _train(trainer, folder / f"{name}.backup")
    trainer.save(folder / f"{name}_final.weights")
    print(f"Wrote {folder / f'{name}_final.weights'} after {trainer.batches} batches, {trainer.seen:,} images")
    if trainer.averaged is not None:
        trainer.save(folder / f"{name}_ema.weights", averaged=True)
        print(f"Wrote {folder / f'{name}_ema.weights'}, the running average of the weights")
    if data.valid is not None:
        weights = folder / f"{name}_final.weights"
        detector = Detector(from_darknet(cfg, weights, dialect=options.dialect), threshold=0.005)
        print_evaluation(measure(detector, data, 0.5, 0), data.names)


def _train(trainer: Trainer, backup: Path) -> None:
    from rich.progress import Progress

    begin, first = time.perf_counter(), trainer.batches
    with Progress() as progress, interrupts() as interrupted:
        task = progress.add_task("training", total=trainer.regime.max_batches, completed=first)
        for batch, cost in trainer:
            progress.update(task, completed=batch, description=f"average {trainer.average:.3f}")
            if batch % SHOWN_EVERY == 0 or batch == trainer.regime.max_batches:
                speed = (time.perf_counter() - begin) / (batch - first)
                progress.console.print(
                    f"batch {batch}: cost {cost:.4f}, average {trainer.average:.4f}, rate "
                    f"{trainer.learning_rate:.3g}, {speed:.2f} s per batch, {trainer.seen:,} images",
                    highlight=False,
                )
            if batch % SAVED_EVERY == 0 or interrupted or batch == trainer.regime.max_batches:
                trainer.save(backup)
            if interrupted:
                progress.console.print(f"interrupted: go on with --weights {backup}")
                return


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        raise FileAccessError(f"can't write into the backup folder {folder}: {error.strerror}") from None
    return folder
