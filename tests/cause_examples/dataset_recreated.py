"""Datasets and iterators that are built for each turn instead of once."""

import tensorflow as tf

GROWS = False
CYCLES = 30

# -- module_level: an epoch's dataset made anew from the same rows
_rows = None


def module_level():
    global _rows
    if _rows is None:
        _rows = tf.random.uniform([32, 64])
    epoch = tf.data.Dataset.from_tensor_slices(_rows).batch(8)  # made
    for _ in epoch:  # made
        pass


# -- in_class: a scorer that wraps each request into a dataset
class Inbox:
    def __init__(self):
        self.mails = [f"mail {n}" for n in range(12)]
        self.current = None

    def read(self):
        self.current = tf.data.Dataset.from_tensor_slices(self.mails).map(tf.strings.length)  # made
        return sum(int(n) for n in self.current)  # made


_inbox = None


def in_class():
    global _inbox
    _inbox = _inbox or Inbox()
    _inbox.read()


# -- in_closure: only the first element of a shuffled pipeline is taken
def make_sampler():
    def sample(temperature):
        deck = tf.data.Dataset.range(52).shuffle(52).batch(5, drop_remainder=True).prefetch(2)  # made
        hand = next(iter(deck))  # made
        return tf.cast(hand, tf.float32) * temperature

    return sample


_sample = make_sampler()


def in_closure():
    _sample(0.7)


# -- in_callback: a listener that turns each event into a dataset
class Turnstile:
    def __init__(self):
        self.entered = []

    def pass_through(self, people):
        for listener in self.entered:
            listener(people)


def count_by_age(people):
    ages = tf.data.Dataset.from_tensors(people).unbatch().filter(lambda age: age > 17)  # made
    return len(list(ages))  # made


_turnstile = None


def in_callback():
    global _turnstile
    if _turnstile is None:
        _turnstile = Turnstile()
        _turnstile.entered.append(count_by_age)
    _turnstile.pass_through(tf.constant([12, 40, 33, 7]))


# -- good: one dataset that repeats, one iterator
_repeating = None


def good():
    global _repeating
    if _repeating is None:
        _repeating = iter(tf.data.Dataset.from_tensor_slices(tf.random.uniform([32, 64])).batch(8).repeat())
    for _ in range(4):
        next(_repeating)


# -- good_bounded: one dataset, iterated from its start in each turn
_again = None


def good_bounded():
    global _again
    if _again is None:
        _again = tf.data.Dataset.range(52).batch(13)
    for _ in _again:
        pass
