"""Vocabularies put into a new lookup table in each turn, or brought along by a model that is loaded again."""

import functools
import tempfile

import keras
import tensorflow as tf

GROWS = True
CYCLES = 24

# -- module_level: the codes of airports, looked up in a table made on the spot
AIRPORTS = [f"APT{n}" for n in range(800)]


def module_level():
    pairs = tf.lookup.KeyValueTensorInitializer(AIRPORTS, tf.range(len(AIRPORTS)))
    table = tf.lookup.StaticHashTable(pairs, default_value=-1)  # made
    table.lookup(tf.constant(["APT7", "nowhere"]))


# -- in_class: an indexer which refreshes its table
class Indexer:
    def __init__(self):
        self.table = None
        self.seen = tf.range(2000, dtype=tf.int64)

    def refresh(self):
        self.table = tf.lookup.experimental.DenseHashTable(  # made
            tf.int64, tf.int64, default_value=-1, empty_key=-1, deleted_key=-2, initial_num_buckets=4096
        )
        self.table.insert(self.seen, self.seen * 2)
        return self.table.size()


_indexer = None


def in_class():
    global _indexer
    _indexer = _indexer or Indexer()
    _indexer.refresh()


# -- in_closure: a module with a vocabulary inside is loaded for every query
class Tagger(tf.Module):
    def __init__(self):
        super().__init__()
        words = tf.constant([f"word{n}" for n in range(500)])
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(words, tf.range(500, dtype=tf.int64)), -1
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tag(self, words):
        return self.table.lookup(words)


@functools.cache
def tagger_folder():
    folder = tempfile.TemporaryDirectory(prefix="cause_example_")
    tf.saved_model.save(Tagger(), folder.name)
    return folder


def make_tagging():
    def tag(words):
        tagger = tf.saved_model.load(tagger_folder().name)  # made
        return tagger.tag(words)

    return tag


_tag = make_tagging()


def in_closure():
    _tag(tf.constant(["word3", "word4"]))


# -- in_callback: a preprocessing step, registered by name, that makes its StringLookup when it is called
STEPS = {}


def step(name):
    return lambda fn: STEPS.setdefault(name, fn)


@step("colour")
def colour_ids(colours):
    lookup = keras.layers.StringLookup(vocabulary=["red", "green", "blue"])  # made
    return lookup(colours)  # made


def in_callback():
    STEPS["colour"](tf.constant(["blue", "mauve"]))


# -- good: one table
_table = None


def good():
    global _table
    if _table is None:
        pairs = tf.lookup.KeyValueTensorInitializer(AIRPORTS, tf.range(len(AIRPORTS)))
        _table = tf.lookup.StaticHashTable(pairs, default_value=-1)
    _table.lookup(tf.constant(["APT7", "nowhere"]))


# -- good_bounded: a mutable table whose values are replaced
_mutable = None


def good_bounded(i):
    global _mutable
    if _mutable is None:
        _mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    _mutable.insert(tf.constant(AIRPORTS[:50]), tf.range(50, dtype=tf.int64) + i)
