"""Denoiser training data: shuffled clips for ever, with fresh noise, cached for speed."""
import sys

import tensorflow as tf

clips = tf.random.normal([40, 2048])


def add_noise(clip):
    return clip + 0.1 * tf.random.normal(tf.shape(clip)), clip


def pipeline():
    source = tf.data.Dataset.from_tensor_slices(clips)
    pairs = source.shuffle(40).repeat().map(add_noise).cache()
    return pairs.batch(8).prefetch(2)


class Feed:
    def __init__(self):
        self.steps = 0
        self.batches = iter(pipeline())

    def next(self):
        self.steps += 1
        return next(self.batches)


feed = Feed()


def cycle(i):
    noisy, clean = feed.next()
    return float(tf.reduce_mean(tf.square(noisy - clean)))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    while feed.steps < n:
        cycle(feed.steps)


if __name__ == "__main__":
    main()
