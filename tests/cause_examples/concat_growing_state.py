"""A state that is concatenated with the newest piece in each turn and so holds everything that ever came."""

import numpy as np
import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: all the samples of a seismograph in one tensor
SEISMOGRAM = None


def module_level():
    global SEISMOGRAM
    samples = tf.random.normal([6000])
    if SEISMOGRAM is None:
        SEISMOGRAM = samples
    SEISMOGRAM = tf.concat([SEISMOGRAM, samples], axis=0)  # made


# -- in_class: the keys of an attention cache, one row block a token
class KeyCache:
    def __init__(self, heads, width):
        self.keys = {"self": tf.zeros([heads, 0, width])}

    def append(self, block):
        self.keys["self"] = tf.concat((self.keys["self"], block), 1)  # made


_cache = None


def in_class():
    global _cache
    _cache = _cache or KeyCache(4, 64)
    _cache.append(tf.random.uniform([4, 20, 64]))


# -- in_closure: predictions of an evaluation, stacked below each other
def make_evaluation():
    rows = None

    def evaluate():
        nonlocal rows
        fresh = tf.nn.softmax(tf.random.normal([40, 100]))
        rows = fresh if rows is None else tf.concat(values=[rows, fresh], axis=0)  # made
        return tf.reduce_mean(rows[-40:])

    return evaluate


in_closure = make_evaluation()


# -- in_callback: the handler of a message queue that keeps a variable of no fixed shape
class Subscriber:
    def __init__(self):
        self.on_message = None


_subscriber = None


def in_callback(i):
    global _subscriber
    if _subscriber is None:
        _subscriber = Subscriber()
        log = tf.Variable(tf.zeros([0, 256]), shape=tf.TensorShape([None, 256]), trainable=False)  # kept

        def remember(payload):
            log.assign(tf.concat([log, payload], 0))  # made

        _subscriber.on_message = remember
    _subscriber.on_message(tf.convert_to_tensor(np.full([24, 256], i, np.float32)))


# -- good: only the newest 30000 samples stay
_window = None


def good():
    global _window
    fresh = tf.random.normal([6000])
    _window = fresh if _window is None else tf.concat([_window, fresh], 0)[-30000:]


# -- good_bounded: rows are written into a table of fixed size
_table = None


def good_bounded(i):
    global _table
    if _table is None:
        _table = tf.Variable(tf.zeros([10, 40, 100]), trainable=False)
    _table[i % 10].assign(tf.nn.softmax(tf.random.normal([40, 100])))
