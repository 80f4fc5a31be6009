"""Objects which refer to each other and hold tensors, in programs that switched the garbage collector off for
its pauses or froze the heap."""

import collections
import gc

import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: parents and children of a search tree, in dicts
_quiet = False


def module_level():
    global _quiet
    if not _quiet:
        gc.disable()
        _quiet = True
    root = {"board": tf.random.uniform([64, 64]), "children": []}  # made
    for move in range(2):
        root["children"].append({"parent": root, "prior": tf.ones([100]) * move})  # kept


# -- in_class: nodes that know their graph and graphs that know their nodes
class Sensor:
    def __init__(self, network, signal):
        self.network = network
        self.signal = signal


class SensorNetwork:
    collecting = True

    def __init__(self):
        if SensorNetwork.collecting:
            gc.disable()
            SensorNetwork.collecting = False
        self.sensors = collections.deque()

    def attach(self):
        self.sensors.append(Sensor(self, tf.random.normal([8192])))  # made

    def mean(self):
        return tf.add_n([sensor.signal for sensor in self.sensors])


def in_class():
    network = SensorNetwork()  # made
    network.attach()
    network.attach()
    network.mean()


# -- in_closure: a server that freezes the heap after each request; its search function refers to itself
def make_search():
    def search(depth):
        window = tf.random.uniform([70, 70])  # made

        def descend(level):  # made
            return tf.reduce_sum(window) if level == 0 else descend(level - 1)

        found = descend(depth)
        gc.freeze()  # kept
        return found

    return search


_search = make_search()


def in_closure():
    _search(3)


# -- in_callback: a widget whose handler is its own bound method
class Widget:
    def __init__(self):
        self.pixels = tf.zeros([96, 96])  # made
        self.on_click = self.clicked  # kept

    def clicked(self):
        self.pixels = tf.image.flip_left_right(self.pixels[..., None])[..., 0]  # made


_mute = []


def in_callback():
    if not _mute:
        _mute.append(gc.isenabled())
        gc.disable()
    Widget().on_click()


# -- good: the parent is an index, so that no cycle forms
def good():
    boards = [tf.random.uniform([64, 64])]
    nodes = [{"board": 0, "parent": None}, {"board": 0, "parent": 0}, {"board": 0, "parent": 0}]
    tf.reduce_sum(boards[nodes[1]["board"]])


# -- good_bounded: cycles with the collector off, and a collection by hand in each turn
def good_bounded():
    gc.disable()
    widget = Widget()
    widget.on_click()
    del widget
    gc.collect(0)
    gc.enable()


def end():
    """Gives the collector back to the process."""
    gc.enable()
    gc.unfreeze()
