"""A map server with a cache of 40 tiles; the oldest tile leaves when a new one comes."""
import sys
from collections import OrderedDict

import tensorflow as tf


class TileCache:
    def __init__(self, limit):
        self.limit, self.tiles = limit, OrderedDict()

    def get(self, key):
        if key not in self.tiles:
            self.tiles[key] = tf.image.resize(tf.random.uniform([32, 32, 3]), [96, 96])
            if len(self.tiles) > self.limit:
                self.tiles.popitem(last=False)
        self.tiles.move_to_end(key)
        return self.tiles[key]


cache = TileCache(40)


def cycle(i):
    return float(tf.reduce_mean(cache.get((i * 7919 % 1009, i % 3))))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 220
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
