"""Particle filter whose runs must be repeatable."""
import sys

import tensorflow as tf

dice = tf.random.Generator.from_seed(2024)


class Filter:
    def __init__(self, particles):
        self.state = tf.zeros([particles, 4])

    def step(self, observation):
        self.state += dice.normal(self.state.shape, stddev=0.1)
        weights = tf.exp(-tf.reduce_sum(tf.square(self.state - observation), axis=1))
        keep = tf.random.stateless_categorical(
            tf.math.log(weights[None, :] + 1e-9), len(self.state), dice.make_seeds(1)[:, 0]
        )
        self.state = tf.gather(self.state, keep[0])
        return tf.reduce_mean(self.state, axis=0)


tracker = Filter(256)


def cycle(i):
    observation = dice.uniform([4])
    return tracker.step(observation).numpy()


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
