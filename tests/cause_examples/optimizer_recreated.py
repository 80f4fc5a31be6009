"""Rounds of tuning that make a new Keras optimizer each time, where one should be made and reset."""

import keras
import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: online calibration of a sensor's gain and offset
_gain = None


def module_level():
    global _gain
    if _gain is None:
        _gain = tf.Variable(tf.ones([16]))
    optimizer = keras.optimizers.Adam(1e-3)  # made
    optimizer.apply_gradients([(0.1 * _gain, _gain)])  # made


# -- in_class: a federated client that starts each round with a fresh optimizer
class Client:
    def __init__(self):
        self.weights = [tf.Variable(tf.zeros([24, 8])), tf.Variable(tf.zeros([8]))]
        self.optimizer = None

    def round(self):
        self.optimizer = keras.optimizers.SGD(0.05, momentum=0.9)  # made
        self.optimizer.apply([tf.ones_like(w) for w in self.weights], [self.weights[0], self.weights[1]])  # made


_client = None


def in_class():
    global _client
    _client = _client or Client()
    _client.round()


# -- in_closure: style transfer, an optimizer an image
def make_stylist():
    canvas = None

    def stylise():
        nonlocal canvas
        if canvas is None:
            canvas = tf.Variable(tf.random.uniform([20, 20, 3]))
        opt = keras.optimizers.RMSprop(learning_rate=0.02)  # made
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(canvas - 0.5))
            opt.apply_gradients(zip(tape.gradient(loss, [canvas]), [canvas], strict=True))  # made

    return stylise


in_closure = make_stylist()


# -- in_callback: a schedule whose listeners restart the optimizer when a phase begins
class Phases:
    def __init__(self):
        self.policy = tf.Variable(tf.random.normal([12, 12]))
        self.listeners = {"restart": self.restart}

    def restart(self, rate):
        fresh = keras.optimizers.Nadam(learning_rate=rate)  # made
        fresh.build([self.policy])  # made
        return fresh

    def begin(self, phase):
        current = self.listeners["restart"](1e-3)
        current.apply_gradients([(self.policy * 0.01 * (phase + 1), self.policy)])


_phases = None


def in_callback():
    global _phases
    _phases = _phases or Phases()
    _phases.begin(0)


# -- good: one optimizer, its slots set back to zero
_reused = None


def good():
    global _reused
    if _reused is None:
        _reused = (keras.optimizers.Adam(1e-3), tf.Variable(tf.ones([16])))
        _reused[0].build([_reused[1]])
    optimizer, weight = _reused
    for slot in optimizer.variables[2:]:
        slot.assign(tf.zeros_like(slot))
    optimizer.apply_gradients([(0.1 * weight, weight)])
