"""Python numbers that are new in each turn, mixed into eager arithmetic: TensorFlow caches a tensor for each."""

import itertools

import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: a physics loop that multiplies by the time
CLOCK = {"now": 0.0}


def module_level():
    position = tf.zeros([3])
    for _ in range(150):
        CLOCK["now"] += 1 / 64
        position = position + CLOCK["now"]  # made


# -- in_class: a queue of tickets, compared with their number
class TicketOffice:
    def __init__(self):
        self.numbers = itertools.count(1000)
        self.waiting = None

    def serve(self):
        if self.waiting is None:
            self.waiting = tf.range(8)
        for number in itertools.islice(self.numbers, 150):
            self.waiting = tf.maximum(self.waiting, number)  # made


_office = None


def in_class():
    global _office
    _office = _office or TicketOffice()
    _office.serve()


# -- in_closure: a schedule that makes a constant of each temperature
def make_annealing():
    temperature = 1000.0

    def cool():
        nonlocal temperature
        energy = 0.0
        for _ in range(150):
            temperature *= 0.9995
            energy += float(tf.constant(1.0) / tf.convert_to_tensor(temperature))  # made
        return energy

    return cool


in_closure = make_annealing()


# -- in_callback: listeners of a price feed that assign the quote to a variable
class Feed:
    def __init__(self):
        self.subscribers = set()
        self.cents = 0

    def push(self, quotes):
        for _ in range(quotes):
            self.cents += 1
            for subscriber in self.subscribers:
                subscriber(self.cents / 100)


_feed = None


def in_callback():
    global _feed
    if _feed is None:
        _feed = Feed()
        last = tf.Variable(0.0)
        _feed.subscribers.add(lambda quote: last.assign(0.5 * last + quote))  # made
    _feed.push(120)


# -- good: the numbers go in as one array
def good(i):
    times = tf.range(i, i + 1, 1 / 64, dtype=tf.float32)
    tf.reduce_sum(times[:, None] + tf.zeros([3]), axis=0)


# -- good_bounded: the time is a variable that counts itself
_ticks = None


def good_bounded():
    global _ticks
    if _ticks is None:
        _ticks = tf.Variable(0.0), tf.constant(1 / 64)
    for _ in range(20):
        _ticks[0].assign_add(_ticks[1])
        tf.zeros([3]) + _ticks[0]
