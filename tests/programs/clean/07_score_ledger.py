"""A ledger of scores and short remarks: some dozens of bytes a turn, and wanted."""
import sys

import tensorflow as tf

scores, remarks = [], {}
head = tf.random.normal([64, 16])


def cycle(i):
    score = float(tf.reduce_max(tf.random.normal([64, 64]) @ head))
    scores.append(score)
    if i % 4 == 0:
        remarks[i] = f"turn {i}: {score:.2f}"
    return sum(scores[-10:])


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 220
    for i in range(n):
        cycle(i)
    print(len(remarks), "remarks")


if __name__ == "__main__":
    main()
