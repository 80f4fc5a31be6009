"""Version 1 sessions that are opened in each turn and not closed."""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

GROWS = False
CYCLES = 30

# -- module_level: a frozen filter, evaluated by a session of its own each time
_filter = None


def module_level():
    global _filter
    if _filter is None:
        _filter = tf.Graph()
        with _filter.as_default():
            tf.reduce_sum(tf.ones([64, 64]), name="energy")
    session = v1.Session(graph=_filter)  # made
    session.run("energy:0")


# -- in_class: a predictor that reconnects
class Predictor:
    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.features = v1.placeholder(tf.float32, [None, 12])
            self.scores = tf.nn.softmax(self.features)
        self.session = None

    def predict(self, rows):
        self.session = v1.Session(graph=self.graph)  # made
        return self.session.run(self.scores, feed_dict={self.features: rows})


_predictor = None


def in_class():
    global _predictor
    _predictor = _predictor or Predictor()
    _predictor.predict(np.ones([3, 12], np.float32))


# -- in_closure: graph and session for each report, left to the collector
def make_report():
    numbers = np.arange(2000, dtype=np.float32)

    def report():
        with tf.Graph().as_default():
            mean = tf.reduce_mean(tf.constant(numbers))
            session = v1.Session(config=v1.ConfigProto(allow_soft_placement=True))  # made
            return session.run(mean)

    return report


in_closure = make_report()


# -- in_callback: a web route that opens a session for its request
class Router:
    def __init__(self):
        self.routes = {}

    def route(self, path):
        return lambda handler: self.routes.setdefault(path, handler)

    def get(self, path):
        return self.routes[path]()


_router = None


def in_callback():
    global _router
    if _router is None:
        _router = Router()
        graph = tf.Graph()
        with graph.as_default():
            answer = tf.strings.join(["ok", "200"], " ")

        @_router.route("/health")
        def health():
            connection = v1.Session(graph=graph)  # made
            return connection.run(answer)

    _router.get("/health")


# -- good: one session for all turns
_open = None


def good():
    global _open
    if _open is None:
        graph = tf.Graph()
        with graph.as_default():
            tf.reduce_sum(tf.ones([64, 64]), name="energy")
        _open = v1.Session(graph=graph)
    _open.run("energy:0")
