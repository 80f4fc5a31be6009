"""A worker thread that scores jobs from a queue; its scratch data is local to the thread."""
import queue
import sys
import threading

import tensorflow as tf

jobs, answers = queue.Queue(), queue.Queue()
local = threading.local()
kernel = tf.random.normal([128, 128])


def score(batch):
    hidden = tf.nn.tanh(batch @ kernel)
    local.scratch.append(hidden)
    return float(tf.reduce_mean(hidden))


def worker():
    local.scratch = []
    while True:
        batch = jobs.get()
        answers.put(score(batch))


threading.Thread(target=worker, name="scorer", daemon=True).start()


def cycle(i):
    jobs.put(tf.random.normal([128, 128]))
    return answers.get()


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
