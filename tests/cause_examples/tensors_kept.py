"""Results that are put into a container which nobody empties: losses, embeddings, frames, replies."""

import collections
import dataclasses
import heapq
import itertools

import keras
import tensorflow as tf

GROWS = True
CYCLES = 30

# -- module_level: attention maps by layer, for a picture that is drawn some day
ATTENTION = collections.defaultdict(list)


def module_level(i):
    query = tf.random.normal([64, 16])
    weights = tf.nn.softmax(tf.matmul(query, query, transpose_b=True))  # made
    ATTENTION[f"layer_{i % 3}"].append(weights)  # kept


# -- in_class: a search service that ranks replies in a heap
@dataclasses.dataclass(order=True)
class Reply:
    rank: float
    order: int
    vector: tf.Tensor = dataclasses.field(compare=False)


class SearchService:
    def __init__(self):
        self.best = []
        self.order = itertools.count()

    def answer(self):
        vector = tf.math.l2_normalize(tf.random.normal([50, 128]), axis=1)  # made
        rank = float(tf.reduce_max(vector))
        heapq.heappush(self.best, Reply(rank, next(self.order), vector))  # kept


_service = None


def in_class():
    global _service
    _service = _service or SearchService()
    _service.answer()


# -- in_closure: the ids of what was seen, with the frames beside them
def make_camera():
    seen = {}

    def capture(number):
        frame = tf.image.resize(tf.random.uniform([1, 16, 16, 3]), [72, 72])  # made
        seen[number, "rgb"] = frame  # kept
        return len(seen)

    return capture


in_closure = make_camera()


# -- in_callback: a Keras callback that notes the outputs of each batch
class NoteOutputs(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.outputs = ()

    def on_predict_batch_end(self, batch, logs=None):
        self.outputs += (logs["outputs"],)  # kept


_notes = None


def in_callback(i):
    global _notes
    if _notes is None:
        _notes = keras.callbacks.CallbackList([NoteOutputs()])
    batch = tf.random.normal([8, 1024])
    scores = tf.sigmoid(batch)  # made
    _notes.on_predict_batch_end(i, {"outputs": scores})


# -- good: the floats are kept, the tensors go
_means = []


def good():
    query = tf.random.normal([64, 16])
    weights = tf.nn.softmax(tf.matmul(query, query, transpose_b=True))
    _means.append(float(tf.reduce_mean(weights)))


# -- good_bounded: a replay buffer of the last ten frames
_replay = collections.deque(maxlen=10)


def good_bounded(i):
    _replay.append(("rgb", tf.random.uniform([72, 72, 3])))
