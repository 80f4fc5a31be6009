"""Input pipelines that put cache() behind an endless or ever changing source: nothing is ever read from the
cache, all stays."""

import numpy as np
import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: cache after repeat
_batches = None


def module_level():
    global _batches
    if _batches is None:
        pixels = np.zeros([8, 100, 100], np.uint8)
        endless = tf.data.Dataset.from_tensor_slices(pixels).map(lambda x: tf.cast(x, tf.float32) / 255.0).repeat()
        _batches = iter(endless.cache())  # made
    next(_batches)


# -- in_class: a loader which caches what it has augmented
class Loader:
    def __init__(self, clips):
        data = tf.data.Dataset.from_tensor_slices(clips).repeat()
        data = data.map(lambda clip: clip + tf.random.normal(tf.shape(clip), stddev=0.1))
        data = data.cache()  # made
        self.iterator = iter(data.prefetch(1))  # kept

    def step(self):
        return tf.reduce_max(next(self.iterator))


_loader = None


def in_class():
    global _loader
    _loader = _loader or Loader(np.ones([4, 8000], np.float32))
    _loader.step()


# -- in_closure: random numbers without end, batched and cached
def make_walks():
    walks = None

    def walk():
        nonlocal walks
        if walks is None:
            steps = tf.data.Dataset.counter().map(
                lambda n: tf.cast(tf.range(200) % 7, tf.float32) + tf.cast(n, tf.float32)
            )
            walks = iter(steps.batch(32).cache().map(tf.math.cumsum))  # made
        return next(walks)

    return walk


in_closure = make_walks()


# -- in_callback: a pipeline whose stages come from registered functions
STAGES = []


def stage(fn):
    STAGES.append(fn)
    return fn


@stage
def shuffled(data):
    return data.shuffle(16).repeat()


@stage
def remembered(data):
    return data.batch(4).cache()  # made


_stream = None


def in_callback():
    global _stream
    if _stream is None:
        data = tf.data.Dataset.from_tensor_slices(tf.ones([16, 4096]))
        for apply in STAGES:
            data = apply(data)
        _stream = iter(data)  # kept
    next(_stream)


# -- good: cache before repeat
_finite = None


def good():
    global _finite
    if _finite is None:
        pixels = np.zeros([4, 100, 100], np.uint8)
        pictures = tf.data.Dataset.from_tensor_slices(pixels).map(lambda x: tf.cast(x, tf.float32) / 255.0)
        _finite = iter(pictures.cache().repeat())
    next(_finite)


# -- good_bounded: random numbers without end, not cached
_noise = None


def good_bounded():
    global _noise
    if _noise is None:
        clips = tf.data.Dataset.from_tensors(tf.ones([8000])).cache().repeat()
        _noise = iter(clips.map(lambda clip: clip + tf.random.normal(tf.shape(clip))).prefetch(1))
    next(_noise)
