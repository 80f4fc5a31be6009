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


# -- in_class: a reader that makes a dataset of a generator over each page it is given
class Reader:
    def __init__(self):
        self.pages = 0
        self.totals = []

    def read(self):
        self.pages += 1
        page = np.full([4, 2000], self.pages, np.float32)

        def lines():
            yield from page

        data = tf.data.Dataset.from_generator(lines, output_signature=tf.TensorSpec([2000]))  # made
        self.totals.append(sum(float(tf.reduce_sum(line)) for line in data))  # made


_reader = None


def in_class():
    global _reader
    _reader = _reader or Reader()
    _reader.read()


# -- in_closure: numpy_function inside a map that is made anew, with the table of the request
def make_decoder():
    requests = 0

    def decode(ids):
        nonlocal requests
        requests += 1
        table = np.linspace(0, requests, 4000)
        lookup = tf.data.Dataset.from_tensor_slices(ids).map(  # made
            lambda n: tf.numpy_function(lambda k: table[k], [n], tf.float64)  # made
        )
        return list(lookup.as_numpy_iterator())  # made

    return decode


_decode = make_decoder()


def in_closure():
    _decode([3, 1, 4])


# -- in_callback: an evaluation hook that hands a PyDataset to the model
class Slides(keras.utils.PyDataset):
    def __init__(self, stain):
        super().__init__()
        self.pictures = np.full([2, 3, 1500], stain, np.float32)

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.pictures[index], np.ones([3, 1], np.float32)


class EvaluateSlides(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.evaluate(Slides(stain=epoch), verbose=0)  # made


_epochs = None


def in_callback(i):
    global _epochs
    if _epochs is None:
        net = keras.Sequential([keras.Input([1500]), keras.layers.Dense(1)])
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
