"""Version 1 programs which add operations to their graph in each turn of the loop that runs the session."""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

GROWS = True
CYCLES = 30

# -- module_level: an assign op made for each new learning rate
_world = {}


def module_level(i):
    if not _world:
        graph = tf.Graph()
        with graph.as_default():
            _world["rates"] = v1.get_variable("rates", [4096], use_resource=True)
            start = v1.global_variables_initializer()
        _world["session"] = v1.Session(graph=graph)
        _world["session"].run(start)
    with _world["session"].graph.as_default():
        update = v1.assign(_world["rates"], np.full([4096], 1.0 / (i + 1), np.float32))  # made
    _world["session"].run(update)


# -- in_class: a decoder whose method builds the loss of one batch
class Decoder:
    def __init__(self):
        self.graph = tf.Graph()
        self.session = v1.Session(graph=self.graph)

    def loss(self, batch):
        with self.graph.as_default():
            codes = tf.constant(batch)  # made
            loss = tf.reduce_mean(tf.square(codes - tf.stop_gradient(codes)))  # made
        return self.session.run(loss)


_decoder = None


def in_class(i):
    global _decoder
    _decoder = _decoder or Decoder()
    _decoder.loss(np.random.default_rng(i).normal(size=(60, 60)).astype(np.float32))


# -- in_closure: fetches by expression, which looks harmless: session.run(total * scale)
def make_meter():
    graph = tf.Graph()
    with graph.as_default():
        pulses = v1.placeholder(tf.float32, [None], name="pulses")
        total = tf.reduce_sum(pulses)
    session = v1.Session(graph=graph)

    def read(scale):
        with graph.as_default():
            calibration = tf.convert_to_tensor(np.linspace(0, scale, 5000, dtype=np.float32))  # made
            watts = total * scale + calibration  # made
        return session.run(watts, {pulses: [1.0, 2.0]})

    return read


_read = None


def in_closure(i):
    global _read
    _read = _read or make_meter()
    _read(1.0 + i)


# -- in_callback: a session hook that makes its own op before each run
class SampleHook:
    def __init__(self, rows):
        self.rows = rows

    def before_run(self, session):
        return tf.gather(self.rows, np.arange(3000, dtype=np.int32) % 8)  # made

    def after_run(self, values):
        return values.mean()


class Monitored:
    def __init__(self, hooks):
        self.session = v1.Session()
        self.hooks = hooks

    def run(self):
        for hook in self.hooks:
            hook.after_run(self.session.run(hook.before_run(self.session)))


_monitored = None
_hooked_graph = None


def in_callback():
    global _monitored, _hooked_graph
    _hooked_graph = _hooked_graph or tf.Graph()
    with _hooked_graph.as_default():
        if _monitored is None:
            _monitored = Monitored([SampleHook(tf.ones([8, 2]))])
        _monitored.run()


# -- good: a placeholder, a graph that is finalised
_fed = {}


def good(i):
    if not _fed:
        graph = tf.Graph()
        with graph.as_default():
            _fed["rate"] = v1.placeholder(tf.float32, [])
            _fed["loss"] = tf.reduce_sum(tf.fill([4096], _fed["rate"]))
        graph.finalize()
        _fed["session"] = v1.Session(graph=graph)
    _fed["session"].run(_fed["loss"], {_fed["rate"]: 1.0 / (i + 1)})
