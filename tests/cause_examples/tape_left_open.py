"""Gradient tapes that are entered and never left, so that they go on recording all that reads what they watch."""

import contextlib

import keras
import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: a session of probing which opens its tape by hand and forgets it
PROBE = None


def module_level():
    global PROBE
    if PROBE is None:
        tape = tf.GradientTape(watch_accessed_variables=False)  # made
        tape.__enter__()  # made
        PROBE = {"tape": tape, "field": tf.ones([128, 64])}  # kept
        tape.watch(PROBE["field"])
    PROBE["field"] = tf.sin(PROBE["field"] * 1.1)  # made


# -- in_class: a controller that enters its tape into an exit stack which is never closed
class Controller:
    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.gains = tf.Variable(tf.fill([4096], 0.2), trainable=False)
        self.tape = None

    def start(self):
        self.tape = self.stack.enter_context(tf.GradientTape(watch_accessed_variables=False))  # made
        self.tape.watch(self.gains)

    def step(self):
        if self.tape is None:
            self.start()
        return tf.tanh(self.gains * 3.0)  # made


_controller = None


def in_class():
    global _controller
    _controller = _controller or Controller()
    _controller.step()


# -- in_closure: a generator of losses, suspended for ever inside its with
def losses():
    current = tf.random.normal([90, 90])
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:  # made
        tape.watch(current)
        while True:
            yield tf.reduce_mean(tf.square(current) + tf.abs(current))  # made


def make_source():
    source = losses()
    return lambda: next(source)


in_closure = make_source()


# -- in_callback: a Keras callback that opens the tape when training begins and waits for an end that never comes
class Saliency(keras.callbacks.Callback):
    def __init__(self, image):
        super().__init__()
        self.image = image
        self.recorder = None

    def on_train_begin(self, logs=None):
        self.recorder = tf.GradientTape(watch_accessed_variables=False)  # made
        self.recorder.__enter__()  # made
        self.recorder.watch(self.image)

    def on_train_batch_end(self, batch, logs=None):
        edges = self.image[:, 1:] - self.image[:, :-1]  # made
        tf.reduce_max(tf.exp(-edges))  # made

    def on_train_end(self, logs=None):
        self.recorder.__exit__(None, None, None)


_saliency = None


def in_callback(i):
    global _saliency
    if _saliency is None:
        _saliency = Saliency(tf.random.uniform([64, 96]))
        _saliency.on_train_begin()
    _saliency.on_train_batch_end(i)


# -- good: the same work, the tape is left at its end
_field = None


def good():
    global _field
    if _field is None:
        _field = tf.ones([128, 64])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(_field)
        energy = tf.reduce_sum(tf.square(tf.sin(_field)))
    tape.gradient(energy, _field)


# -- good_bounded: a tape that stays open but is told not to record
_paused = None


def good_bounded():
    global _paused
    if _paused is None:
        _paused = (tf.GradientTape(watch_accessed_variables=False), tf.random.normal([4096]))
        _paused[0].__enter__()
        _paused[0].watch(_paused[1])
    tape, signal = _paused
    with tape.stop_recording():
        tf.reduce_sum(tf.tanh(signal) * signal)
