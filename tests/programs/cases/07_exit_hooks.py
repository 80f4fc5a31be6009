"""Every tenant gets a small model; a hook that would save it runs at shutdown."""
import sys

import keras
import numpy as np


class Shutdown:
    def __init__(self):
        self.hooks = []

    def on_exit(self, hook):
        self.hooks.append(hook)

    def run(self):
        return [hook() for hook in self.hooks]


shutdown = Shutdown()
sample = np.random.rand(4, 64).astype("float32")


def cycle(i):
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(900), keras.layers.Dense(64)])
    shutdown.on_exit(lambda: sum(w.size for w in model.get_weights()))
    return float(np.mean(model(sample)))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for i in range(n):
        cycle(i)
    print(sum(shutdown.run()), "weights")


if __name__ == "__main__":
    main()
