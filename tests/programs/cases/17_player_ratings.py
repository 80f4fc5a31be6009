"""League table: each new player brings a value network; players who left stay in the table."""
import sys

import keras
import numpy as np

board = np.random.rand(2, 64).astype("float32")


class Player:
    def __init__(self, name):
        self.name, self.games = name, 0
        inputs = keras.Input((64,))
        hidden = keras.layers.Dense(480, activation="tanh")(inputs)
        self.value = keras.Model(inputs, keras.layers.Dense(128)(hidden))

    def play(self):
        self.games += 1
        return float(np.sum(self.value(board)))


class League:
    def __init__(self):
        self.players = {}

    def join(self, name):
        self.players[name] = Player(name)
        return self.players[name]


league = League()


def cycle(i):
    return league.join(f"player {i}").play()


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for i in range(n):
        cycle(i)


if __name__ == "__main__":
    main()
