"""Compiled functions fed with batches whose length (or dtype) is new nearly every time: a trace for each."""

import itertools

import numpy as np
import tensorflow as tf

GROWS = True
CYCLES = 30


# -- module_level: sentences are padded to their own length
@tf.function  # made
def encode(tokens):  # made
    return tf.reduce_sum(tf.one_hot(tokens, 16), axis=0)


def module_level(i):
    sentence = np.arange(5 + i, dtype=np.int32) % 16
    encode(tf.constant(sentence))  # made


# -- in_class: crops whose height follows the detector
class Cropper:
    def __init__(self):
        self.heights = itertools.count(6)
        self.sharpen = tf.function(self._sharpen, autograph=False)  # kept

    def _sharpen(self, crop):
        blurred = tf.nn.avg_pool2d(crop, 3, 1, "SAME")
        return crop + 0.5 * (crop - blurred)

    def crop(self):
        window = tf.zeros([1, next(self.heights), 7, 1])
        return self.sharpen(window)  # made


_cropper = None


def in_class():
    global _cropper
    _cropper = _cropper or Cropper()
    _cropper.crop()


# -- in_closure: an order book with one row more each turn
def make_book():
    rows = [[1.0, 2.0]]

    @tf.function  # made
    def spread(book):  # made
        return tf.reduce_max(book[:, 1]) - tf.reduce_min(book[:, 0])

    def quote():
        rows.append([rows[-1][0] + 0.1, rows[-1][1] + 0.1])
        return spread(tf.convert_to_tensor(rows))  # made

    return quote


_quote = None


def in_closure():
    global _quote
    _quote = _quote or make_book()
    _quote()


# -- in_callback: frames of an audio stream, as they come from the driver
class AudioStream:
    def __init__(self, callback):
        self.callback = callback
        self.frames = 0

    def deliver(self):
        self.frames += 1
        self.callback(np.zeros([40 + 3 * self.frames], dtype=np.float32))


_stream = None


def in_callback():
    global _stream
    if _stream is None:

        @tf.function  # made
        def loudness(chunk):  # made
            return tf.sqrt(tf.reduce_mean(tf.square(chunk)))

        _stream = AudioStream(lambda chunk: float(loudness(tf.convert_to_tensor(chunk))))  # made
    _stream.deliver()


# -- good: the signature leaves the length open
@tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
def encode_any(tokens):
    return tf.reduce_sum(tf.one_hot(tokens, 16), axis=0)


def good(i):
    encode_any(tf.ones([5 + i], tf.int32))


# -- good_bounded: lengths are padded to one of three buckets
@tf.function
def encode_bucket(tokens):
    return tf.reduce_sum(tf.one_hot(tokens, 16), axis=0)


def good_bounded(i):
    length = 1 + (7 * i) % 24
    encode_bucket(tf.zeros([8 * -(-length // 8)], tf.int32))
