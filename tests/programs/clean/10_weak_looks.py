"""Finished looks are found again by name while somebody holds them: the table only has weak references."""
import sys
import weakref
from collections import deque

import tensorflow as tf


class Look:
    def __init__(self, name):
        self.name = name
        self.pixels = tf.image.adjust_contrast(tf.random.uniform([64, 64, 3]), 1.2)


looks = weakref.WeakValueDictionary()
on_screen = deque(maxlen=5)


def open_look(name):
    look = looks.get(name)
    if look is None:
        look = looks[name] = Look(name)
    on_screen.append(look)
    return look


def cycle(i):
    return float(tf.reduce_mean(open_look(f"look-{i - i % 3}").pixels))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 220
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
