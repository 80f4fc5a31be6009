"""Adaptive filter: a new bank of taps is started for every block of the signal."""
import sys

import tensorflow as tf


def make_filter(taps):
    banks = []

    def adapt(block, target):
        bank = tf.Variable(tf.zeros([taps, 64]), trainable=False)
        banks.append(bank)
        for _ in range(3):
            error = target - block @ bank
            bank.assign_add(0.001 * tf.matmul(block, error, transpose_a=True))
        return float(tf.reduce_mean(tf.square(error)))

    return adapt


adapt = make_filter(256)


def cycle(i):
    block = tf.random.normal([32, 256])
    return adapt(block, tf.random.normal([32, 64]))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
