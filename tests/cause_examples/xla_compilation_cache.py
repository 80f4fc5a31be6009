"""Functions compiled by XLA that are called with ever new shapes or constants: an executable for each."""

import tensorflow as tf

GROWS = True
CYCLES = 24


# -- module_level: packets of any length
@tf.function(jit_compile=True)  # made
def checksum(packet):  # made
    return tf.reduce_sum(packet * packet) / 7.0


def module_level(i):
    checksum(tf.ones([8 + i]))  # made


# -- in_class: a filter whose relaxed signature is traced once, while XLA compiles each length
class Smoother:
    def __init__(self):
        self.length = 16
        self.smooth = tf.function(  # made
            self._smooth, input_signature=[tf.TensorSpec([None])], jit_compile=True, autograph=False
        )

    def _smooth(self, samples):
        return tf.nn.softmax(tf.cumsum(samples) * 0.1)

    def push(self):
        self.length += 1
        return self.smooth(tf.zeros([self.length]))  # made


_smoother = None


def in_class():
    global _smoother
    _smoother = _smoother or Smoother()
    _smoother.push()


# -- in_closure: the number of steps is a Python number of the compiled loop
def make_orbit():
    @tf.function(jit_compile=True)  # made
    def orbit(position, steps):  # made
        return tf.sin(position) * steps + tf.cos(position)

    steps = 0

    def advance():
        nonlocal steps
        steps += 1
        return orbit(tf.ones([4]), steps)  # made

    return advance


_advance = None


def in_closure():
    global _advance
    _advance = _advance or make_orbit()
    _advance()


# -- in_callback: a decorator that compiles kernels, behind a handler for images of any height
def kernel(fn):
    return tf.function(fn, jit_compile=True)  # made


class Images:
    def __init__(self):
        self.on_image = None
        self.height = 3

    def arrive(self):
        self.height += 2
        self.on_image(tf.ones([self.height, 5]))


_images = None


def in_callback():
    global _images
    if _images is None:

        @kernel
        def edges(picture):  # made
            return tf.reduce_max(tf.abs(picture[1:] - picture[:-1]))

        _images = Images()
        _images.on_image = lambda picture: edges(picture)  # made
    _images.arrive()


# -- good: packets are padded to one length
@tf.function(jit_compile=True)
def padded_checksum(packet):
    return tf.reduce_sum(packet * packet) / 7.0


def good(i):
    padded_checksum(tf.pad(tf.ones([8 + i]), [[0, 56 - i]]))
