"""Causes in the user's own code: what is made at each tick and kept, or thrown away at a price (TEN101 to TEN131).

Unless an entry says otherwise the figures are from TensorFlow 2.21.0 on CPU, Keras 3.15.1, Python 3.11.
"""

from __future__ import annotations

from tenure.causes._cause import Cause

__all__ = ["USER"]

_HELD = "any: the program itself holds it"
_SEEN = "seen on TensorFlow 2.21"

USER: tuple[Cause, ...] = (
    Cause(
        name="variables-created-per-step",
        code="TEN101",
        kind="leak",
        origin="user",
        summary="a tf.Variable is made at each tick and something keeps it",
        why=(
            "A tf.Variable owns its buffer through a resource handle. A list, a tf.Module attribute, a closure or "
            "a tf.function that captured it keeps the handle, and so the bytes, even when the name is deleted."
        ),
        remedy=(
            "Make the tf.Variable once, before the loop, and write each new value with .assign(); drop the "
            "container that collects them."
        ),
        cure=(
            "Create the variable once and `assign` into it. If one per item is really meant, remove it from its "
            "container when the item is done. A variable captured by a tf.function goes only with the function: "
            "`del` both, then `gc.collect()`."
        ),
        versions=_HELD,
        looks_like=(
            "for batch in data:\n    mean = tf.Variable(tf.reduce_mean(batch, 0))\n    self.estimates.append(mean)"
        ),
        measured=(
            "kept: one variable and 63-70 KiB a step for a 64 KiB value; dropped at once: nothing grows in 300 steps"
        ),
        upstream=("tensorflow/tensorflow#19671", "tensorflow/tensorflow#27288"),
    ),
    Cause(
        name="optimizer-recreated",
        code="TEN102",
        kind="cost",
        origin="user",
        summary="a new optimizer is made in each round",
        why=(
            "An optimizer makes slot variables under new names, and TensorFlow's eager context caches one kernel "
            "per variable name (TEN202). The Python objects go, the cached kernels stay."
        ),
        remedy=(
            "Make one optimizer and reset it by assigning zeros to its variables; if each round needs its own, "
            "call tf.keras.backend.clear_session() between rounds (on Keras 3.15 it clears the kernel cache)."
        ),
        cure=(
            "Keep one optimizer: `for v in optimizer.variables: v.assign(tf.zeros_like(v))`, then set the learning "
            "rate by `assign`. Where a new one is needed, `clear_session()` between rounds gives the cached "
            "kernels back; the next step pays once to rebuild them."
        ),
        versions=(
            "TensorFlow 2.16 to 2.22.0-dev (404, 354 and 354 KiB an Adam on two Dense layers in 2.16.2, 2.21.0 and "
            "2.22.0-dev)"
        ),
        looks_like="for day in days:\n    optimizer = keras.optimizers.Adam(1e-3)\n    train(model, optimizer, day)",
        measured=(
            "336-404 KiB an Adam on two Dense layers, all of it in the kernel cache; one optimizer for all rounds: flat"
        ),
        upstream=("tensorflow/tensorflow#27120", "tensorflow/tensorflow#27525", "tensorflow/tensorflow#40171"),
    ),
    Cause(
        name="function-recreated",
        code="TEN103",
        kind="cost",
        origin="user",
        summary="a tf.function object is made at each tick",
        why=(
            "Each tf.function has a cache of its own, so a new one traces again. Where its graph uses "
            "tf.custom_gradient (relu and softmax losses, keras.ops, Keras optimizers), the gradient registry "
            "keeps every graph (TEN201); where it is stored, its holder does."
        ),
        remedy=(
            "Make the tf.function once, outside the loop, and pass what changes (a learning rate, weights) as "
            "tensors or variables."
        ),
        cure=(
            "Define the step at module level or in `__init__`. Values that differ go in as arguments, as tensors "
            "or tf.Variables."
        ),
        versions="a cost on TensorFlow 2.16 to 2.21 unless TEN201 or a container keeps the functions",
        looks_like="for lr in rates:\n    @tf.function\n    def step(x, y): ...\n    for x, y in data: step(x, y)",
        measured=(
            "dropped: 33 ms a step against 0.6 with one function, and no growth in 100 steps; with a custom "
            "gradient inside: 220-415 KB a round"
        ),
        upstream=("tensorflow/tensorflow#50379", "tensorflow/tensorflow#62854"),
    ),
    Cause(
        name="retrace-python-value",
        code="TEN104",
        kind="leak",
        origin="user",
        summary="a tf.function is traced again for each new Python value",
        why=(
            "A Python int, float, str or bool is part of a tf.function's cache key. Each new value makes a "
            "ConcreteFunction with a graph of its own, and the function keeps all of them as long as it lives; "
            "clear_session() does not touch them."
        ),
        remedy="Pass the changing argument as a tensor: tf.constant(value), or a tf.Variable that is assigned.",
        cure=(
            "Turn the argument into a tensor before the call, or count inside with a tf.Variable. Give a value "
            "that is meant to specialise the graph (training=True) only a few values."
        ),
        versions=_SEEN,
        looks_like="for i in range(steps):\n    train_step(batch, i)        # i is new each time: tf.constant(i)",
        measured=(
            "1 graph, 125 objects and 119 KiB a value for a tiny function; 400-630 KB for a small train step; with "
            "a tensor: flat"
        ),
        upstream=("tensorflow/tensorflow#31842", "tensorflow/tensorflow#24726", "instadeepai/Mava#346"),
    ),
    Cause(
        name="retrace-new-shape",
        code="TEN105",
        kind="leak",
        origin="user",
        summary="a tf.function or model.predict is traced again for each new shape or dtype",
        why=(
            "The shape and dtype of a tensor are part of the cache key; so is the shape of a NumPy array that is "
            "given to predict. Each new length makes another graph, and new dataset functions and kernels beside "
            "it (TEN202)."
        ),
        remedy=(
            "Pad to a few lengths, or give the tf.function an input_signature with None in the changing dimension "
            "(reduce_retracing=True does it after the second trace)."
        ),
        cure=(
            "Use `input_signature=[tf.TensorSpec([None, 80])]`, or pad to buckets. For single requests call "
            "`model(x, training=False)` on padded input instead of `model.predict`."
        ),
        versions=_SEEN,
        looks_like="for text in requests:\n    model.predict(encode(text))       # a new length each time",
        measured="66-110 KB a new length through predict, of it 91 KiB in the kernel cache",
        upstream=("tensorflow/tensorflow#58676", "serengil/deepface#697"),
    ),
    Cause(
        name="retrace-new-object",
        code="TEN106",
        kind="leak",
        origin="user",
        summary="a tf.function is traced again for each new lambda, bound method or object",
        why=(
            "A Python object given to a tf.function is compared by identity, through a weak reference. A fresh "
            "lambda or bound method is a new object at each call, also when it stands for the same code, so each "
            "call traces again."
        ),
        remedy=(
            "Give the tf.function the same object each time: make the lambda or bound method once and keep it, or "
            "close over it."
        ),
        cure="Store `self._step = self.step` once and pass that; or make the inner function part of the traced one.",
        versions=_SEEN,
        looks_like="run_epoch(self.step, data)     # self.step is a new bound method at each access",
        measured=(
            "310-470 KB a call for a small train step, of it about 100 KiB in the kernel cache; one kept "
            "reference: flat"
        ),
        upstream=("tensorflow/tensorflow#31175",),
    ),
    Cause(
        name="tensors-kept",
        code="TEN107",
        kind="leak",
        origin="user",
        summary="tensors are added at each tick to a container that outlives it",
        why=(
            "An EagerTensor owns its buffer. A list, dict, deque, callback or layer attribute keeps each one; "
            "sys.getsizeof shows 184 bytes whatever the size."
        ),
        remedy=(
            "Keep what you need as Python numbers (float(loss)) or write it out, and bound the container: a "
            "keras.metrics.Mean or deque(maxlen=...)."
        ),
        cure=(
            "`losses.append(float(loss))` for scalars (on a GPU that waits for the step), a keras metric for "
            "averages, `deque(maxlen=n)` for a window, a file for predictions."
        ),
        versions=_HELD,
        looks_like="self.outputs.append(model(x))",
        measured=(
            "64 KiB a step for a 64 KiB output: as much as the tensors that are kept; with float(): flat in 1,000 steps"
        ),
        upstream=("tensorflow/tensorflow#34606",),
    ),
    Cause(
        name="concat-growing-state",
        code="TEN108",
        kind="leak",
        origin="user",
        summary="a tensor is concatenated with itself at each tick",
        why=(
            "`x = tf.concat([x, new], 0)` keeps all that was ever added and copies it each time. In a tf.function "
            "each length is a new shape and traces again (TEN105)."
        ),
        remedy=(
            "Reduce as you go (a streaming keras metric), or collect compact NumPy rows and concatenate once at "
            "the end; for a window write into a buffer of fixed size."
        ),
        cure=(
            "For an evaluation use a metric object. For decoding, allocate the whole length once and write with a "
            "scatter, or use a tf.TensorArray inside the loop."
        ),
        versions=_HELD,
        looks_like="scores = tf.concat([scores, model(x)], axis=0)",
        measured="all appended bytes, and a copy of the whole state as temporary at each step",
        upstream=("tensorflow/tensorflow#44986", "huggingface/transformers#9746"),
    ),
    Cause(
        name="buffer-shifted-by-copy",
        code="TEN109",
        kind="cost",
        origin="user",
        summary="a feedback buffer is shifted by concat or slice assignment",
        why=(
            "Shifting moves the whole buffer: `concat` and assign make two temporaries of its size. Overlapping "
            "slice assignment gives right values, but by a hidden full copy, and is slower still."
        ),
        remedy="Keep a ring: write the new block at a moving index with scatter_nd_update, and read by tf.gather.",
        cure=(
            "`buffer.scatter_nd_update(index, block)` needs no temporary. Read with `tf.gather`: after one scatter "
            "each dense read outside XLA copies the buffer. Below about 100,000 floats the eager concat is as fast."
        ),
        versions=_SEEN,
        looks_like="buffer.assign(tf.concat([buffer[hop:], block], 0))",
        measured=(
            "40 MB buffer in a tf.function: 30 ms CPU and 94 MB temporary for concat and assign, 0.4 ms and none "
            "for scatter_nd_update; overlapping slice assignment costs 2.9-3.9 times the concat at 4 MB"
        ),
    ),
    Cause(
        name="tape-kept",
        code="TEN110",
        kind="leak",
        origin="user",
        summary="a persistent tape, or a closure over one, is kept past its step",
        why=(
            "A persistent GradientTape keeps every operation that it recorded with its inputs, until it is "
            "deleted. The edge is in C++: the tensors are alive though no Python object leads to them. A tape that "
            "is not persistent frees itself at gradient()."
        ),
        remedy=(
            "Use a tape without persistent=True, or `del tape` after the last gradient(); don't store it on a "
            "layer or in a list."
        ),
        cure=(
            "Open the tape in the step. If several gradients need a persistent one, keep it a local name and delete it."
        ),
        versions=_HELD,
        looks_like="with tf.GradientTape(persistent=True) as tape: ...\nself.tape = tape",
        measured=(
            "37 KiB for a held tape over 256x256; 174 MB before and after gradient() with persistent=True, 8 MB "
            "after without"
        ),
        upstream=("sql-machine-learning/elasticdl#1144",),
    ),
    Cause(
        name="tape-left-open",
        code="TEN111",
        kind="leak",
        origin="user",
        summary="a tape goes on recording after its step",
        why=(
            "A GradientTape that was entered and never left records each later operation on a watched tensor and "
            "keeps the inputs, in C++. tf.stop_gradient cuts the gradient, not the recording, and assign_add(w * "
            "x) is recorded too."
        ),
        remedy=(
            "Open the tape with a `with` block around one step; use tape.stop_recording() around code that needs "
            "no gradient."
        ),
        cure=(
            "One `with tf.GradientTape() as tape:` a step. For long roll-outs `with tape.stop_recording():` around "
            "what needs no gradient, or `tape.reset()`."
        ),
        versions=_SEEN,
        looks_like="tape = tf.GradientTape(persistent=True)\ntape.__enter__()      # and never left",
        measured=(
            "4 MB state, 40 steps: 170-332 MB under a tape, 174 with stop_gradient, 12.8 with stop_recording, 8.4 "
            "without a tape"
        ),
        upstream=("tensorflow/tensorflow#51354", "tensorflow/tensorflow#48456"),
    ),
    Cause(
        name="loop-intermediates-under-tape",
        code="TEN112",
        kind="peak",
        origin="user",
        summary="each iteration of a loop is saved for a gradient",
        why=(
            "Under a tape a tf.while_loop or an unrolled Python loop saves the intermediates of every iteration "
            "for the backward pass. They are freed after gradient(): a peak that grows with the length of the "
            "loop, not a leak. The bytes hide in variant tensors."
        ),
        remedy=(
            "Move what needs no gradient out of the tape (tape.stop_recording()), or trade memory for time with "
            "tf.recompute_grad; a generation loop needs no tape at all."
        ),
        cure=(
            "Run inference loops outside the tape. For training over long sequences cut them into pieces and carry "
            "the state over with tf.stop_gradient, or recompute."
        ),
        versions=_SEEN,
        looks_like="with tf.GradientTape() as tape:\n    tokens = beam_search(model, prompt)     # a while_loop",
        measured="the same beam search loop: 1,132 MB with a tape over it, 27 MB without",
        upstream=("tensorflow/tensorflow#45016", "tensorflow/tensorflow#17612", "tensorflow/tensorflow#29983"),
    ),
    Cause(
        name="models-kept",
        code="TEN113",
        kind="leak",
        origin="user",
        summary="models, or things that lead to models, are kept in a container",
        why=(
            "A History, a callback, an optimizer, a checkpoint object or a closure leads to its model, and so to "
            "all weights and slots."
        ),
        remedy=(
            "Keep history.history (numbers) instead of the History object, and save weights to a file instead of "
            "keeping the model."
        ),
        cure="Store plain numbers and paths. Where old models must stay reachable keep only the best one.",
        versions=_HELD,
        looks_like="histories.append(model.fit(x, y))     # History.model keeps the model",
        measured="6-14 MB a fold for a small model with its graphs; history.history keeps nothing",
        upstream=("keras-team/keras#2689", "adriangb/scikeras#283"),
    ),
    Cause(
        name="model-rebuilt",
        code="TEN114",
        kind="leak",
        origin="user",
        summary="a model is built at each tick",
        why=(
            "Each new weight has a new name and leaves a kernel in the eager context's cache (TEN202). A Keras "
            "model is a reference cycle, so `del` alone lets dropped models pile up until the collector runs."
        ),
        remedy=(
            "Build the model once and set its weights; if each round needs a new one, call "
            "tf.keras.backend.clear_session() and gc.collect() between rounds."
        ),
        cure=(
            "`weights = model.get_weights()` once, `model.set_weights(weights)` for each round. Otherwise `del "
            "model`, `clear_session()`, `gc.collect()`. A model that was fitted as well is TEN130."
        ),
        versions="TensorFlow 2.16 to 2.22.0-dev for the kernels",
        looks_like="for candidate in candidates:\n    model = build(candidate)\n    score(model(x))",
        measured=(
            "130-190 KiB a small model that is built and called, none of it in Python objects; about 36 KB a new "
            "variable name"
        ),
        upstream=("tensorflow/tensorflow#40171",),
    ),
    Cause(
        name="numpy-view-kept",
        code="TEN115",
        kind="leak",
        origin="user",
        summary="a small NumPy slice keeps a whole tensor's buffer",
        why=(
            "On CPU tensor.numpy() is a view of the tensor's memory, without a copy. A slice of it keeps the whole "
            "buffer, although the tensor is gone and the slice is small."
        ),
        remedy="Copy the slice: tensor.numpy()[:8].copy().",
        cure="`.copy()` (or np.array(...)) on what is kept. Or slice the tensor before .numpy().",
        versions=_HELD,
        looks_like="thumbnails.append(image.numpy()[:8, :8])",
        measured="1,028 KiB a step for a kept row of 1 KiB; 0.1 KiB with .copy()",
        upstream=("tensorflow/tensorflow#33254", "tensorflow/tensorflow#45964"),
    ),
    Cause(
        name="cache-on-method",
        code="TEN116",
        kind="leak",
        origin="user",
        summary="lru_cache or the like is keyed by self or by tensors",
        why=(
            "A memoised function keeps each key and each result until its cache is full. One on a method lives on "
            "the class and has `self` in each key, so it keeps each instance and its weights. Tensors are hashed by "
            "identity: such a cache never hits, it only keeps."
        ),
        remedy=(
            "Bound the cache (maxsize) and key it by plain values that come again, not by tensors; keep a method's "
            "results on the instance (functools.cached_property, or a dict made in __init__)."
        ),
        cure=(
            "Use `functools.cached_property`, or set `self._grid = lru_cache(maxsize=8)(self._make_grid)` in "
            "`__init__`: then the cache dies with the instance."
        ),
        versions="any",
        looks_like="class Detector:\n    @functools.lru_cache(maxsize=None)\n    def grid(self, size): ...",
        measured="the whole instance: 265 KiB a tick for one that owns a 256 KiB tensor",
        upstream=("PyCQA/flake8-bugbear#310",),
    ),
    Cause(
        name="exception-kept",
        code="TEN117",
        kind="leak",
        origin="user",
        summary="a stored exception keeps its frames and their tensors",
        why=(
            "exc.__traceback__ leads to the frames that the exception went through, and those keep their local "
            "variables: batches, activations, models."
        ),
        remedy="Store str(exc) or traceback.format_exc(), or keep the exception as exc.with_traceback(None).",
        cure="Keep text. If the object is needed, cut the traceback, and the same of `__context__` and `__cause__`.",
        versions="any",
        looks_like="except tf.errors.InvalidArgumentError as exc:\n    failures.append(exc)",
        measured="165 KiB a kept exception, the tensors of its frames; 0.1 KiB as text",
        upstream=("tensorflow/tensorflow#20998",),
    ),
    Cause(
        name="graph-grows-in-session-loop",
        code="TEN118",
        kind="leak",
        origin="user",
        summary="operations are added to a v1 graph at each tick",
        why=(
            "In graph mode `variable.assign(x)` or `a + b` adds operations to the default tf.Graph, which never "
            "removes any. The session gets slower as well, since it extends its copy."
        ),
        remedy=(
            "Build the operation once with a placeholder, and run it with a feed; graph.finalize() makes any "
            "addition an error."
        ),
        cure="Build all operations before the loop, call `graph.finalize()`, then only `session.run`.",
        versions="tf.compat.v1 in every version",
        looks_like="for value in values:\n    session.run(tf.compat.v1.assign(total, value))",
        measured="20 objects and 19 KiB a step for one small operation, plus the constant itself",
        upstream=("tensorflow/tensorflow#4151", "tensorflow/tensorflow#9646"),
    ),
    Cause(
        name="session-not-closed",
        code="TEN119",
        kind="cost",
        origin="user",
        summary="v1 sessions are left open",
        why=(
            "An open session owns its copy of the graph, its variables and its threads until it is closed or collected."
        ),
        remedy="Use `with tf.compat.v1.Session() as session:`, and one session for the whole loop.",
        cure="One session, opened with `with`.",
        versions="TensorFlow 2.21: a cost, no growth; reported as a leak on older versions",
        looks_like="for step in steps:\n    session = tf.compat.v1.Session()\n    session.run(fetch)",
        measured="no growth in 20 sessions over one shared graph",
    ),
    Cause(
        name="dataset-cache-unbounded",
        code="TEN120",
        kind="leak",
        origin="user",
        summary="cache() stands after repeat() or after random augmentation",
        why=(
            "Dataset.cache() without a file keeps each element it passes. After repeat() it never sees the end, so "
            "it stores every epoch again; after a random map it also freezes the augmentation."
        ),
        remedy="Cache the finite data first, then repeat and augment: base.cache().repeat().map(augment).",
        cure=(
            "Put `.cache()` right after the expensive reading step and before `.shuffle()`, `.repeat()` and random "
            "maps."
        ),
        versions=_HELD,
        looks_like="dataset = base.map(augment).repeat().cache()",
        measured=(
            "every element ever produced: 169-231 KB a tick with elements of that size; reordered: flat after the "
            "first epoch"
        ),
        upstream=("tensorflow/tensorflow#44688", "keras-team/keras#14270", "tensorflow/tensorflow#30126"),
    ),
    Cause(
        name="dataset-recreated",
        code="TEN121",
        kind="cost",
        origin="user",
        summary="a dataset or iterator is made at each tick",
        why=(
            "from_tensor_slices copies the arrays, and each map traces its function again. TensorFlow gives both "
            "back; the time is lost."
        ),
        remedy="Make the dataset once and iterate over it again, or feed arrays to the step directly.",
        cure="One dataset outside the loop. For data that changes, one generator that reads a mutable source.",
        versions="TensorFlow 2.21: a cost; reported as a leak on older versions",
        looks_like="for request in requests:\n    for x in tf.data.Dataset.from_tensors(request): ...",
        measured="no growth; 99-226 ms each time and a full copy of the arrays",
        upstream=("tensorflow/tensorflow#20436", "tensorflow/tensorflow#27414", "tensorflow/tensorflow#23904"),
    ),
    Cause(
        name="saved-model-load-in-loop",
        code="TEN122",
        kind="cost",
        origin="user",
        summary="a saved model is loaded again at each tick",
        why=(
            "Each load restores all weights beside the old ones and traces again; loading peaks at twice the size "
            "of the model. A model with a lookup table keeps more (TEN131)."
        ),
        remedy=(
            "Load the model once and keep it; for a new version drop the old one and call gc.collect() before you "
            "load the next."
        ),
        cure="Load at start. For a hot reload: `del` the old model, `gc.collect()`, load.",
        versions="TensorFlow 2.21: a cost when the collector runs; reported as a leak on older versions",
        looks_like="while True:\n    model = tf.saved_model.load(path)\n    serve(model)",
        measured=(
            "1.7 KB of heap a load with gc.collect(); peak 2.0-2.3 times the model's size for SavedModel, 1.0-1.8 "
            "for .keras"
        ),
        upstream=("tensorflow/tensorflow#40171", "tensorflow/tensorflow#45453", "tensorflow/serving#2142"),
    ),
    Cause(
        name="saved-model-save-in-loop",
        code="TEN123",
        kind="cost",
        origin="user",
        summary="a model is exported at each tick",
        why=(
            "An export traces the model's functions again. The graphs are reference cycles: they pile up until the "
            "collector runs."
        ),
        remedy=(
            "Save weights or a checkpoint at each epoch (model.save_weights, tf.train.CheckpointManager), and "
            "export once at the end."
        ),
        cure="One tf.train.CheckpointManager for the run. If the export must be repeated, call gc.collect() after it.",
        versions="TensorFlow 2.21: a sawtooth that gc frees; reported as a leak on older versions",
        looks_like="def on_epoch_end(self, epoch, logs):\n    tf.saved_model.save(self.model, f'export/{epoch}')",
        measured="0.4 KB a tick after gc.collect()",
        upstream=("tensorflow/tensorflow#32234",),
    ),
    Cause(
        name="summary-writer-recreated",
        code="TEN124",
        kind="leak",
        origin="user",
        summary="summary writers with open files are made at each tick",
        why="A writer owns an open file, a queue and a native resource until it is closed.",
        remedy="Make one writer for the run and close it at the end.",
        cure="`writer = tf.summary.create_file_writer(logdir)` once; `with writer.as_default(step=step):` in the loop.",
        versions=_HELD,
        looks_like="writers[epoch] = tf.summary.create_file_writer(f'{logdir}/{epoch}')",
        measured="7-11 KB and one file handle a writer",
        upstream=("tensorflow/tensorflow#26684", "tensorflow/tensorflow#8265", "keras-team/keras#4533"),
    ),
    Cause(
        name="strategy-recreated",
        code="TEN125",
        kind="cost",
        origin="user",
        summary="a distribution strategy is made at each tick",
        why=(
            "A strategy is small, but what is built and fitted under each one is compiled anew, and the gradient "
            "registry keeps those graphs (TEN201)."
        ),
        remedy="Make one strategy for the process and build all models under it; run trials in child processes.",
        cure="One strategy at module level, passed on. A child process per trial where models differ.",
        versions=_SEEN,
        looks_like=(
            "for trial in trials:\n"
            "    strategy = tf.distribute.MirroredStrategy()\n"
            "    with strategy.scope(): fit(build(trial))"
        ),
        measured=(
            "1 KiB a strategy on one CPU device; 350-810 KB a trial with a fitted toy model; several GPUs not measured"
        ),
        upstream=("tensorflow/tensorflow#42616", "optuna/optuna#3050", "keras-team/keras-tuner#395"),
    ),
    Cause(
        name="tensorarray-grows",
        code="TEN126",
        kind="leak",
        origin="user",
        summary="a TensorArray outlives its loop and grows",
        why=(
            "An eager TensorArray with dynamic_size=True is a Python list of tensors. Kept across ticks it keeps "
            "each tensor written."
        ),
        remedy="Make the TensorArray inside the loop that fills it, or give it a fixed size and clear_after_read=True.",
        cure="One TensorArray an episode, turned into a tensor by stack() at its end.",
        versions=_HELD,
        looks_like="self.rollout = self.rollout.write(self.rollout.size(), observation)",
        measured="as much as the tensors written: 56-78 KB a tick for 64 KiB tensors",
        upstream=("ROCm/tensorflow-upstream#1149",),
    ),
    Cause(
        name="cycles-with-gc-off",
        code="TEN127",
        kind="leak",
        origin="user",
        summary="reference cycles pile up while the collector is off or frozen",
        why=(
            "A model and its layers, a traced function and its graph refer to each other. Only Python's cycle "
            "collector frees them, and gc.disable(), a large threshold or gc.freeze() keeps it from running."
        ),
        remedy="Leave the collector on, or call gc.collect() every few hundred steps where it is off for latency.",
        cure="`gc.enable()`, or `gc.collect()` at a point where a pause does no harm.",
        versions="any",
        looks_like=(
            "gc.disable()\n"
            "for batch in data:\n"
            "    train_step(Batch(batch))     # Batch and its parts refer to each other"
        ),
        measured="290-380 KB a tick of unreachable objects in the example; nothing after gc.collect()",
        upstream=("tensorflow/tensorflow#14181", "tensorflow/tensorflow#31312"),
    ),
    Cause(
        name="predict-per-item",
        code="TEN128",
        kind="cost",
        origin="user",
        summary="predict, fit or evaluate is called on single items in a loop",
        why="Each call of predict makes a dataset, an iterator and callbacks around one small step.",
        remedy="Call model(x, training=False) for a single item, or predict once over all.",
        cure="`model(x, training=False).numpy()` or `model.predict_on_batch(x)`. One `predict` for a large array.",
        versions="TensorFlow 2.21: a cost; reported as a leak on TensorFlow 2.0 to 2.11",
        looks_like="for frame in frames:\n    label = model.predict(frame[None])",
        measured="754 ms a predict against 5 ms a call on a loaded machine, and no graphs kept",
        upstream=("tensorflow/tensorflow#44711", "tensorflow/tensorflow#33009", "keras-team/keras#13118"),
    ),
    Cause(
        name="detached-feedback-state",
        code="TEN129",
        kind="hazard",
        origin="user",
        summary="a Variable buffer inside a differentiated step loses the gradient through time",
        why=(
            "Reading a tf.Variable starts a new leaf, and assign has no gradient. A feedback buffer in a Variable "
            "trains as if the state were constant: the last step only. No error, no warning, eager or compiled."
        ),
        remedy=(
            "Carry the buffer as a tensor through the loop (tensor_scatter_nd_update), and assign it to the "
            "Variable once at the end, under tf.stop_gradient."
        ),
        cure=(
            "Read the Variable once before the loop, update the tensor, and after gradient(): "
            "`buffer.assign(tf.stop_gradient(ring))`."
        ),
        versions=_SEEN,
        looks_like=(
            "with tf.GradientTape() as tape:\n"
            "    for x in window:\n"
            "        y = step(x, buffer)\n"
            "        buffer.assign(shift(buffer, y))"
        ),
        measured=(
            "error of the gradient 2.15 on values of order 1 with a Variable in the loop; 2.5e-6 with the tensor "
            "carried"
        ),
    ),
    Cause(
        name="model-refitted",
        code="TEN130",
        kind="leak",
        origin="user",
        summary="a model is built, compiled and fitted at each tick",
        why=(
            "Fitting traces a train step, and the step's custom gradients are registered with TensorFlow for the "
            "life of the process. Each registration keeps the step's graph, and with it weights and optimizer "
            "slots (TEN201)."
        ),
        remedy=(
            "Compile one model and reset its weights for each round, or run each round in a child process; del, "
            "clear_session() and gc.collect() do not give it back."
        ),
        cure=(
            "`model.set_weights(initial)` and zeroed optimizer variables instead of a new model. Where models "
            "differ: a child process a trial. `model.optimizer.build(model.trainable_variables)` before the first "
            "fit cuts the kept graphs from 10-18 to 1."
        ),
        versions="TensorFlow 2.16 to 2.21; 2.22.0-dev keeps no graph",
        looks_like=(
            "for trial in trials:\n    model = build(trial)\n    model.compile('adam', 'mse')\n    model.fit(x, y)"
        ),
        measured=(
            "7-10 MB a small model, the same with clear_session(); 0.01 MB a round once the orphaned entries are "
            "removed"
        ),
        upstream=(
            "keras-team/keras#20552",
            "keras-team/keras#20245",
            "tensorflow/tensorflow#80895",
            "tensorflow/tensorflow#80753",
        ),
    ),
    Cause(
        name="lookup-table-recreated",
        code="TEN131",
        kind="leak",
        origin="user",
        summary="lookup tables are made at each tick, also by loading a model that has one again",
        why=(
            "A table is a native resource with its keys and values, made under a new shared name each time, so its "
            "kernels stay in the eager context's cache too (TEN202)."
        ),
        remedy=(
            "Make the table (or StringLookup layer) once and pass it on; load a model that contains one a single time."
        ),
        cure="One table outside the loop. For a hot reload of such a model use a child process.",
        versions=_SEEN,
        looks_like=(
            "def encode(words):\n    table = tf.lookup.StaticHashTable(init, -1)\n    return table.lookup(words)"
        ),
    ),
)
