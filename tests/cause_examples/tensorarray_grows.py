"""TensorArrays that outlive their loop and are written at ever higher indices."""

import types

import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: the hidden states of a stream that doesn't end
STATES = None


def module_level(i):
    global STATES
    if STATES is None:
        STATES = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
    state = tf.tanh(tf.random.normal([64, 72]))  # made
    STATES = STATES.write(i, state)  # kept
    STATES.size()


# -- in_class: a recorder of flights, with two arrays in a namespace
class FlightRecorder:
    def __init__(self):
        self.tracks = types.SimpleNamespace(position=None, wind=None)
        self.length = 0

    def record(self):
        for name in ("position", "wind"):
            array = getattr(self.tracks, name) or tf.TensorArray(tf.float32, 1, dynamic_size=True)
            sample = tf.random.uniform([5, 600])  # made
            setattr(self.tracks, name, array.write(self.length, sample))  # kept
            getattr(self.tracks, name).size()
        self.length += 1


_recorder = None


def in_class():
    global _recorder
    _recorder = _recorder or FlightRecorder()
    _recorder.record()


# -- in_closure: a beam of hypotheses, size known too large in advance
def make_beam():
    beam = None
    position = 0

    def extend():
        nonlocal beam, position
        if beam is None:
            beam = tf.TensorArray(tf.float32, size=1000, element_shape=[40, 150])
        scores = tf.nn.log_softmax(tf.random.normal([40, 150]))  # made
        beam = beam.write(position, scores)  # kept
        position += 1
        return beam.size()

    return extend


in_closure = make_beam()


# -- in_callback: a listener on a simulation's clock which unstacks and appends
class Clock:
    def __init__(self):
        self.listeners = {}

    def tick(self, now):
        for listener in self.listeners.values():
            listener(now)


_clock = None


def in_callback(i):
    global _clock
    if _clock is None:
        _clock = Clock()
        history = {"heat": tf.TensorArray(tf.float64, size=2, dynamic_size=True, clear_after_read=False)}

        def sample(now):
            field = tf.random.stateless_uniform([3000], (now, 0), dtype=tf.float64)  # made
            history["heat"] = history["heat"].write(now, field)  # kept
            history["heat"].size()

        _clock.listeners["sample"] = sample
    _clock.tick(i)


# -- good: the array is stacked and dropped at the end of each turn
def good():
    path = tf.TensorArray(tf.float32, size=4)
    for step in range(4):
        path = path.write(step, tf.random.normal([1500]))
    tf.reduce_sum(path.stack())


# -- good_bounded: a ring of eight places
_ring = None


def good_bounded(i):
    global _ring
    if _ring is None:
        _ring = tf.TensorArray(tf.float32, size=8, clear_after_read=False)
    _ring = _ring.write(i % 8, tf.random.normal([64, 72]))
    _ring.size()
