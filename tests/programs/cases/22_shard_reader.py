"""Read one shard of measurements after the other through a Python reader."""
import sys

import numpy as np
import tensorflow as tf


class ShardReader:
    def __init__(self, seed):
        self.rows = np.random.default_rng(seed).random((400, 96), dtype=np.float32)

    def __iter__(self):
        yield from self.rows[::20]

    def dataset(self):
        spec = tf.TensorSpec([96], tf.float32)
        return tf.data.Dataset.from_generator(lambda: iter(self), output_signature=spec)


def cycle(i):
    reader = ShardReader(i)
    best = tf.constant(float("-inf"))
    for batch in reader.dataset().batch(10):
        best = tf.maximum(best, tf.reduce_max(batch))
    return float(best)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for shard in range(n):
        cycle(shard)


if __name__ == "__main__":
    main()
