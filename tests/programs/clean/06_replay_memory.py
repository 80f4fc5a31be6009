"""Replay memory for a learner: it fills up to sixty transitions, then the oldest is overwritten."""
import sys

import numpy as np
import tensorflow as tf


class Replay:
    def __init__(self, limit):
        self.limit, self.items, self.written = limit, [], 0
        self.rng = np.random.default_rng(4)

    def add(self, item):
        if len(self.items) < self.limit:
            self.items.append(item)
        else:
            self.items[self.written % self.limit] = item
        self.written += 1

    def sample(self, k):
        return [self.items[j] for j in self.rng.integers(0, len(self.items), k)]


memory = Replay(60)


def cycle(i):
    state = tf.random.normal([64, 64])
    memory.add({"state": state, "next": tf.nn.tanh(state), "reward": float(i % 5)})
    return float(tf.reduce_mean([t["reward"] + tf.reduce_mean(t["next"]) for t in memory.sample(4)]))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 260
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
