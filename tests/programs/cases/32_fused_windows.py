"""A fused (XLA) filter is run over windows that grow by a few samples each time."""
import sys

import tensorflow as tf


@tf.function(jit_compile=True)
def smooth(signal):
    shifted = tf.roll(signal, 1, axis=0)
    return tf.reduce_mean(tf.sqrt(tf.abs(signal * shifted) + 1.0))


def cycle(i):
    return float(smooth(tf.random.normal([100 + 3 * i])))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 80
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
