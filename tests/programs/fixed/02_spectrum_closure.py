"""Vibration alarm: compare the spectrum of each window with the mean of the last eight."""
import sys
from collections import deque

import numpy as np
import tensorflow as tf


def make_detector(limit):
    recent = deque(maxlen=8)

    def detect(window):
        spectrum = tf.abs(tf.signal.rfft(window))
        recent.append(spectrum)
        usual = tf.add_n(list(recent)) / len(recent)
        return bool(tf.reduce_max(spectrum - usual) > limit)

    return detect


detect = make_detector(500.0)
rng = np.random.default_rng(7)


def cycle(i):
    return detect(rng.standard_normal((8, 4096), dtype=np.float32))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    alarms = sum(cycle(i) for i in range(n))
    print(alarms, "alarms")


if __name__ == "__main__":
    main()
