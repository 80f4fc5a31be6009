"""Seven days are gathered in a buffer, then summed up and flushed."""
import sys

import tensorflow as tf


class Ledger:
    def __init__(self):
        self.days, self.weeks = [], 0

    def close_day(self, trades):
        self.days.append(trades)
        if len(self.days) == 7:
            total = tf.add_n([tf.reduce_sum(d) for d in self.days])
            self.weeks += 1
            self.days.clear()
            return float(total)
        return None


ledger = Ledger()


def cycle(i):
    return ledger.close_day(tf.random.normal([64, 512]))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 210
    for i in range(n):
        cycle(i)
    print(ledger.weeks, "weeks")


if __name__ == "__main__":
    main()
