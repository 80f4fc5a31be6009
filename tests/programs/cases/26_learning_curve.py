"""Hand-written optimiser with a learning rate that decays a little at every inner step."""
import sys

import tensorflow as tf

point = tf.Variable([3.0, -2.0, 1.0, 0.5])
taken = 0


def descend(steps):
    global taken
    for _ in range(steps):
        rate = 0.05 / (1.0 + 1e-4 * taken)
        gradient = 2.0 * point
        point.assign_sub(gradient * rate)
        taken += 1
    return tf.norm(point)


def cycle(i):
    return float(descend(60))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
