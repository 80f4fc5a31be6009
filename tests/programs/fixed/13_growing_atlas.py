"""Keep the last 960 embeddings in one array, for a nearest-neighbour map."""
import sys

import numpy as np
import tensorflow as tf


class Atlas:
    def __init__(self, width):
        self.points = np.zeros((0, width), "float32")
        self.project = tf.random.normal([32, width])

    def add(self, batch):
        vectors = tf.math.l2_normalize(tf.matmul(batch, self.project), axis=1)
        self.points = np.concatenate([self.points, vectors.numpy()])[-960:].copy()

    def __len__(self):
        return len(self.points)


atlas = Atlas(256)


def cycle(i):
    atlas.add(tf.random.normal([48, 32]))
    return len(atlas)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
