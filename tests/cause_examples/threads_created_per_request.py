"""Servers that start a thread for each request, in which eager TensorFlow runs."""

import concurrent.futures
import threading

import tensorflow as tf

GROWS = False
CYCLES = 30


# -- module_level: a thread for each visitor
def greet(results):
    results.append(tf.strings.join(["hello", "visitor"], " "))  # made


def module_level():
    results = []
    thread = threading.Thread(target=greet, args=(results,))  # made
    thread.start()  # made
    thread.join()


# -- in_class: a thread class for each measurement
class Measurement(threading.Thread):
    def __init__(self, sensor):
        super().__init__(name=f"measure-{sensor}")
        self.mean = None

    def run(self):
        self.mean = float(tf.reduce_mean(tf.random.normal([100])))  # made


class Laboratory:
    def __init__(self):
        self.means = {}

    def measure(self, sensor):
        measurement = Measurement(sensor)  # made
        measurement.start()  # made
        measurement.join()
        self.means[sensor % 4] = measurement.mean


_laboratory = None


def in_class(i):
    global _laboratory
    _laboratory = _laboratory or Laboratory()
    _laboratory.measure(i)


# -- in_closure: an executor of its own for each job
def make_batcher():
    def multiply(left, right):
        return tf.matmul(left, right)  # made

    def batch():
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as workers:  # made
            jobs = [workers.submit(multiply, tf.eye(8), tf.ones([8, 8])) for _ in range(2)]  # made
        return [job.result() for job in jobs]

    return batch


in_closure = make_batcher()


# -- in_callback: a timer whose handler runs in the timer's thread
class Reminder:
    def __init__(self):
        self.rung = threading.Event()
        self.sum = 0

    def ring(self):
        self.sum = int(tf.reduce_sum(tf.range(10)))  # made
        self.rung.set()


def in_callback():
    reminder = Reminder()
    timer = threading.Timer(0.0, reminder.ring)  # made
    timer.start()  # made
    timer.join()


# -- good: one pool of two workers
_pool = None


def good():
    global _pool
    _pool = _pool or concurrent.futures.ThreadPoolExecutor(max_workers=2)
    _pool.submit(tf.matmul, tf.eye(8), tf.ones([8, 8])).result()
