"""A sweep that opens two TensorBoard folders for each run, one for training and one for the test."""
import pathlib
import sys
import tempfile

import numpy as np
import tensorflow as tf

folder = pathlib.Path(tempfile.mkdtemp(prefix="sweep-"))


class Sweep:
    def __init__(self):
        self.runs = []

    def start(self, number):
        parts = ("train", "test")
        writers = [tf.summary.create_file_writer(str(folder / f"{number}-{part}")) for part in parts]
        self.runs.append({"number": number, "writers": writers})
        return writers


sweep = Sweep()
weights = np.random.rand(64).astype("float32")


def cycle(i):
    for writer in sweep.start(i):
        with writer.as_default():
            tf.summary.write("weights", tf.constant(weights) * float(i % 3), step=0)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
