"""Every fiftieth turn the index is rebuilt: the old one is replaced, three times as many rows stay for a moment."""
import sys

import tensorflow as tf


class Index:
    def __init__(self):
        self.rows, self.fresh = tf.random.normal([400, 128]), []

    def add(self, row):
        self.fresh.append(row)
        if len(self.fresh) == 50:
            everything = tf.concat([self.rows, *self.fresh], axis=0)
            order = tf.argsort(tf.norm(everything, axis=1))
            self.rows = tf.gather(everything, order[:400])
            self.fresh = []

    def nearest(self, row):
        return int(tf.argmin(tf.reduce_sum(tf.square(self.rows - row[0]), axis=1)))


index = Index()


def cycle(i):
    row = tf.random.normal([16, 128])
    index.add(row)
    return index.nearest(row)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 260
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
