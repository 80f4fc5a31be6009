"""Functions with a custom gradient which are compiled, used and dropped; TensorFlow's registry of gradients
keeps their graphs."""

import keras
import tensorflow as tf

GROWS = True
CYCLES = 24

# -- module_level: a clipped identity inside a step that is compiled for each audio clip
_gate = None


@tf.custom_gradient
def clip_backwards(x):
    return tf.identity(x), lambda upstream: tf.clip_by_norm(upstream, 1.0)


def module_level():
    global _gate
    if _gate is None:
        _gate = tf.Variable(tf.ones([32, 32]))

    @tf.function  # made
    def step(clip):  # made
        with tf.GradientTape() as tape:
            energy = tf.reduce_sum(clip_backwards(tf.matmul(clip, _gate)))
        return tape.gradient(energy, _gate)

    step(tf.ones([4, 32]))  # made


# -- in_class: layers are unfrozen phase by phase, and the model is compiled again for each
class Unfreezing:
    def __init__(self):
        self.layers = [keras.layers.Dense(6, "relu"), keras.layers.Dense(3, "softmax")]
        self.net = keras.Sequential([keras.Input([5]), *self.layers])

    def phase(self, number):
        self.layers[0].trainable = bool(number % 2)
        self.net.compile("sgd", "sparse_categorical_crossentropy")
        self.net.train_on_batch(tf.ones([2, 5]), tf.zeros([2], tf.int32))  # made


_unfreezing = None


def in_class(i):
    global _unfreezing
    _unfreezing = _unfreezing or Unfreezing()
    _unfreezing.phase(i)


# -- in_closure: memory is saved by recompute_grad, in a function made for each resolution
def make_renderer():
    texture = None

    def render():
        nonlocal texture
        if texture is None:
            texture = tf.Variable(tf.random.uniform([16, 16]))

        block = tf.recompute_grad(lambda x: tf.nn.relu(tf.matmul(x, x)))

        def loss():
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(block(texture * 1.0))
            return tape.gradient(value, [texture])

        return tf.function(loss)()  # made

    return render


in_closure = make_renderer()


# -- in_callback: a plug-in host which compiles the handler of each event; this one rounds, gradient straight through
class Host:
    def __init__(self):
        self.plugins = {}

    def register(self, event, plugin):
        self.plugins[event] = plugin

    def fire(self, event, payload):
        compiled = tf.function(self.plugins[event])  # made
        return compiled(payload)  # made


@tf.custom_gradient
def straight_round(x):
    def grad(upstream):
        return upstream

    return tf.round(x), grad


def quantise(payload):
    with tf.GradientTape() as tape:
        tape.watch(payload)
        levels = straight_round(payload * 8.0) / 8.0
    return tape.gradient(levels, payload)


_host = None


def in_callback():
    global _host
    if _host is None:
        _host = Host()
        _host.register("photo", quantise)
    _host.fire("photo", tf.random.uniform([64]))


# -- good: compiled once
_quantise = None


def good():
    global _quantise
    _quantise = _quantise or tf.function(quantise)
    _quantise(tf.random.uniform([64]))


# -- good_bounded: the custom gradient runs eagerly, which registers nothing
def good_bounded():
    quantise(tf.random.uniform([64]))
