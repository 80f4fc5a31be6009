"""Compiled functions that are given Python numbers or strings which are new in each call: each one is a trace of
its own."""

import tensorflow as tf

GROWS = True
CYCLES = 30


# -- module_level: a decayed average that is told the day as an int
@tf.function  # made
def decayed(values, day):  # made
    return tf.reduce_mean(values) * 0.99**day


def module_level(i):
    decayed(tf.ones([32]), i)  # made


# -- in_class: a bidder that passes its price as a float
class Bidder:
    def __init__(self):
        self.budget = 100.0
        self.odds = tf.function(self._odds)  # kept

    def _odds(self, bids, budget):
        shaded = tf.clip_by_value(bids / budget, 0.0, 1.0)
        return tf.reduce_sum(tf.math.log1p(shaded))

    def bid(self):
        self.budget -= 0.37
        return self.odds(tf.constant([1.0, 2.0, 3.0]), self.budget)  # made


_bidder = None


def in_class():
    global _bidder
    _bidder = _bidder or Bidder()
    _bidder.bid()


# -- in_closure: a labeller that is given the file's name
def make_labeller():
    @tf.function  # made
    def label(scores, name):  # made
        best = tf.argmax(scores, axis=-1)
        return tf.strings.join([name, tf.strings.as_string(best)], separator=":")

    def file(number):
        return label(tf.constant([0.1, 0.7, 0.2]), f"scan_{number:04d}.tif")  # made

    return file


_file = None


def in_closure(i):
    global _file
    _file = _file or make_labeller()
    _file(i)


# -- in_callback: hooks after a batch, called with the number of the batch by keyword
class Loop:
    def __init__(self):
        self.hooks = []
        self.batch = 0

    def tick(self):
        self.batch += 1
        for hook in self.hooks:
            hook(batch=self.batch)


_loop = None


def in_callback():
    global _loop
    if _loop is None:
        _loop = Loop()

        @tf.function  # made
        def warm_up(gradient, batch):  # made
            factor = min(1.0, batch / 1000)
            return [g * factor for g in gradient]

        _loop.hooks.append(lambda batch: warm_up([tf.ones([4, 4]), tf.ones([4])], batch=batch))  # made
    _loop.tick()


# -- good: the number is a tensor
@tf.function
def decayed_by_tensor(values, day):
    return tf.reduce_mean(values) * tf.pow(0.99, tf.cast(day, tf.float32))


def good(i):
    decayed_by_tensor(tf.ones([32]), tf.constant(i))


# -- good_bounded: a Python number, but one of three
@tf.function
def pooled(values, width):
    return tf.reduce_max(tf.reshape(values, [-1, width]), axis=1)


def good_bounded(i):
    pooled(tf.ones([64]), (2, 4, 8)[i % 3])
