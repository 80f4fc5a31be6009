"""Estimators and counters that make a fresh tf.Variable each turn and keep the old ones, where one variable
should be assigned."""

from collections import OrderedDict, deque

import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: topic weights of a newsletter, one variable an edition
EDITION_WEIGHTS = []


def module_level():
    draft = tf.random.uniform([96, 64])
    weights = tf.Variable(draft / tf.reduce_sum(draft), trainable=False)  # made
    EDITION_WEIGHTS.append(weights)  # kept


# -- in_class: a river gauge that filters its level map
class RiverGauge:
    def __init__(self):
        self.levels = OrderedDict()

    def observe(self, hour):
        reading = tf.random.normal([128, 40], mean=2.0)
        self.levels[f"h{hour:05d}"] = tf.Variable(reading, name="level")  # made
        return self.levels[f"h{hour:05d}"].assign_add(reading * 0.01)


_gauge = None


def in_class(i):
    global _gauge
    _gauge = _gauge or RiverGauge()
    _gauge.observe(i)


# -- in_closure: a running covariance whose past values wait in a deque
def make_covariance():
    past = deque()

    def update():
        sample = tf.random.normal([32, 80])
        product = tf.linalg.matmul(sample, sample, transpose_a=True)
        moment = tf.Variable(product)  # made
        if past:
            moment.assign(0.9 * past[-1] + 0.1 * product)
        past.append(moment)  # kept

    return update


in_closure = make_covariance()


# -- in_callback: a match server whose handler makes the rating table of each match
class MatchServer:
    def __init__(self):
        self.handlers = []
        self.ratings = {"ranked": [], "casual": []}

    def on_finish(self, handler):
        self.handlers.append(handler)
        return handler

    def finish(self, number):
        for handler in self.handlers:
            handler("ranked" if number % 2 else "casual")


_server = None


def in_callback(i):
    global _server
    if _server is None:
        _server = MatchServer()

        @_server.on_finish
        def rate(queue):
            table = tf.Variable(tf.zeros([4096]), trainable=False, name="elo")  # made
            table.assign_add(tf.random.normal([4096]))
            _server.ratings[queue].append(table)  # kept

    _server.finish(i)


# -- good: one variable, assigned
_level = None


def good():
    global _level
    if _level is None:
        _level = tf.Variable(tf.zeros([128, 40]), trainable=False)
    _level.assign(0.9 * _level + 0.1 * tf.random.normal([128, 40]))


# -- good_bounded: a fresh variable each turn, but only the last four live
_recent = deque(maxlen=4)


def good_bounded():
    _recent.append(tf.Variable(tf.random.normal([96, 64])))
