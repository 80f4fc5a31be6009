"""A chat server in asyncio; each visitor's hidden state is kept by connection."""
import asyncio
import sys

import tensorflow as tf


class Room:
    def __init__(self):
        self.cell = tf.random.normal([256, 256]) * 0.05
        self.visitors = {}

    async def say(self, visitor, text):
        state = self.visitors.get(visitor, tf.zeros([64, 256]))
        await asyncio.sleep(0)
        state = tf.nn.tanh(state @ self.cell + float(len(text)))
        self.visitors[visitor] = state
        return float(tf.reduce_mean(state))


room = Room()


async def cycle(i):
    return await asyncio.gather(room.say(("eu", i % 8), "hello"), room.say(("us", i % 8), "howdy"))


async def serve(n):
    for i in range(n):
        await cycle(i)


def main():
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 150))


if __name__ == "__main__":
    main()
