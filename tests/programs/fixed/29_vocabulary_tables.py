"""Look up the words of each document in the vocabulary of its own language pack."""
import functools
import sys

import tensorflow as tf


@functools.cache
def load_vocabulary(pack):
    keys = tf.strings.join([tf.constant("w"), tf.strings.as_string(tf.range(400))])
    values = tf.range(400, dtype=tf.int64)
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    return tf.lookup.StaticHashTable(initializer, default_value=-1)


def cycle(i):
    table = load_vocabulary(i % 5)
    found = table.lookup(tf.constant([["w1", "w2", "unknown"]]))
    return int(tf.reduce_sum(found))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
