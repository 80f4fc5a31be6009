"""Memoised functions and methods whose keys are instances, tensor references or arguments that never come again."""

import functools
import weakref

import tensorflow as tf

GROWS = True
CYCLES = 30


# -- module_level: a spectrum remembered for each waveform tensor
@functools.cache  # kept
def spectrum(reference):
    wave = reference.deref()
    return tf.abs(tf.signal.rfft(wave))  # made


def module_level():
    wave = tf.random.normal([4096])  # made
    spectrum(wave.ref())


# -- in_class: documents whose method is cached, so that the cache keeps the documents
class Document:
    def __init__(self, words):
        self.words = words
        self.counts = tf.random.uniform([64, 128])  # made

    @functools.lru_cache(maxsize=None)  # noqa: B019, UP033  # kept
    def similarity(self, power):
        return tf.reduce_sum(self.counts**power)  # made


def in_class(i):
    document = Document(words=f"draft {i}")
    document.similarity(2)


# -- in_closure: a cache made inside the factory, keyed by the seed of the request
def make_noise():
    @functools.lru_cache(maxsize=100_000)  # kept
    def field(seed):
        return tf.random.stateless_normal([80, 80], seed=(seed, 1))  # made

    def blend(seed):
        return 0.5 * field(seed) + 0.5 * field(seed // 2)

    return blend


in_closure = make_noise()


# -- in_callback: a home-made decorator with a dict, on a handler that gets the session object
def memoise(fn):
    results = {}

    @functools.wraps(fn)
    def wrapper(*args):
        if args not in results:
            results[args] = fn(*args)  # kept
        return results[args]

    return wrapper


class Session:
    def __init__(self, user):
        self.user = user


@memoise
def on_login(session):
    profile = tf.linalg.eye(64) * float(len(session.user))  # made
    return tf.matmul(profile, profile)  # made


def in_callback(i):
    on_login(Session(f"user{i}"))


# -- good: a cache of sixteen, keyed by a value that comes again
@functools.lru_cache(maxsize=16)
def window(length):
    return tf.signal.hann_window(length)


def good(i):
    window(4096 + i % 4)


# -- good_bounded: results that live as long as the object they are of
_by_document = weakref.WeakKeyDictionary()


class Page:
    pass


def good_bounded():
    page = Page()
    _by_document[page] = tf.random.uniform([64, 128])
    tf.reduce_sum(_by_document[page])
