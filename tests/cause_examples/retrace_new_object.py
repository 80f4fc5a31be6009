"""Compiled functions that get a new lambda, method, object or dataset as an argument in each call."""

import dataclasses
import functools

import tensorflow as tf

GROWS = True
CYCLES = 30


# -- module_level: a solver that is given its right-hand side as a lambda
@tf.function  # made
def euler(derivative, state):  # made
    return state + 0.01 * derivative(state)


def module_level():
    damping = 0.3
    euler(lambda y: -damping * y, tf.ones([8]))  # made


# -- in_class: a simulator that passes a settings object, made for each request
class Settings:
    def __init__(self, gravity):
        self.gravity = gravity


class Simulator:
    def __init__(self):
        self.requests = 0

    @tf.function  # made
    def fall(self, height, settings):  # made
        return height - 0.5 * settings.gravity * tf.square(height)

    def request(self):
        self.requests += 1
        settings = Settings(9.81)
        return self.fall(tf.ones([6]), settings)  # made


_simulator = None


def in_class():
    global _simulator
    _simulator = _simulator or Simulator()
    _simulator.request()


# -- in_closure: a reducer that gets a fresh partial
def make_reducer():
    @tf.function  # made
    def reduce_with(operation, values):  # made
        return operation(values)

    def reduce(axis):
        operation = functools.partial(tf.reduce_logsumexp, axis=axis)
        return reduce_with(operation, tf.ones([3, 5]))  # made

    return reduce


_reduce = None


def in_closure():
    global _reduce
    _reduce = _reduce or make_reducer()
    _reduce(1)


# -- in_callback: players register a bound method as the reward of the episode
@dataclasses.dataclass(eq=False)
class Player:
    greed: float

    def reward(self, coins):
        return tf.reduce_sum(coins) * self.greed


class Arena:
    def __init__(self):
        self.reward = None
        self.play = tf.function(lambda reward, coins: reward(coins))  # made

    def episode(self):
        return self.play(self.reward, tf.ones([4]))  # made


_arena = None


def in_callback():
    global _arena
    _arena = _arena or Arena()
    _arena.reward = Player(greed=0.5).reward
    _arena.episode()


# -- good: one object, passed in each call
@tf.function
def fall_with(height, settings):
    return height - 0.5 * settings.gravity * tf.square(height)


_settings = Settings(9.81)


def good():
    fall_with(tf.ones([6]), _settings)


# -- good_bounded: two functions that live as long as the module
@tf.function
def integrate(derivative, state):
    return state + 0.01 * derivative(state)


def decay(y):
    return -y


def grow(y):
    return y


def good_bounded(i):
    integrate((decay, grow)[i % 2], tf.ones([8]))
