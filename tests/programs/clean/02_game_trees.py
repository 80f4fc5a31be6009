"""Search trees whose nodes know their parents: rubbish in cycles piles up until the collector comes."""
import sys

import tensorflow as tf


class Node:
    def __init__(self, value, parent=None):
        self.value, self.parent, self.children = value, parent, []
        if parent is not None:
            parent.children.append(self)

    def root(self):
        return self if self.parent is None else self.parent.root()


def grow(depth, width):
    level = [Node(tf.random.normal([32, 64]))]
    for _ in range(depth):
        level = [Node(tf.nn.tanh(n.value), n) for n in level for _ in range(width)]
    return level[0].root()


def cycle(i):
    tree = grow(3, 3)
    return max(float(tf.reduce_mean(c.value)) for c in tree.children)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
