"""The error tree. Every error is a `PullbackError` and also the built-in kind that a caller would expect."""


class PullbackError(Exception):
    """Base of everything that pullback raises on purpose."""


class GraphError(PullbackError, ValueError):
    """An expression is built or used wrongly."""


class ShapeError(PullbackError, ValueError):
    """Shapes that don't fit together."""


class DTypeError(PullbackError, TypeError):
    """A dtype that the operation can't take."""


class ArgumentError(PullbackError, ValueError):
    """An argument outside its legal values."""


class ArgumentTypeError(PullbackError, TypeError):
    """An argument of the wrong kind."""


class IndexRangeError(PullbackError, IndexError):
    """An index outside its axis."""


class UnknownNameError(PullbackError, LookupError):
    """A name that nothing here carries; the message offers the nearest one."""


class UnusedInputError(PullbackError, ValueError):
    """`function` was given an input that no output needs."""


class MissingInputError(PullbackError, ValueError):
    """`function` needs a variable that was not given as an input."""


class MissingPackageError(PullbackError, ImportError):
    """An optional package is needed; the message says what to install."""


class RuleError(PullbackError, TypeError):
    """An op's gradient rule broke the protocol: the message names the op and what it returned."""


class GradientError(PullbackError):
    """Base of the typed refusals to give a gradient."""


class DisconnectedInputError(GradientError, ValueError):
    """The cost is not a function of the variable."""


class UndefinedGradientError(GradientError, TypeError):
    """The derivative does not exist mathematically."""


class NotImplementedGradientError(GradientError, NotImplementedError):
    """The derivative exists, but nobody has written it here."""


class NonFiniteError(PullbackError, FloatingPointError):
    """The NaN guard met a value that isn't finite."""


class KernelError(PullbackError, TypeError):
    """A kernel is outside the typed subset that the compiler takes; the message gives file, line and source."""


class KernelBoundsError(PullbackError, IndexError):
    """A kernel that runs as plain Python reaches outside an array; the message gives kernel, line, pointer, index."""


class FormatError(PullbackError, ValueError):
    """A file is truncated, foreign or damaged."""


class FileAccessError(PullbackError, OSError):
    """A file or folder can't be read or written."""


def nearest(word: str, known) -> str:
    """A sentence that offers the known name nearest to `word`, or lists the names when none is near."""
    import difflib

    known = [str(k) for k in known]
    match = difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    if match:
        return f"Did you mean {match[0]!r}?"
    return f"Known names: {', '.join(sorted(known)) or '(none)'}."
