"""Models which are made, compiled and fitted afresh in each turn: folds, days, products."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

GROWS = True
CYCLES = 24


# -- module_level: a fold of a cross-validation
def module_level(i):
    x = np.linspace(0, 1, 64, dtype=np.float32).reshape(16, 4) + i
    net = keras.Sequential([keras.Input([4]), keras.layers.Dense(6, "relu"), keras.layers.Dense(1)])  # made
    net.compile(optimizer="sgd", loss="mse")
    net.fit(x, x[:, :1], epochs=1, verbose=0)  # made


# -- in_class: a demand planner that trains its model again at night
class Planner:
    def __init__(self):
        self.model = None
        self.errors = []

    def night(self):
        sales = np.random.default_rng(3).normal(size=(8, 5)).astype("float32")
        days = keras.Input([5])
        self.model = keras.Model(days, keras.layers.Dense(2, activation="softplus")(days))  # made
        self.model.compile("adam", "mae")
        history = self.model.fit(sales, sales[:, :2], batch_size=8, verbose=0)  # made
        self.errors.append(history.history["loss"][-1])


_planner = None


def in_class():
    global _planner
    _planner = _planner or Planner()
    _planner.night()


# -- in_closure: an objective that a search calls
def make_objective():
    best = float("inf")

    def objective(units):
        nonlocal best
        signs = keras.Sequential([keras.layers.Dense(units, "tanh"), keras.layers.Dense(3)])  # made
        signs.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        pictures = tf.zeros([6, 9])
        labels = tf.constant([0, 1, 2, 0, 1, 2])
        history = signs.fit(pictures, labels, batch_size=6, verbose=0)  # made
        best = min(best, *history.history["loss"])

    return objective


in_closure_objective = make_objective()


def in_closure():
    in_closure_objective(5)


# -- in_callback: a drift alarm whose handler trains a new detector
@dataclasses.dataclass
class Alarm:
    handlers: list = dataclasses.field(default_factory=list)

    def raised(self, window):
        return [handler(window) for handler in self.handlers]


def retrain(window):
    code = keras.Input([7])
    detector = keras.Model(code, keras.layers.Dense(7, "relu")(code))  # made
    detector.compile(optimizer="rmsprop", loss="mse")
    detector.fit(window, window, verbose=0, callbacks=[keras.callbacks.TerminateOnNaN()])  # made
    return detector.count_params()


_alarm = None


def in_callback():
    global _alarm
    _alarm = _alarm or Alarm([retrain])
    _alarm.raised(np.ones([8, 7], np.float32))


# -- good: one model, fitted further in each turn
_model = None


def good():
    global _model
    x = np.linspace(0, 1, 64, dtype=np.float32).reshape(16, 4)
    if _model is None:
        _model = keras.Sequential([keras.Input([4]), keras.layers.Dense(6, "relu"), keras.layers.Dense(1)])
        _model.compile(optimizer="sgd", loss="mse")
    _model.fit(x, x[:, :1], epochs=1, verbose=0)
