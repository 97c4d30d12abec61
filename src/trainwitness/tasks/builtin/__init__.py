"""The built-in tasks; importing this package registers them."""

from trainwitness.tasks.builtin import deep, fcn, lenet, mlp, sigmoid, softmax, transformer, vggmini

__all__ = ["deep", "fcn", "lenet", "mlp", "sigmoid", "softmax", "transformer", "vggmini"]
