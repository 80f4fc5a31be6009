"""A generator that segments a signal while it arrives; it is fed with send()."""
import sys

import tensorflow as tf


def segmenter(threshold):
    chunks, boundaries = [], []
    answer = None
    while True:
        chunk = yield answer
        level = tf.nn.moments(chunk, axes=[1])[1]
        chunks.append(tf.nn.l2_normalize(chunk, axis=1))
        answer = float(tf.reduce_max(level)) > threshold
        if answer:
            boundaries.append(len(chunks))


running = segmenter(1.5)
next(running)


def cycle(i):
    return running.send(tf.random.normal([16, 1024]))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)
    running.close()


if __name__ == "__main__":
    main()
