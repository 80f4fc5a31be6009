"""Servers and evaluations which load the saved model again in each turn."""

import functools
import tempfile

import keras
import numpy as np
import tensorflow as tf

GROWS = False
CYCLES = 24


class Thermostat(tf.Module):
    def __init__(self):
        super().__init__()
        self.gain = tf.Variable(tf.ones([64, 16]))

    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def heat(self, rooms):
        return tf.matmul(rooms, self.gain)


@functools.cache
def folder():
    return tempfile.TemporaryDirectory(prefix="cause_example_")


@functools.cache
def thermostat():
    path = f"{folder().name}/thermostat"
    tf.saved_model.save(Thermostat(), path)
    return path


@functools.cache
def network(name):
    path = f"{folder().name}/{name}.keras"
    keras.Sequential([keras.Input([6]), keras.layers.Dense(4), keras.layers.Dense(1)]).save(path)
    return path


# -- module_level: each reading loads the exported module
def module_level():
    served = tf.saved_model.load(thermostat())  # made
    served.heat(tf.ones([1, 64]))


# -- in_class: a grader which opens the Keras file for each pupil
class Grader:
    def __init__(self):
        self.model = None

    def grade(self, marks):
        self.model = keras.models.load_model(network("grader"), compile=False)  # made
        return float(self.model(marks)[0, 0])


_grader = None


def in_class():
    global _grader
    _grader = _grader or Grader()
    _grader.grade(np.ones([1, 6], np.float32))


# -- in_closure: the exported module as a layer, made anew for each request
def make_endpoint():
    def endpoint(rooms):
        layer = keras.layers.TFSMLayer(thermostat(), call_endpoint="serving_default")  # made
        return layer(rooms)

    return endpoint


_endpoint = make_endpoint()


def in_closure():
    _endpoint(tf.zeros([2, 64]))


# -- in_callback: a watcher that reloads whenever the file was touched, which is always
class FileWatcher:
    def __init__(self):
        self.changed = []
        self.current = {}

    def poll(self):
        for handler in self.changed:
            handler(self, network("watched"))


def reload(watcher, path):
    watcher.current["net"] = keras.saving.load_model(path)  # made


_watcher = None


def in_callback():
    global _watcher
    if _watcher is None:
        _watcher = FileWatcher()
        _watcher.changed.append(reload)
    _watcher.poll()


# -- good: loaded once
_served = None


def good():
    global _served
    _served = _served or tf.saved_model.load(thermostat())
    _served.heat(tf.ones([1, 64]))


# -- good_bounded: one model, into which the weights are loaded
_weights = None


def good_bounded():
    global _weights
    if _weights is None:
        net = keras.Sequential([keras.Input([6]), keras.layers.Dense(4)])
        _weights = net, f"{folder().name}/w.weights.h5"
        net.save_weights(_weights[1])
    _weights[0].load_weights(_weights[1])
