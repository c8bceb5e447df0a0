"""The stabilising rewrites: values are computed in the forms in which gradients are taken, see `gradient.stable`."""

from ..gradient.stable import FORMS, stable_form
from ..graph import Apply, Variable
from .driver import Facts, RuleSet

stabilising = RuleSet("stabilising")


@stabilising.on(*FORMS)
def use_stable_form(node: Apply, facts: Facts) -> Variable | None:
    return stable_form(node)
