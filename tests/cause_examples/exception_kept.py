"""Errors that are stored for a report: each one keeps its traceback, the frames and all tensors in them."""

import collections
import concurrent.futures
import sys

import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: failed rows of an import
FAILURES = []


def parse_row(number):
    table = tf.random.normal([100, 100])  # made
    if number >= 0:
        raise ValueError(f"row {number}: {table.shape} is not the shape of a row")
    return table


def module_level(i):
    try:
        parse_row(i)
    except ValueError as problem:
        FAILURES.append(problem)  # kept


# -- in_class: a job that keeps its last error by kind
class Job:
    def __init__(self, name):
        self.name = name

    def run(self):
        left = tf.random.uniform([64, 50])  # made
        right = tf.random.uniform([49, 64])  # made
        return tf.matmul(left, right)


class Scheduler:
    def __init__(self):
        self.errors = collections.defaultdict(dict)

    def execute(self, job):
        try:
            job.run()
        except tf.errors.InvalidArgumentError as error:
            self.errors[type(error).__name__][job.name] = error  # kept


_scheduler = None


def in_class(i):
    global _scheduler
    _scheduler = _scheduler or Scheduler()
    _scheduler.execute(Job(f"matmul-{i}"))


# -- in_closure: the triple of sys.exc_info, put away
def make_guard():
    incidents = collections.deque()

    def measure(limit):
        pressure = tf.random.uniform([6000], maxval=2.0)  # made
        assert float(tf.reduce_max(pressure)) < limit, "too much pressure"

    def guarded():
        try:
            measure(0.5)
        except AssertionError:
            incidents.append(sys.exc_info())  # kept

    return guarded


in_closure = make_guard()


# -- in_callback: futures with an exception, collected by their done-callback
class Uploads:
    def __init__(self):
        self.failed = set()

    def done(self, future):
        if future.exception():
            self.failed.add(future)  # kept

    def upload(self):
        future = concurrent.futures.Future()
        future.add_done_callback(self.done)
        try:
            picture = tf.image.rot90(tf.random.uniform([48, 64, 3]))  # made
            raise ConnectionError(f"no route for {picture.shape}")
        except ConnectionError as lost:
            future.set_exception(lost)


_uploads = None


def in_callback():
    global _uploads
    _uploads = _uploads or Uploads()
    _uploads.upload()


# -- good: the text of the error is kept
_texts = []


def good(i):
    try:
        parse_row(i)
    except ValueError as problem:
        _texts.append(str(problem))


# -- good_bounded: the error is kept without its traceback
_clean = []


def good_bounded(i):
    try:
        parse_row(i)
    except ValueError as problem:
        _clean.append(problem.with_traceback(None))
