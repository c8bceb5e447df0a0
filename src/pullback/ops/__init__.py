"""What can be computed: every op with its type rule, its meaning and its gradient on one screen."""

from types import ModuleType as _ModuleType

from .activation import *
from .arithmetic import *
from .attention import *
from .bessel import *
from .boxes import *
from .clipping import *
from .collective import *
from .conv import *
from .creation import *
from .ctc import *
from .cumulative import *
from .diagonal import *
from .einsum import *
from .elementwise import broadcast_like, cast, sum_to
from .extremes import *
from .gather import *
from .gradient_views import *
from .indexing import *
from .linear import *
from .losses import *
from .neibs import *
from .norm import *
from .pool import *
from .random import *
from .rearrange import *
from .recurrent import *
from .reduce import *
from .shape import *
from .softmax import *
from .sorting import *
from .transcendental import *
from .upsample import *

from . import linalg, operators  # isort: skip  (last: it gives Variable the methods that the modules above define)

__all__ = [name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType)]
__all__ += ["linalg"]
