"""The whole text of one report at three widths, as a reader sees it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from test_report_fakes import LEAK

from tenure.report.text import render

WHY = {
    "gradient-registry": "Each compiled train step registers a gradient function that keeps its graph; del, "
    "clear_session and gc.collect leave it there (TensorFlow 2.16 to 2.21).",
    "tensors-kept": "The list outlives the step, and each tensor in it keeps its buffer.",
}

AT_60 = """\
tenure  LEAK  7.4 MB a fit
        10 fits, 95 % sure of 7.2 to 7.6 MB
        the memory is full in 54 hours at this rate

 1  gradient-registry, with model-refitted
                             TEN201  framework  7.3 MB a fit
    made   train.py:20   model.fit(x, y, epochs=1)
           in cycle()
    held   TensorFlow's gradient registry > CustomGradient-*
           > FuncGraph one_step_on_data
    seen   2 graphs more at each fit in 6 of 6 windows
    why    Each compiled train step registers a gradient
           function that keeps its graph; del, clear_session
           and gc.collect leave it there (TensorFlow 2.16 to
           2.21).
    cure   Call tenure.collect() after each fit: 0.01 MB a
           fit, measured here.   more: tenure explain TEN201

 2  tensors-kept                   TEN107  user  67 KB a fit
    made   train.py:13
           losses.append(tf.reduce_mean(loss[0]))
           in update()
    held   train.history['loss'][*]   train.py:14
    why    The list outlives the step, and each tensor in it
           keeps its buffer.
    cure   Keep float(loss) instead of the tensor.
           more: tenure explain TEN107

 3  retrace-python-value  TEN104  cost  user  1 object a fit
    made   train.py:31   step(x, i)               in train()
    new    argument step: 17, 18, 19
    seen   one trace a fit, with step 17, 18 and 19
    seen   128 traces so far
    cure   Pass step as a tensor: tf.constant(step).
           more: tenure explain TEN104

 resident memory     start       end    change
 live tensors      20 MB     61 MB    +41 MB  ####
 pool, free        60 MB     61 MB   +1.0 MB  ####
 malloc in use    180 MB    213 MB    +33 MB  ##############
 Python heap     unknown   unknown
 mapped files     210 MB    210 MB       0 B  ##############

 not a leak: 61 MB held by TensorFlow's CPU pool, free for
   reuse
 could not be had: GPU memory (no NVIDIA driver was found)
 recording train.tenure    report: tenure report --html
   train.html train.tenure
"""

AT_80 = """\
tenure  LEAK  7.4 MB a fit   10 fits, 95 % sure of 7.2 to 7.6 MB
        the memory is full in 54 hours at this rate

 1  gradient-registry, with model-refitted       TEN201  framework  7.3 MB a fit
    made   train.py:20   model.fit(x, y, epochs=1)                    in cycle()
    held   TensorFlow's gradient registry > CustomGradient-* > FuncGraph
           one_step_on_data
    seen   2 graphs more at each fit in 6 of 6 windows
    why    Each compiled train step registers a gradient function that keeps its
           graph; del, clear_session and gc.collect leave it there (TensorFlow
           2.16 to 2.21).
    cure   Call tenure.collect() after each fit: 0.01 MB a fit, measured here.
           more: tenure explain TEN201

 2  tensors-kept                                       TEN107  user  67 KB a fit
    made   train.py:13   losses.append(tf.reduce_mean(loss[0]))      in update()
    held   train.history['loss'][*]   train.py:14
    why    The list outlives the step, and each tensor in it keeps its buffer.
    cure   Keep float(loss) instead of the tensor.   more: tenure explain TEN107

 3  retrace-python-value                      TEN104  cost  user  1 object a fit
    made   train.py:31   step(x, i)                                   in train()
    new    argument step: 17, 18, 19
    seen   one trace a fit, with step 17, 18 and 19
    seen   128 traces so far
    cure   Pass step as a tensor: tf.constant(step).
           more: tenure explain TEN104

 resident memory     start       end    change
 live tensors      20 MB     61 MB    +41 MB  ##########
 pool, free        60 MB     61 MB   +1.0 MB  ##########
 malloc in use    180 MB    213 MB    +33 MB  ##################################
 Python heap     unknown   unknown
 mapped files     210 MB    210 MB       0 B  ##################################

 not a leak: 61 MB held by TensorFlow's CPU pool, free for reuse
 could not be had: GPU memory (no NVIDIA driver was found)
 recording train.tenure    report: tenure report --html train.html
   train.tenure
"""

AT_120 = """\
tenure  LEAK  7.4 MB a fit   10 fits, 95 % sure of 7.2 to 7.6 MB   the memory is full in 54 hours at this rate

 1  gradient-registry, with model-refitted                                               TEN201  framework  7.3 MB a fit
    made   train.py:20   model.fit(x, y, epochs=1)                                                            in cycle()
    held   TensorFlow's gradient registry > CustomGradient-* > FuncGraph one_step_on_data
    seen   2 graphs more at each fit in 6 of 6 windows
    why    Each compiled train step registers a gradient function that keeps its graph; del, clear_session and
           gc.collect leave it there (TensorFlow 2.16 to 2.21).
    cure   Call tenure.collect() after each fit: 0.01 MB a fit, measured here.               more: tenure explain TEN201

 2  tensors-kept                                                                               TEN107  user  67 KB a fit
    made   train.py:13   losses.append(tf.reduce_mean(loss[0]))                                              in update()
    held   train.history['loss'][*]   train.py:14
    why    The list outlives the step, and each tensor in it keeps its buffer.
    cure   Keep float(loss) instead of the tensor.                                           more: tenure explain TEN107

 3  retrace-python-value                                                              TEN104  cost  user  1 object a fit
    made   train.py:31   step(x, i)                                                                           in train()
    new    argument step: 17, 18, 19
    seen   one trace a fit, with step 17, 18 and 19
    seen   128 traces so far
    cure   Pass step as a tensor: tf.constant(step).                                         more: tenure explain TEN104

 resident memory     start       end    change
 live tensors      20 MB     61 MB    +41 MB  ###########
 pool, free        60 MB     61 MB   +1.0 MB  ###########
 malloc in use    180 MB    213 MB    +33 MB  ########################################
 Python heap     unknown   unknown
 mapped files     210 MB    210 MB       0 B  #######################################

 not a leak: 61 MB held by TensorFlow's CPU pool, free for reuse
 could not be had: GPU memory (no NVIDIA driver was found)
 recording train.tenure    report: tenure report --html train.html train.tenure
"""


@pytest.mark.parametrize(("width", "text"), [(60, AT_60), (80, AT_80), (120, AT_120)])
def test_the_text_at_a_width(width: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    causes = ModuleType("tenure.causes")
    causes.CATALOGUE = {name: SimpleNamespace(why=why) for name, why in WHY.items()}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tenure.causes", causes)

    assert render(LEAK, width, False, recording="train.tenure", cwd="/home/ann/job") == text
