"""A decoder that carries its keys and values along from chunk to chunk of an endless text."""
import sys

import tensorflow as tf


class Decoder:
    def __init__(self, width):
        self.wk = tf.random.normal([width, width])
        self.wv = tf.random.normal([width, width])
        self.memory = {"keys": tf.zeros([0, width]), "values": tf.zeros([0, width])}

    def read(self, chunk):
        self.memory["keys"] = tf.concat([self.memory["keys"], chunk @ self.wk], axis=0)
        self.memory["values"] = tf.concat([self.memory["values"], chunk @ self.wv], axis=0)
        scores = tf.reduce_sum(self.memory["keys"] * chunk[-1], axis=1, keepdims=True)
        return tf.reduce_sum(self.memory["values"] * tf.nn.softmax(scores, axis=0), axis=0)


decoder = Decoder(256)


def cycle(i):
    return float(tf.reduce_mean(decoder.read(tf.random.normal([16, 256]))))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
