"""Small NumPy slices of large results which are kept: each one keeps the buffer of the whole."""

import queue

import keras
import numpy as np
import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: the first token's vector of each document
FIRST_TOKENS = {}


def module_level(i):
    document = tf.random.normal([128, 96]).numpy()  # made
    FIRST_TOKENS[i] = document[0]  # kept


# -- in_class: a monitor that notes the corner pixels of each frame, straight from the tensor's memory
class PixelMonitor:
    def __init__(self):
        self.corners = []

    def see(self):
        frame = tf.random.uniform([120, 160, 3])  # made
        pixels = np.asarray(frame)  # made
        self.corners.append([pixels[0, :2], pixels[-1, -2:]])  # kept


_monitor = None


def in_class():
    global _monitor
    _monitor = _monitor or PixelMonitor()
    _monitor.see()


# -- in_closure: the last price of each simulated path, in a queue
def make_simulation():
    finals = queue.SimpleQueue()

    def simulate():
        steps = tf.random.normal([250, 100], stddev=0.01)
        paths = np.array(tf.exp(tf.cumsum(steps)), copy=False)  # made
        finals.put(paths[-1:, :5])  # kept
        return finals.qsize()

    return simulate


in_closure = make_simulation()


# -- in_callback: a Keras callback which takes one score of each batch of predictions
class FirstScore(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.by_batch = {"scores": []}

    def on_predict_batch_end(self, batch, logs=None):
        scores = keras.ops.convert_to_numpy(logs["outputs"])  # made
        self.by_batch["scores"].append(scores[:1, :4])  # kept


_first = None


def in_callback(i):
    global _first
    if _first is None:
        _first = keras.callbacks.CallbackList([FirstScore()])
    _first.on_predict_batch_end(i, {"outputs": tf.sigmoid(tf.random.normal([256, 64]))})  # made


# -- good: the slice is copied
_vectors = {}


def good(i):
    document = tf.random.normal([128, 96]).numpy()
    _vectors[i] = document[0].copy()


# -- good_bounded: the slice is taken in TensorFlow, which makes a buffer of its own
_pixels = []


def good_bounded():
    frame = tf.random.uniform([120, 160, 3])
    _pixels.append(tf.identity(frame[0, :2]).numpy())
