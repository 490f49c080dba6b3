"""The methods of the experiment, by their names in the table."""

from hgk.bench.methods.base import Effort, Fitted, Method
from hgk.bench.methods.dnn import DNN

__all__ = ["METHODS", "Effort", "Fitted", "Method"]

METHODS: dict[str, Method] = {method.name: method for method in (DNN(),)}
