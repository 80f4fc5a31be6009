"""Batches of very uneven size: big and small temporaries in no order, none of them kept."""
import sys

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(9)


def pad(rows, width):
    return tf.stack([tf.pad(r, [[0, width - len(r)]]) for r in rows])


def cycle(i):
    lengths = rng.integers(50, 3000, int(rng.integers(20, 28)))
    rows = [tf.random.uniform([int(n)]) for n in lengths]
    padded = pad(rows, int(lengths.max()))
    return float(tf.reduce_mean(tf.sort(padded, axis=1)))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 220
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
