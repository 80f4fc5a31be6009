"""k-fold over many small tables: build, compile, fit, evaluate, delete, clear the session."""
import gc
import sys

import keras
import numpy as np

rng = np.random.default_rng(11)


def folds(rows, k):
    order = rng.permutation(rows)
    return [(np.setdiff1d(order, part), part) for part in np.array_split(order, k)]


def cycle(i):
    x, y = rng.random((32, 12), dtype=np.float32), rng.random((32, 1), dtype=np.float32)
    train, test = folds(32, 4)[i % 4]
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(16), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.RMSprop(1e-3), loss="mae", jit_compile=False)
    model.fit(x[train], y[train], batch_size=24, epochs=1, verbose=0)
    error = float(np.mean(np.abs(np.asarray(model(x[test])) - y[test])))
    del model
    keras.backend.clear_session()
    gc.collect()
    return error


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(sum(cycle(i) for i in range(n)) / n)


if __name__ == "__main__":
    main()
