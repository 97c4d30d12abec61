"""Checks a forged batch with numpy alone: python docs/check_forgery.py docs/forged/softmax-mnist.npz

The file holds two batches of images with labels, and the weights of a network before one step of SGD. This script
computes the step from each batch, in float32 and in float64, and says how far apart the results are. It uses no code
of trainwitness. Networks: fully connected, ReLU between layers, softmax cross-entropy, inputs divided by 255.
"""

import sys

import numpy as np


def step(layers, rate, images, labels, kind):
    """The parameters after one step of plain SGD on the mean loss."""
    acts, x = [], (images.reshape(len(images), -1).astype(kind) / kind(255))
    for k, (weight, bias) in enumerate(layers):
        acts.append(x)
        z = x @ weight.astype(kind).T + bias.astype(kind)
        x = np.maximum(z, 0) if k + 1 < len(layers) else z
    p = np.exp(x - x.max(1, keepdims=True))
    error = p / p.sum(1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= kind(len(labels))
    after = []
    for k in range(len(layers) - 1, -1, -1):
        weight, bias = (part.astype(kind) for part in layers[k])
        after += [weight - kind(rate) * (error.T @ acts[k]), bias - kind(rate) * error.sum(0)]
        if k:
            error = (error @ weight) * (acts[k] > 0)
    return np.concatenate([part.ravel() for part in after])


def main(path):
    data = np.load(path, allow_pickle=False)
    original, forged = data["original"], data["forged"]
    labels, forged_labels = data["labels"].astype(int), data["forged_labels"].astype(int)
    names = {key.rpartition(".")[0] for key in data if key.startswith("param/")}
    names = sorted(names, key=lambda name: int(name.removeprefix("param/")))
    layers = [(data[f"{name}.weight"], data[f"{name}.bias"]) for name in names]
    rate = float(data["learning_rate"])
    b = len(original)
    size = sum(weight.size + bias.size for weight, bias in layers)
    print(f"{b} images of {original[0].size} pixels, {size:,} parameters, learning rate {rate}")
    valid = forged.dtype == np.uint8 and forged.shape == original.shape  # whole numbers in 0..255, nothing else fits
    rms = np.sqrt(((forged.astype(float) - original.astype(float)) ** 2).reshape(b, -1).mean(1))
    print(f"forged images are whole numbers in 0..255: {valid}; labels unchanged: {(labels == forged_labels).all()}")
    print(f"images that differ: {(rms > 0).sum()} of {b}; by {rms.min():.1f} to {rms.max():.1f} grey levels (rms)")
    here = set(map(bytes, original.reshape(b, -1))) & set(map(bytes, forged.reshape(b, -1)))
    print(f"images of the original batch found in the forged one: {len(here)}")
    for kind in (np.float32, np.float64):
        one = step(layers, rate, original, labels, kind).astype(float)
        other = step(layers, rate, forged, forged_labels, kind).astype(float)
        start = np.concatenate([part.ravel() for layer in reversed(layers) for part in layer]).astype(float)
        line = f"{kind.__name__}: the steps differ by {np.linalg.norm(one - other):.2e} (l2)"
        print(f"{line}, the step itself is {np.linalg.norm(one - start):.2e} long")
    rng, honest = np.random.default_rng(0), step(layers, rate, original, labels, np.float32).astype(float)
    orders = [rng.permutation(b) for _ in range(20)]
    noise = [np.linalg.norm(step(layers, rate, original[o], labels[o], np.float32) - honest) for o in orders]
    print(f"float32, the original batch in 20 other orders: up to {max(noise):.2e}")


if __name__ == "__main__":
    main(sys.argv[1])
