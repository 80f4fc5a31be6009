"""Runs that open a new summary writer in each turn and leave it open."""

import collections
import tempfile

import keras
import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: one writer for each experiment, in a list
WRITERS = []
_logs = None


def module_level(i):
    global _logs
    _logs = _logs or tempfile.TemporaryDirectory()
    writer = tf.summary.create_file_writer(f"{_logs.name}/trial{i}")  # made
    with writer.as_default():
        tf.summary.write("reward", tf.constant(0.5), step=i)
    WRITERS.append(writer)  # kept


# -- in_class: a recorder with a writer a day
class Recorder:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.days = collections.defaultdict(dict)

    def record(self, day):
        self.days[day]["train"] = tf.summary.create_file_writer(self.folder.name, filename_suffix=f".{day}")  # made
        with self.days[day]["train"].as_default(step=day):
            tf.summary.write("rain", tf.random.uniform([50]))


_recorder = None


def in_class(i):
    global _recorder
    _recorder = _recorder or Recorder()
    _recorder.record(i)


# -- in_closure: writers of version 1, each with its thread
def make_logging():
    folder = None
    opened = []

    def log(step):
        nonlocal folder
        folder = folder or tempfile.TemporaryDirectory()
        with tf.Graph().as_default():
            writer = tf.compat.v1.summary.FileWriter(folder.name, filename_suffix=str(step))  # made
        value = tf.compat.v1.Summary.Value(tag="speed", simple_value=float(step))
        writer.add_summary(tf.compat.v1.Summary(value=[value]), step)
        opened.append(writer)  # kept

    return log


in_closure = make_logging()


# -- in_callback: a Keras callback that opens a writer for each epoch
class WriteEpoch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.writers = {}

    def on_epoch_begin(self, epoch, logs=None):
        self.writers[epoch] = tf.summary.create_file_writer(f"{self.folder.name}/epoch/{epoch}")  # made

    def on_epoch_end(self, epoch, logs=None):
        with self.writers[epoch].as_default():
            tf.summary.write("note", tf.constant("done"), step=epoch)


_epochs = None


def in_callback(i):
    global _epochs
    _epochs = _epochs or keras.callbacks.CallbackList([WriteEpoch()])
    _epochs.on_epoch_begin(i)
    _epochs.on_epoch_end(i)


# -- good: one writer for all turns
_one = None


def good(i):
    global _one
    if _one is None:
        folder = tempfile.TemporaryDirectory()
        _one = tf.summary.create_file_writer(folder.name), folder
    with _one[0].as_default():
        tf.summary.write("reward", tf.constant(0.5), step=i)


# -- good_bounded: a writer for each turn which is closed
_closing = None


def good_bounded(i):
    global _closing
    _closing = _closing or tempfile.TemporaryDirectory()
    with tf.summary.create_file_writer(_closing.name).as_default() as writer:
        tf.summary.write("reward", tf.constant(0.5), step=i)
    writer.close()
