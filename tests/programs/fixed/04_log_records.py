"""Training log whose last records can be shown on a status page."""
import logging
import sys
from collections import deque

import tensorflow as tf

log = logging.getLogger("refinery.train")
log.setLevel(logging.INFO)
log.propagate = False


class StatusPage(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = deque(maxlen=20)

    def emit(self, record):
        self.records.append(record)

    def latest(self):
        return [r.getMessage() for r in self.records][-5:]


page = StatusPage()
log.addHandler(page)
weights = tf.random.normal([128, 128])


def cycle(i):
    activations = tf.nn.relu(tf.random.normal([128, 128]) @ weights)
    log.info("step %d mean %.3f", i, float(tf.reduce_mean(activations)))
    return page.latest()


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
