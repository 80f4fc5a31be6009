"""Control loop: the plant model is set up on an ExitStack that stays open until shutdown."""
import sys
from contextlib import ExitStack

import tensorflow as tf

stack = ExitStack()
stack.enter_context(tf.device("CPU:0"))
plant = tf.Variable(tf.random.normal([96, 96]) * 0.05)


def simulate(state):
    for _ in range(3):
        state = tf.nn.tanh(state @ plant)
    return tf.reduce_mean(state)


def cycle(i):
    return float(simulate(tf.random.normal([48, 96])))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for i in range(n):
        cycle(i)
    stack.close()


if __name__ == "__main__":
    main()
