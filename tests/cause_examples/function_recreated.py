"""Code that wraps the same Python function with tf.function each turn, so that it is traced anew and thrown away."""

import tensorflow as tf

GROWS = False
CYCLES = 30

# -- module_level: exchange rates converted by a function made for each quote
_rates = None


def convert(amounts):
    return tf.reduce_sum(amounts * 1.07)


def module_level():
    global _rates
    if _rates is None:
        _rates = tf.range(64, dtype=tf.float32)
    compiled = tf.function(convert)  # made
    compiled(_rates)  # made


# -- in_class: a scorer that compiles its rule in each call
class Scorer:
    def __init__(self):
        self.rows = tf.random.normal([8, 16])

    def score(self):
        @tf.function  # made
        def rule(rows):  # made
            return tf.nn.softmax(tf.matmul(rows, rows, transpose_b=True))

        return rule(self.rows)  # made


_scorer = None


def in_class():
    global _scorer
    _scorer = _scorer or Scorer()
    _scorer.score()


# -- in_closure: a filter bank that makes its filter by a lambda
def make_bank():
    signal = []

    def smooth():
        if not signal:
            signal.append(tf.linspace(0.0, 1.0, 256))
        step = tf.function(lambda x: tf.signal.frame(x, 8, 4) * 0.125)  # made
        return step(signal[0])  # made

    return smooth


in_closure = make_bank()


# -- in_callback: a decorator that compiles its function at every call
def compiled(fn):
    def call(*args):
        return tf.function(fn, autograph=False)(*args)  # made

    return call


@compiled
def distance(a, b):
    return tf.norm(a - b, axis=-1)


def in_callback():
    distance(tf.ones([32, 3]), tf.zeros([32, 3]))


# -- good: wrapped once
_wrapped = None


def good():
    global _wrapped
    if _wrapped is None:
        _wrapped = tf.function(convert)
    _wrapped(tf.ones([64]))
