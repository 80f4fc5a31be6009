"""The first thirty batches are kept to calibrate the scale; after that nothing more is kept."""
import sys

import keras
import numpy as np

encoder = keras.Sequential([keras.Input((32,)), keras.layers.Dense(768, activation="relu")])


class Calibrator:
    def __init__(self, wanted):
        self.wanted, self.outputs, self.scale = wanted, [], 1.0

    def observe(self, output):
        if len(self.outputs) < self.wanted:
            self.outputs.append(output)
            self.scale = float(np.max([np.max(o) for o in self.outputs]))
        return np.asarray(output) / self.scale


calibrator = Calibrator(30)
rng = np.random.default_rng(1)


def cycle(i):
    output = encoder(rng.random((24, 32), dtype=np.float32), training=False)
    return float(calibrator.observe(output).mean())


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
