"""Adversarial step whose gradient is clipped at a bound that is decided anew each round."""
import sys

import tensorflow as tf

features = tf.random.normal([64, 128])


class Clipped:
    def __init__(self, bound):
        self.bound = bound
        self.critic = tf.Variable(tf.random.normal([128, 128]))

    def build(self):
        @tf.custom_gradient
        def clip(h):
            return h, lambda dy: tf.clip_by_value(dy, -self.bound, self.bound)

        @tf.function
        def attack(v):
            with tf.GradientTape() as tape:
                tape.watch(v)
                loss = tf.reduce_sum(clip(v @ self.critic))
            return tape.gradient(loss, v)

        return attack


def cycle(i):
    attack = Clipped(0.1 + 0.1 * (i % 5)).build()
    return float(tf.reduce_mean(attack(features)))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
