"""NumPyNet's errors."""

from ...errors import PullbackError


class LayerError(PullbackError, ValueError):
    """A layer can't be made so, or can't follow the layer before it."""


class MetricsError(PullbackError, TypeError):
    """Not a function of (y_true, y_pred)."""


class NetworkError(PullbackError, RuntimeError):
    """The network isn't ready for this."""


class NotFittedError(PullbackError, RuntimeError):
    """backward or update before forward."""
