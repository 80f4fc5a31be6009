"""Warm restarts: each period of the schedule begins with the state of AdamW set back."""
import sys

import keras
import numpy as np
import tensorflow as tf

net = keras.Sequential([keras.Input((24,)), keras.layers.Dense(48, activation="gelu"), keras.layers.Dense(3)])
x = tf.constant(np.random.rand(16, 24).astype("float32"))
y = tf.constant(np.random.rand(16, 3).astype("float32"))


def period(optimizer, steps):
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x, training=True) - y))
        optimizer.apply(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
    return float(loss)


optimizer = keras.optimizers.AdamW(learning_rate=1e-3, weight_decay=1e-4)
optimizer.build(net.trainable_variables)
fresh = [v.numpy() for v in optimizer.variables]


def cycle(i):
    for variable, value in zip(optimizer.variables, fresh, strict=True):
        variable.assign(value)
    return period(optimizer, steps=2)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
