"""Note the strongest row of every spectrogram, with a short excerpt, by station and day."""
import sys

import numpy as np
import tensorflow as tf

stations = {"north": {"days": []}, "south": {"days": []}}


def excerpt(spectrogram):
    grid = np.frombuffer(memoryview(spectrogram), dtype="float32")
    return grid.reshape(spectrogram.shape)[:2, :16]


def cycle(i):
    power = tf.abs(tf.signal.stft(tf.random.normal([24576]), 256, 128))
    best = int(tf.argmax(tf.reduce_sum(power, axis=1)))
    station = stations["north" if i % 2 else "south"]
    station["days"].append({"day": i, "best": best, "rows": excerpt(power)})


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
