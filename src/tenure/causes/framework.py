"""Causes in TensorFlow's and Keras' own registries and caches, which a user's call sets off (TEN201 to TEN207).

Unless an entry says otherwise the figures are from TensorFlow 2.21.0 on CPU, Keras 3.15.1, Python 3.11.
"""

from __future__ import annotations

from tenure.causes._cause import Cause

__all__ = ["FRAMEWORK"]

FRAMEWORK: tuple[Cause, ...] = (
    Cause(
        name="gradient-registry",
        code="TEN201",
        kind="leak",
        origin="framework",
        summary="TensorFlow's gradient registry keeps the graphs of dropped models and functions",
        why=(
            "Each trace of a function that uses tf.custom_gradient (softmax losses, keras.ops, every Keras "
            "optimizer) registers a gradient function named CustomGradient-*. Its closure holds the whole "
            "FuncGraph, with the weights and optimizer slots it captured. Nothing ever removes the entry: del, "
            "clear_session() and gc.collect() leave it there."
        ),
        remedy=(
            "Trace once: keep one compiled model or tf.function and reset its weights, or run each round in a "
            "child process; del, clear_session() and gc.collect() do not give it back."
        ),
        cure=(
            "Reuse one compiled model (`set_weights`). Where models differ: one child process a model. "
            "`run_eagerly=True` traces nothing, so nothing is kept; "
            "`model.optimizer.build(model.trainable_variables)` before the first fit cuts the kept graphs to one. "
            "Do not empty the whole registry: that breaks later gradients through live functions. An entry is safe "
            "to remove only when its graph is reachable through the registry alone. TensorFlow 2.22 stops the "
            "closure from keeping the graph."
        ),
        versions=(
            "TensorFlow 2.16 to 2.21 (2 graphs and 8 MB a fitted model in 2.16.2 and 2.21.0); 2.22.0-dev keeps none"
        ),
        looks_like=(
            "for trial in trials:\n"
            "    model = build(trial)\n"
            "    model.compile('adam', 'mse')\n"
            "    model.fit(x, y)\n"
            "    del model"
        ),
        measured=(
            "2 graphs, 14,000 objects and 7-10 MB a model. Removing the orphaned entries, then gc.collect(): 8.1 "
            "MB a cycle becomes 0.01 MB, with a live model in the process that still trains. 7,091 of 7,411 KiB a "
            "cycle came back to this action alone"
        ),
        upstream=(
            "tensorflow/tensorflow#27492",
            "tensorflow/tensorflow#97697",
            "tensorflow/tensorflow#80895",
            "tensorflow/tensorflow#109334",
            "keras-team/keras#20245",
            "keras-team/keras#20552",
            "keras-team/tf-keras#286",
            "keras-team/tf-keras#898",
        ),
    ),
    Cause(
        name="eager-kernel-cache",
        code="TEN202",
        kind="leak",
        origin="framework",
        summary="the eager context keeps one kernel for each new variable name or operation attribute",
        why=(
            "An eager operation's kernel is cached under its attributes. A variable's shared_name is one of them, "
            "so each variable made under a new name (a Keras layer, an optimizer slot) leaves a kernel of about 36 "
            "KB in native memory, and no Python object."
        ),
        remedy=(
            "Make models and optimizers once; between rounds that need new ones call "
            "tf.keras.backend.clear_session(), which clears the kernel cache on Keras 3.15."
        ),
        cure=(
            "Reuse variables. Else `tf.keras.backend.clear_session()` between rounds; without Keras, TensorFlow's "
            "internal `context.context().clear_kernel_cache()`. The next step rebuilds its kernels once (2.7 ms "
            "became 204 ms, then normal again), and stateful random operations start their sequence again."
        ),
        versions=(
            "TensorFlow 2.16 to 2.22.0-dev (404, 354 and 354 KiB an Adam on two Dense layers in 2.16.2, 2.21.0 and "
            "2.22.0-dev)"
        ),
        looks_like=(
            "for round in rounds:\n"
            "    optimizer = keras.optimizers.Adam()\n"
            "    optimizer.build(model.trainable_variables)"
        ),
        measured=(
            "about 36 KB a variable; 336-404 KiB an Adam on two Dense layers; all of it came back when the cache "
            "was cleared"
        ),
        upstream=("tensorflow/tensorflow#40171", "tensorflow/tensorflow#42337", "tensorflow/tensorflow#42377"),
    ),
    Cause(
        name="seeded-random-ops",
        code="TEN203",
        kind="leak",
        origin="framework",
        summary="after tf.random.set_seed each random operation leaves a kernel in the eager cache",
        why=(
            "With a global seed each eager call of tf.random.normal and the like gets a seed of its own, as an "
            "attribute. The attribute is part of the kernel cache's key (TEN202), so no kernel is ever used twice."
        ),
        remedy="Draw from one tf.random.Generator, or use tf.random.stateless_normal with a changing seed tensor.",
        cure=(
            "`rng = tf.random.Generator.from_seed(1)` once, `rng.normal(shape)` at each step: as repeatable, and "
            "no new kernel. Or run the step in a tf.function, where the seed is fixed at tracing. clear_session() "
            "between rounds gives the kernels back, but restarts the sequence."
        ),
        versions="seen on TensorFlow 2.21",
        looks_like="tf.random.set_seed(1)\nfor batch in data:\n    noise = tf.random.normal(batch.shape)",
        measured=(
            "1.8 MB a call of a layer with dropout-like noise; 1,789 of 1,793 KiB came back when the kernel cache "
            "was cleared"
        ),
        upstream=("tensorflow/tensorflow#37252",),
    ),
    Cause(
        name="eager-scalar-cache",
        code="TEN204",
        kind="leak",
        origin="framework",
        summary="the eager context keeps one tensor for each Python scalar that was ever converted",
        why=(
            "tf.constant(3.7), and any operation between a tensor and a Python number, looks the number up in a "
            "cache of the eager context (TFE_TensorHandleCache) and adds it when it is new. Nothing is ever "
            "evicted, and no Python object is left over."
        ),
        remedy=(
            "Keep changing numbers in NumPy or plain Python until they enter a tensor of rank 1 or more, or assign "
            "them to one tf.Variable."
        ),
        cure=(
            "`np.float32(x)` arrays of rank 1 or more, or `variable.assign`. Inside a tf.function the numbers are "
            "constants of the graph. TensorFlow's internal `context.context()._clear_caches()` gives the cache "
            "back."
        ),
        versions="seen on TensorFlow 2.21",
        looks_like="for step in range(n):\n    lr = tf.constant(0.1 / (1 + step))",
        measured="0.6-0.8 MB a cycle of 1,000 new numbers; 621 of 655 KiB came back when the caches were cleared",
        upstream=("tensorflow/tensorflow#68196", "ROCm/tensorflow-upstream#1149"),
    ),
    Cause(
        name="py-function-registry",
        code="TEN205",
        kind="leak",
        origin="framework",
        summary="TensorFlow keeps each Python function given to an eager py_function or from_generator",
        why=(
            "tf.py_function, tf.numpy_function and Dataset.from_generator wrap the Python function and append it "
            "to the outermost graph's list _py_funcs_used_in_graph. In eager mode that is the process-wide default "
            "graph: the wrapper, its closure and whatever the closure holds stay. Each call has a new token too, "
            "which leaves a kernel (TEN202)."
        ),
        remedy=(
            "Call the Python code directly in eager mode, or wrap one named function once in a tf.function; make "
            "one from_generator dataset for the whole run that reads its data from a mutable object."
        ),
        cure=(
            "One dataset, one wrapped function. Don't let the closure hold large arrays. "
            "tf.keras.backend.clear_session() drops the list with its graph: call it when no such dataset is in "
            "use, for a live one fails at its next step."
        ),
        versions="TensorFlow 2.16 to 2.21; tensorflow/tensorflow#123530 (July 2026) is in no release yet",
        looks_like=(
            "for fold in folds:\n    data = tf.data.Dataset.from_generator(lambda: iter(fold), output_signature=spec)"
        ),
        measured=(
            "50-300 KB a cycle: 260 KiB from the closures of from_generator, 37 KiB of kernels for an eager py_function"
        ),
        upstream=(
            "tensorflow/tensorflow#35010",
            "tensorflow/tensorflow#51839",
            "tensorflow/tensorflow#37653",
            "tensorflow/tensorflow#57690",
            "tensorflow/tensorflow#123530",
        ),
    ),
    Cause(
        name="xla-compilation-cache",
        code="TEN206",
        kind="leak",
        origin="framework",
        summary="XLA keeps one executable for each compiled signature",
        why=(
            "jit_compile=True compiles once for each function and set of static shapes, and the cache has no "
            "eviction. A step whose shapes change compiles again each time."
        ),
        remedy="Give the compiled function inputs of fixed shape (pad to a few lengths), and make it once.",
        cure="Fixed shapes, one function. Only the end of the process gives the executables back.",
        versions="seen on TensorFlow 2.21",
        looks_like="@tf.function(jit_compile=True)\ndef step(cache): ...      # the cache grows by one at each call",
    ),
    Cause(
        name="threads-created-per-request",
        code="TEN207",
        kind="cost",
        origin="framework",
        summary="each new thread that runs TensorFlow makes state of its own",
        why=(
            "The eager context keeps per-thread state, and glibc gives threads arenas of their own. A new thread a "
            "request pays for both each time."
        ),
        remedy="Serve requests from a fixed pool of threads (concurrent.futures.ThreadPoolExecutor).",
        cure="A pool of fixed size, started once.",
        versions="seen on TensorFlow 2.21",
        looks_like="threading.Thread(target=handle, args=(request,)).start()",
    ),
)
