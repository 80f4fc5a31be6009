"""Loops which call predict, evaluate or fit with a single item where one call with a batch, or the model itself,
would do."""

import keras
import numpy as np

GROWS = False
CYCLES = 24

# -- module_level: the price of one house
_houses = None


def module_level():
    global _houses
    if _houses is None:
        _houses = keras.Sequential([keras.Input([9]), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
    house = np.ones([9], np.float32)
    _houses.predict(house[None], verbose=0)  # made


# -- in_class: a game player that asks its network for each move
class Player:
    def __init__(self):
        board = keras.Input([3, 3, 1])
        flat = keras.layers.Flatten()(keras.layers.Conv2D(4, 2)(board))
        self.policy = keras.Model(board, keras.layers.Dense(9, "softmax")(flat))

    def move(self, board):
        return int(np.argmax(self.policy.predict(board[np.newaxis], batch_size=1, verbose=0)[0]))  # made


_player = None


def in_class():
    global _player
    _player = _player or Player()
    _player.move(np.zeros([3, 3, 1], np.float32))


# -- in_closure: online learning, one sample a call
def make_learner():
    net = None

    def learn(sample, target):
        nonlocal net
        if net is None:
            net = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
            net.compile("sgd", "mse")
        net.fit(sample, target, epochs=1, verbose=0)  # made

    return learn


_learn = make_learner()


def in_closure(i):
    _learn(np.full([1, 3], i / 30, np.float32), np.ones([1, 1], np.float32))


# -- in_callback: a subscriber that evaluates each message by itself
class Topic:
    def __init__(self):
        self.subscribers = {}

    def publish(self, message):
        return {name: receive(message) for name, receive in self.subscribers.items()}


def make_subscriber():
    net = keras.Sequential([keras.Input([5]), keras.layers.Dense(1, "sigmoid")])
    net.compile(loss="binary_crossentropy")

    def receive(message):
        return net.evaluate(message, np.ones([1, 1]), verbose=0)  # made

    return receive


_topic = None


def in_callback():
    global _topic
    if _topic is None:
        _topic = Topic()
        _topic.subscribers["spam"] = make_subscriber()
    _topic.publish(np.ones([1, 5], np.float32))


# -- good: the model is called on the item
_called = None


def good():
    global _called
    if _called is None:
        _called = keras.Sequential([keras.Input([9]), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
    _called(np.ones([1, 9], np.float32), training=False).numpy()


# -- good_bounded: one predict for the whole batch
_batched = None


def good_bounded():
    global _batched
    if _batched is None:
        _batched = keras.Sequential([keras.Input([9]), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
    _batched.predict(np.ones([256, 9], np.float32), batch_size=256, verbose=0)
