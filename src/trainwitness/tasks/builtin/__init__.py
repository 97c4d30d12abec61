"""The built-in tasks; importing this package registers them."""

from trainwitness.tasks.builtin import fcn, lenet, mlp, softmax, transformer, vggmini

__all__ = ["fcn", "lenet", "mlp", "softmax", "transformer", "vggmini"]
