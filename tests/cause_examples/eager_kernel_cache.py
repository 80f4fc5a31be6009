"""Eager operations whose attributes are new in each turn: messages, templates, slopes, names of variables. Each
keeps a kernel."""

import keras
import tensorflow as tf

GROWS = True
CYCLES = 30


# -- module_level: a check whose message names the step
def module_level(i):
    logits = tf.random.normal([32])
    for layer in ("query", "key", "value", "output"):
        tf.debugging.check_numerics(logits, message=f"{layer} of step {i}")  # made


# -- in_class: an annealed leaky slope
class Annealed:
    def __init__(self):
        self.slope = 0.5

    def forward(self, x):
        for _ in range(4):
            self.slope *= 0.995
            x = tf.nn.leaky_relu(x, alpha=self.slope)  # made
        return x


_annealed = None


def in_class():
    global _annealed
    _annealed = _annealed or Annealed()
    _annealed.forward(tf.linspace(-1.0, 1.0, 64))


# -- in_closure: a state holder of Keras made for each sequence and dropped after it
def make_tracker():
    sequences = 0

    def track():
        nonlocal sequences
        sequences += 1
        position = keras.Variable(tf.zeros([6]), name=f"position_{sequences}")  # made
        position.assign_add(tf.ones([6]))
        return float(position[0])

    return track


in_closure = make_tracker()


# -- in_callback: log handlers that format and filter by texts with the number in them
class Log:
    def __init__(self):
        self.handlers = []

    def emit(self, number, value):
        return [handler(number, value) for handler in self.handlers]


_log = None


def in_callback(i):
    global _log
    if _log is None:
        _log = Log()
        _log.handlers.append(lambda n, value: tf.strings.format(f"event {n}: {{}}", value))  # made
        _log.handlers.append(lambda n, value: tf.strings.regex_replace("a-b-c", f"b{n}|c", "x"))  # made
    for part in range(3):
        _log.emit(3 * i + part, tf.constant([1, 2]))


# -- good: the number is a value, not an attribute
def good(i):
    logits = tf.random.normal([32])
    tf.debugging.check_numerics(logits, message="logits")
    tf.strings.format("step {}: {}", (i, tf.reduce_max(logits)))


# -- good_bounded: three slopes that come again
def good_bounded(i):
    tf.nn.leaky_relu(tf.linspace(-1.0, 1.0, 64), alpha=(0.1, 0.2, 0.3)[i % 3])
