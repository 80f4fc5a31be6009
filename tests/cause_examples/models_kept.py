"""Models, histories, optimizers or functions over models which are stored for each round and never let go."""

import functools

import keras
import numpy as np
import tensorflow as tf

GROWS = True
CYCLES = 24

# -- module_level: one small regressor for each shop, all of them remembered
REGRESSORS = {"north": [], "south": []}


def module_level(i):
    net = keras.Sequential([keras.Input([48]), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])  # made
    net(tf.ones([2, 48]))
    REGRESSORS["north" if i % 2 else "south"].append(net)  # kept


# -- in_class: an evolution that never forgets an individual
class Individual:
    def __init__(self, net, fitness):
        self.net = net
        self.fitness = fitness


class Evolution:
    def __init__(self):
        self.founder = keras.Sequential([keras.Input([64]), keras.layers.Dense(64, "tanh")])
        self.population = [Individual(self.founder, 0.0)]

    def breed(self):
        child = keras.models.clone_model(self.founder)  # made
        fitness = float(tf.reduce_mean(child(tf.ones([1, 64]))))
        self.population.append(Individual(child, fitness))  # kept


_evolution = None


def in_class():
    global _evolution
    _evolution = _evolution or Evolution()
    _evolution.breed()


# -- in_closure: predictors that close over the network of their day
def make_forecasts():
    by_day = {}

    def train(day):
        inputs = keras.Input([24])
        net = keras.Model(inputs, keras.layers.Dense(24, "elu")(keras.layers.Dense(96)(inputs)))  # made

        def forecast(load):
            return net(load) * 1.02

        forecast(tf.zeros([1, 24]))
        by_day[day] = functools.partial(forecast, tf.ones([1, 24]))  # kept

    return train


in_closure = make_forecasts()


# -- in_callback: a listener that stores the optimizer of each finished trial
class Study:
    def __init__(self, *listeners):
        self.listeners = listeners
        self.weights = None

    def trial(self):
        if self.weights is None:
            self.weights = [tf.Variable(tf.random.normal([64, 64])), tf.Variable(tf.zeros([64]))]
        optimizer = keras.optimizers.Adam(1e-3)  # made
        optimizer.apply_gradients([(0.01 * w, w) for w in self.weights])  # made
        for listener in self.listeners:
            listener.finished(optimizer)


class Archive:
    def __init__(self):
        self.items = set()

    def finished(self, optimizer):
        self.items.add(optimizer)  # kept


_study = None


def in_callback():
    global _study
    _study = _study or Study(Archive())
    _study.trial()


# -- good: one model, and of each round only its weights' norm
_net = None
_scores = []


def good():
    global _net
    if _net is None:
        _net = keras.Sequential([keras.Input([48]), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])
    for kernel in _net.trainable_variables:
        kernel.assign(kernel * 0.99)
    _scores.append(float(np.abs(_net.get_weights()[0]).mean()))


# -- good_bounded: two models take turns
_pair = []


def good_bounded(i):
    if len(_pair) < 2:
        _pair.append(keras.Sequential([keras.Input([24]), keras.layers.Dense(24)]))
    _pair[i % len(_pair)](tf.ones([1, 24]))
