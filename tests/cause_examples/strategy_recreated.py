"""Jobs that make a distribution strategy for each turn of work."""

import tensorflow as tf

GROWS = False
CYCLES = 24


# -- module_level: a job that places its sum on a device by a strategy of its own
def module_level():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")  # made
    with strategy.scope():
        rain = tf.Variable(tf.ones([64]))
    strategy.run(lambda: tf.reduce_sum(rain))


# -- in_class: a trainer whose reset takes a new mirrored strategy
class Trainer:
    def __init__(self):
        self.strategy = None
        self.weights = None

    def reset(self):
        self.strategy = tf.distribute.MirroredStrategy(["/cpu:0"])  # made
        with self.strategy.scope():
            self.weights = tf.Variable(tf.zeros([32, 4]))

    def step(self):
        return self.weights.assign(tf.ones([32, 4]))


_trainer = None


def in_class():
    global _trainer
    _trainer = _trainer or Trainer()
    _trainer.reset()
    _trainer.step()


# -- in_closure: a reducer that distributes a dataset by a new strategy
def make_reducer():
    totals = []

    def reduce():
        spread = tf.distribute.MirroredStrategy(devices=["CPU:0"])  # made
        parts = spread.experimental_distribute_values_from_function(lambda context: tf.ones([128]))
        totals.append(float(tf.reduce_sum(spread.reduce("SUM", parts, axis=None))))

    return reduce


in_closure = make_reducer()


# -- in_callback: a resource pool whose factory is asked for a strategy on each lease
class Pool:
    def __init__(self, factory):
        self.factory = factory

    def lease(self, work):
        return work(self.factory())


def new_strategy():
    return tf.distribute.OneDeviceStrategy(device="/cpu:0")  # made


_pool = None


def in_callback():
    global _pool
    _pool = _pool or Pool(new_strategy)
    _pool.lease(lambda strategy: strategy.run(tf.linalg.trace, args=(tf.eye(20),)))


# -- good: one strategy
_strategy = None


def good():
    global _strategy
    if _strategy is None:
        _strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
        with _strategy.scope():
            _strategy_weights.append(tf.Variable(tf.ones([64])))
    _strategy.run(lambda: tf.reduce_sum(_strategy_weights[0]))


_strategy_weights = []
