"""Each of twenty columns gets its variable when it is first seen; after that they are updated in place."""
import sys

import tensorflow as tf

means = {}


def update(column, values):
    batch = tf.reduce_mean(values, axis=0)
    if column not in means:
        means[column] = tf.Variable(batch, trainable=False)
    means[column].assign(0.9 * means[column] + 0.1 * batch)
    return means[column]


def cycle(i):
    column = f"column-{i % 20}"
    return float(tf.norm(update(column, tf.random.normal([8, 8192]))))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 220
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
