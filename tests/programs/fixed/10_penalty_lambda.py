"""Search a penalty: the step takes its strength as a tensor."""
import sys

import numpy as np
import tensorflow as tf

w = tf.Variable(tf.random.normal([64, 8]))
x = tf.constant(np.random.rand(32, 64).astype("float32"))
y = tf.constant(np.random.rand(32, 8).astype("float32"))


@tf.function
def step(strength):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - y) ** 2) + tf.reduce_sum(strength * tf.abs(w))
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


def cycle(i):
    strength = tf.constant([0.001 * (i % 10)])
    return float(step(strength))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
