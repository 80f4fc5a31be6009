"""Programs that export the model after each turn, mostly over the same folder."""

import pathlib
import tempfile

import keras
import tensorflow as tf

GROWS = False
CYCLES = 24


# -- module_level: a counter of visitors, saved after each batch of them
class Visitors(tf.Module):
    def __init__(self):
        super().__init__()
        self.total = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def add(self, batch):
        return self.total.assign_add(tf.reduce_sum(batch))


_visitors = None


def module_level():
    global _visitors
    if _visitors is None:
        _visitors = Visitors(), tempfile.TemporaryDirectory()
    module, folder = _visitors
    module.add(tf.ones([3]))
    tf.saved_model.save(module, folder.name)  # made


# -- in_class: a publisher which exports a Keras model in its serving form
class Publisher:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.net = keras.Sequential([keras.Input([5]), keras.layers.Dense(2)])
        self.version = 0

    def publish(self):
        self.version += 1
        target = pathlib.Path(self.folder.name, str(self.version % 2))
        self.net.export(str(target), verbose=False)  # made


_publisher = None


def in_class():
    global _publisher
    _publisher = _publisher or Publisher()
    _publisher.publish()


# -- in_closure: an export with a signature that is made for each call
def make_exporter():
    weights = None
    folder = None

    def export():
        nonlocal weights, folder
        if weights is None:
            weights, folder = tf.Module(), tempfile.TemporaryDirectory()
            weights.scale = tf.Variable(tf.ones([8]))

        @tf.function(input_signature=[tf.TensorSpec([8])])
        def scaled(x):
            return {"y": x * weights.scale}

        tf.saved_model.save(weights, folder.name, signatures={"serving_default": scaled})  # made

    return export


in_closure = make_exporter()


# -- in_callback: a Keras callback which exports at the end of each epoch
class ExportEachEpoch(keras.callbacks.Callback):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def on_epoch_end(self, epoch, logs=None):
        archive = keras.export.ExportArchive()  # made
        archive.track(self.model)
        archive.add_endpoint("score", self.model.call, [tf.TensorSpec([None, 3])])
        archive.write_out(self.folder.name, verbose=False)  # made


_exports = None


def in_callback(i):
    global _exports
    if _exports is None:
        net = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
        _exports = keras.callbacks.CallbackList([ExportEachEpoch(tempfile.TemporaryDirectory())], model=net)
    _exports.on_epoch_end(i)


# -- good: the weights alone are written, by one checkpoint
_checkpoint = None


def good():
    global _checkpoint
    if _checkpoint is None:
        folder = tempfile.TemporaryDirectory()
        module = Visitors()
        _checkpoint = tf.train.Checkpoint(module=module), folder, module
    checkpoint, folder, module = _checkpoint
    module.add(tf.ones([3]))
    checkpoint.write(f"{folder.name}/latest")
