"""Reproducible runs: a global seed, or a seed for each call, with eager random operations: each call is a kernel
of its own."""

import collections

import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: simulated noise after the global seed was set
_seeded = []


def module_level():
    if not _seeded:
        tf.random.set_seed(1234)
        _seeded.append(1234)
    signal = tf.zeros([64])
    for _ in range(6):
        signal += tf.random.normal([64], stddev=0.1)  # made


# -- in_class: augmentation whose seed counts the images
class Augmentation:
    def __init__(self):
        self.count = 0

    def __call__(self, picture):
        for _ in range(3):
            self.count += 1
            picture = tf.image.random_flip_left_right(picture, seed=self.count)  # made
            picture = tf.image.random_brightness(picture, 0.2, seed=self.count)  # made
        return picture


_augmentation = None


def in_class():
    global _augmentation
    _augmentation = _augmentation or Augmentation()
    _augmentation(tf.ones([8, 8, 3]))


# -- in_closure: a deck that is shuffled by a seed for each game
def make_dealer():
    games = 0

    def deal(players):
        nonlocal games
        hands = collections.OrderedDict()
        for player in range(players):
            games += 1
            hands[player] = tf.random.shuffle(tf.range(52), seed=games)[:5]  # made
        return hands

    return deal


_deal = make_dealer()


def in_closure():
    _deal(5)


# -- in_callback: hooks of a network that drop units, in a program with a global seed
class Block:
    def __init__(self):
        self.forward_hooks = []

    def __call__(self, x):
        for hook in self.forward_hooks:
            x = hook(x)
        return x


_block = None


def in_callback():
    global _block
    if _block is None:
        tf.random.set_seed(99)
        _block = Block()
        for rate in (0.1, 0.2, 0.3, 0.4):
            _block.forward_hooks.append(lambda x, rate=rate: tf.nn.dropout(x, rate))  # made
    _block(tf.ones([40, 4]))


# -- good: a generator
_generator = None


def good():
    global _generator
    _generator = _generator or tf.random.Generator.from_seed(1234)
    _generator.normal([64], stddev=0.1)


# -- good_bounded: stateless operations, whose seed is a tensor
def good_bounded(i):
    tf.random.stateless_normal([64], seed=[1234, i])


def end():
    """Takes the global seed away from the process."""
    tf.random.set_seed(None)
