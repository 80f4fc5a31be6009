"""Eager py_function and numpy_function calls, generators as datasets, Keras' Python datasets: each registers its
function for good."""

import keras
import numpy as np
import tensorflow as tf

GROWS = True
CYCLES = 24


# -- module_level: a median by NumPy in the middle of eager code
def module_level():
    marks = tf.random.uniform([4, 2000])
    for row in range(3):
        tf.py_function(lambda x, row=row: np.median(x.numpy()[row]), [marks], tf.float64)  # made


# -- in_class: a reader that makes a dataset of its generator in each pass
class Reader:
    def __init__(self):
        self.lines = [np.full([50], n, np.float32) for n in range(4)]

    def generate(self):
        yield from self.lines

    def passes(self):
        data = tf.data.Dataset.from_generator(self.generate, output_signature=tf.TensorSpec([50]))  # made
        return [float(tf.reduce_sum(line)) for line in data]  # made


_reader = None


def in_class():
    global _reader
    _reader = _reader or Reader()
    _reader.passes()


# -- in_closure: numpy_function inside a map that is made anew
def make_decoder():
    table = np.arange(2000.0)

    def decode(ids):
        lookup = tf.data.Dataset.from_tensor_slices(ids).map(
            lambda n: tf.numpy_function(lambda k: table[k], [n], tf.float64)  # made
        )
        return list(lookup.as_numpy_iterator())  # made

    return decode


_decode = make_decoder()


def in_closure():
    _decode([3, 1, 4])


# -- in_callback: an evaluation hook that hands a PyDataset to the model
class Slides(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return np.full([3, 4], index, np.float32), np.ones([3, 1], np.float32)


class EvaluateSlides(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.evaluate(Slides(), verbose=0)  # made


_epochs = None


def in_callback(i):
    global _epochs
    if _epochs is None:
        net = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
        net.compile(loss="mse")
        _epochs = keras.callbacks.CallbackList([EvaluateSlides()], model=net)
    _epochs.on_epoch_end(i)


# -- good: NumPy is called by itself, outside TensorFlow
def good():
    marks = tf.random.uniform([4, 2000])
    tf.constant(np.median(marks.numpy(), axis=1))


# -- good_bounded: one dataset of a generator, iterated again
_lines = None


def good_bounded():
    global _lines
    if _lines is None:
        _lines = tf.data.Dataset.from_generator(lambda: iter(range(4)), output_signature=tf.TensorSpec([], tf.int32))
    for _ in _lines:
        pass
