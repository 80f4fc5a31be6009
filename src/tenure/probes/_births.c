/* The walk over frames to the user's line, in C. The loop in `observe/births.py` is its twin and gives the same answer.
 *
 * Frames are read by the public API alone (Python 3.10 to 3.13). No Python code runs here: the keys are texts and tuples
 * of texts and a number. What needs a decision (a file not seen before, a generated file, a new line) is left to Python:
 * the frame is handed back.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h> /* PyFrame_GetBack before Python 3.11 */

PyDoc_STRVAR(site_doc,
             "site(frame, whose, sites) -> what `sites` has for the first frame of the user's, None past the outermost frame,\n"
             "or the frame that Python must judge.\n\n"
             "`whose`: file name -> 0 not the user's, 1 the user's, 2 generated. `sites`: (file, line, function) -> any.");

static PyObject *site(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)self;
    if (nargs != 3 || !(PyFrame_Check(args[0]) || args[0] == Py_None) || !PyDict_CheckExact(args[1])
        || !PyDict_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "site() takes a frame or None, and two dicts");
        return NULL;
    }
    if (args[0] == Py_None) Py_RETURN_NONE;
    PyFrameObject *frame = (PyFrameObject *)args[0];
    Py_INCREF(frame);
    for (;;) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyObject *kind = PyDict_GetItemWithError(args[1], code->co_filename);
        if (!kind && PyErr_Occurred()) {
            Py_DECREF(code);
            Py_DECREF(frame);
            return NULL;
        }
        long whose = kind ? PyLong_AsLong(kind) : -1;
        if (whose == 1) {
            PyObject *line = PyLong_FromLong(PyFrame_GetLineNumber(frame));
            PyObject *key = line ? PyTuple_Pack(3, code->co_filename, line, code->co_name) : NULL;
            PyObject *known = key ? PyDict_GetItemWithError(args[2], key) : NULL;
            Py_XINCREF(known);
            Py_XDECREF(line);
            Py_XDECREF(key);
            Py_DECREF(code);
            if (known || PyErr_Occurred()) {
                Py_DECREF(frame);
                return known;
            }
            return (PyObject *)frame;
        }
        Py_DECREF(code);
        if (whose != 0) {
            if (PyErr_Occurred()) { /* a value that is no number */
                Py_DECREF(frame);
                return NULL;
            }
            return (PyObject *)frame;
        }
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        if (!back) Py_RETURN_NONE;
        frame = back;
    }
}

static PyMethodDef methods[] = {
    {"site", (PyCFunction)(void (*)(void))site, METH_FASTCALL, site_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure.probes._births", "The walk over frames in C.", 0, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__births(void)
{
    return PyModule_Create(&module);
}
