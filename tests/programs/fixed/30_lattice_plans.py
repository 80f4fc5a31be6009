"""Plan walks on lattices, each of which is walked twice."""
import sys

import tensorflow as tf


class Lattice:
    def __init__(self, obstacles):
        self.cost = tf.nn.relu(obstacles)


def plan(lattice, goal):
    reach = tf.cumsum(tf.cumsum(lattice.cost, axis=0), axis=1)
    return float(reach[goal, goal])


def cycle(i):
    lattice = Lattice(tf.random.normal([128, 128]))
    return plan(lattice, 20) + plan(lattice, 40)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
