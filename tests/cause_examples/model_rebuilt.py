"""Networks which are built again for each request or round and dropped after it."""

import keras
import tensorflow as tf

GROWS = True
CYCLES = 24


# -- module_level: a function that builds the network, scores and forgets it
def build_triage():
    symptoms = keras.Input([20])
    hidden = keras.layers.Dense(16, activation="relu")(symptoms)  # made
    return keras.Model(symptoms, keras.layers.Dense(3)(hidden))  # made


def module_level():
    net = build_triage()  # made
    net(tf.zeros([4, 20]))


# -- in_class: a tuner that replaces its candidate in each round
class Tuner:
    def __init__(self):
        self.candidate = None
        self.width = 8

    def propose(self):
        self.candidate = keras.Sequential()  # made
        self.candidate.add(keras.Input([12]))
        self.candidate.add(keras.layers.Dense(self.width))  # made
        self.candidate.add(keras.layers.LayerNormalization())  # made
        return self.candidate(tf.ones([1, 12]))


_tuner = None


def in_class():
    global _tuner
    _tuner = _tuner or Tuner()
    _tuner.propose()


# -- in_closure: a model from its config at every call, as a stateless server does
def make_server():
    config = None

    def serve():
        nonlocal config
        if config is None:
            config = keras.Sequential([keras.Input([10, 6]), keras.layers.GRU(8), keras.layers.Dense(2)]).get_config()
        net = keras.Sequential.from_config(config)  # made
        return net(tf.zeros([1, 10, 6]))

    return serve


in_closure = make_server()


# -- in_callback: a Keras callback which trains nothing yet, but puts a fresh probe on the model after each epoch
class ProbeFeatures(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        features = self.model(tf.ones([2, 14]))
        probe = keras.Sequential([keras.layers.Dense(6, "relu"), keras.layers.Dense(1)])  # made
        logs["probe"] = float(tf.reduce_mean(probe(features)))  # made


_callbacks = None


def in_callback(i):
    global _callbacks
    if _callbacks is None:
        net = keras.Sequential([keras.Input([14]), keras.layers.Dense(10)])
        _callbacks = keras.callbacks.CallbackList([ProbeFeatures()], model=net)
    _callbacks.on_epoch_end(i, {})


# -- good: built once, its weights are drawn again
_candidate = None


def good():
    global _candidate
    if _candidate is None:
        _candidate = build_triage()
    for kernel in _candidate.trainable_variables:
        kernel.assign(tf.random.normal(kernel.shape, stddev=0.1))
    _candidate(tf.zeros([4, 20]))


# -- good_bounded: copied in each turn, but under the same names, which TensorFlow has seen
_original = None


def good_bounded():
    global _original
    if _original is None:
        _original = keras.Sequential([keras.Input([14]), keras.layers.Dense(10), keras.layers.Dense(1)])
    copy = keras.models.clone_model(_original)
    copy.set_weights(_original.get_weights())
    copy(tf.ones([2, 14]))
