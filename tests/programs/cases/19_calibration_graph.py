"""A TF1 estimator that is calibrated over and over with the offset of the hour."""
import sys

import numpy as np
import tensorflow.compat.v1 as tf

graph = tf.Graph()
with graph.as_default():
    readings = tf.placeholder(tf.float32, [None, 128])
    gains = tf.Variable(tf.ones([128]))
    start = tf.global_variables_initializer()
session = tf.Session(graph=graph)
session.run(start)
rng = np.random.default_rng(5)


def corrected(offsets):
    with graph.as_default():
        shifted = (readings - tf.constant(offsets)) * gains
        return tf.sqrt(tf.reduce_mean(tf.square(shifted)))


def cycle(i):
    offsets = rng.random((64, 128), dtype=np.float32)
    return session.run(corrected(offsets), {readings: rng.random((64, 128))})


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for i in range(n):
        cycle(i)
    session.close()


if __name__ == "__main__":
    main()
