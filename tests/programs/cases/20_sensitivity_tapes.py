"""Sensitivities on demand: the tape of each scenario is kept in case somebody asks."""
import sys

import tensorflow as tf

rates = tf.Variable(tf.linspace(0.01, 0.05, 128))
exposure = tf.random.normal([128, 64])


class Book:
    def __init__(self):
        self.scenarios = {}

    def value(self, name, shocks):
        with tf.GradientTape(persistent=True) as tape:
            discount = tf.exp(-shocks * rates)
            total = tf.reduce_sum(discount @ exposure)
        self.scenarios[name] = (tape, total)
        return float(total)

    def sensitivity(self, name):
        tape, total = self.scenarios[name]
        return tape.gradient(total, rates)


book = Book()


def cycle(i):
    name = f"scenario-{i}"
    book.value(name, tf.random.uniform([128, 128]))
    return float(tf.norm(book.sensitivity(name)))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
