"""Adapters for each customer; the class remembers its instances for a later export."""
import sys
from typing import ClassVar

import tensorflow as tf


class Adapter(tf.Module):
    instances: ClassVar[list] = []

    def __init__(self, rank):
        super().__init__()
        self.down = tf.Variable(tf.random.normal([256, rank]) * 0.05)
        self.up = tf.Variable(tf.zeros([rank, 256]))
        Adapter.instances.append(self)

    def __call__(self, x):
        return x + x @ self.down @ self.up


base = tf.random.normal([16, 256])


def cycle(i):
    adapter = Adapter(rank=16)
    return float(tf.reduce_mean(adapter(base)))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    done = 0
    while done < n:
        cycle(done)
        done += 1


if __name__ == "__main__":
    main()
