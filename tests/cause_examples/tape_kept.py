"""Gradient tapes, or functions that close over one, which are put away after their step instead of being dropped."""

import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: persistent tapes for a sensitivity report
TAPES = []


def module_level():
    dose = tf.random.uniform([64, 64])
    with tf.GradientTape(persistent=True) as tape:  # made
        tape.watch(dose)
        effect = tf.reduce_sum(tf.exp(-dose) * tf.sin(dose))
    tape.gradient(effect, dose)
    TAPES.append(tape)  # kept


# -- in_class: a robot arm whose pullbacks are stored by joint
class Arm:
    def __init__(self):
        self.joint = tf.Variable(tf.random.normal([60, 60]))
        self.pullbacks = {"elbow": []}

    def move(self):
        with tf.GradientTape(persistent=True) as tape:  # made
            pose = tf.matmul(tf.cos(self.joint), tf.sin(self.joint))
        self.pullbacks["elbow"].append(lambda seed: tape.gradient(pose, self.joint, seed))  # kept


_arm = None


def in_class():
    global _arm
    _arm = _arm or Arm()
    _arm.move()


# -- in_closure: a set of tapes, each with its price
def make_pricer():
    ledger = set()

    def price(strike):
        spot = tf.linspace(50.0, 150.0, 8192)
        tape = tf.GradientTape(persistent=True)  # made
        with tape:
            tape.watch(spot)
            payoff = tf.nn.softplus((spot - strike) / 5.0) * 5.0
        delta = tape.gradient(payoff, spot)
        ledger.add((tape, float(tf.reduce_mean(delta))))  # kept

    return price


_price = None


def in_closure(i):
    global _price
    _price = _price or make_pricer()
    _price(90.0 + i % 5)


# -- in_callback: an audit hook that keeps what it is shown
class Audit:
    def __init__(self):
        self.trail = {}

    def __call__(self, step, **shown):
        self.trail[step] = shown  # kept


class Fitter:
    def __init__(self, hook):
        self.hook = hook
        self.slope = tf.Variable(tf.ones([5000]))

    def fit(self, step):
        with tf.GradientTape(persistent=True) as tape:  # made
            error = tf.square(self.slope * 2.0 - 1.0)
        self.slope.assign_sub(0.01 * tape.gradient(error, self.slope))
        self.hook(step, tape=tape, error=error)


_fitter = None


def in_callback(i):
    global _fitter
    _fitter = _fitter or Fitter(Audit())
    _fitter.fit(i)


# -- good: the gradients are taken and the tape is dropped
_norms = []


def good():
    dose = tf.random.uniform([64, 64])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(dose)
        effect = tf.reduce_sum(tf.exp(-dose))
    _norms.append(float(tf.norm(tape.gradient(effect, dose))))


# -- good_bounded: the newest tape only
class Newest:
    tape = None


def good_bounded():
    signal = tf.random.normal([4096])
    with tf.GradientTape(persistent=True) as Newest.tape:
        Newest.tape.watch(signal)
        tf.reduce_sum(tf.square(signal))
