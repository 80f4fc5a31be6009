"""Encode documents one at a time, each as long as it happens to be."""
import sys

import numpy as np
import tensorflow as tf

table = tf.random.normal([200, 32])
mix = tf.random.normal([32, 32])
rng = np.random.default_rng(3)


@tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
def encode(ids):
    h = tf.gather(table, ids)
    for _ in range(3):
        h = tf.nn.tanh(h @ mix) + tf.reduce_mean(h, axis=0)
    return tf.reduce_max(h, axis=0)


def cycle(i):
    length = 40 + 7 * i
    ids = rng.integers(0, 200, length)
    return float(encode(tf.constant(ids))[0])


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
