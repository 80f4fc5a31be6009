"""A compiled function that is traced for each of twelve picture sizes, and then never again."""
import sys

import tensorflow as tf

sizes = [(24 + 8 * k, 32 + 4 * k) for k in range(12)]


@tf.function
def sharpness(picture):
    edges = tf.image.sobel_edges(picture[None, :, :, None])
    return tf.reduce_mean(tf.square(edges))


def cycle(i):
    return float(sharpness(tf.random.uniform(sizes[i * 5 % 12])))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
