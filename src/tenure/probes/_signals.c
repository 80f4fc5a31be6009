/* A signal whose Python handler can't run, because the main thread is inside a long call in C, ends the process as it
 * would have without the handler. Everything in `arrived` is async-signal-safe: no thread, no lock, no interpreter. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <signal.h>
#include <time.h>

static struct sigaction python; /* what signal.signal has installed */
static struct itimerspec grace;
static timer_t timer;
static int ready;

static void arrived(int number, siginfo_t *info, void *context)
{
    int before = errno;
    (void)context;
    if (info->si_code == SI_TIMER && info->si_value.sival_ptr == &timer) {
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(number, &plain, NULL);
        raise(number); /* taken when this handler returns */
    } else {
        timer_settime(timer, 0, &grace, NULL);
        python.sa_handler(number);
    }
    errno = before;
}

PyDoc_STRVAR(bound_doc, "bound(number, seconds): the signal takes its default action when its Python handler, set by\n"
             "signal.signal before, has not called heard() after so many seconds. One signal in a process.");

static PyObject *bound(PyObject *self, PyObject *args)
{
    int number;
    double seconds;
    (void)self;
    if (!PyArg_ParseTuple(args, "id", &number, &seconds)) return NULL;
    if (ready) {
        PyErr_SetString(PyExc_RuntimeError, "one signal is bounded already");
        return NULL;
    }
    if (sigaction(number, NULL, &python)) return PyErr_SetFromErrno(PyExc_OSError);
    if (python.sa_flags & SA_SIGINFO || python.sa_handler == SIG_DFL || python.sa_handler == SIG_IGN) {
        PyErr_SetString(PyExc_ValueError, "the signal has no handler of Python's");
        return NULL;
    }
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number, .sigev_value.sival_ptr = &timer};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) return PyErr_SetFromErrno(PyExc_OSError);
    grace.it_value.tv_sec = (time_t)seconds;
    grace.it_value.tv_nsec = (long)((seconds - (double)grace.it_value.tv_sec) * 1e9);
    struct sigaction ours = python;
    ours.sa_flags |= SA_SIGINFO;
    ours.sa_sigaction = arrived;
    if (sigaction(number, &ours, NULL)) return PyErr_SetFromErrno(PyExc_OSError);
    ready = 1;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(heard_doc, "heard(): the Python handler runs.");

static PyObject *heard(PyObject *self, PyObject *none)
{
    struct itimerspec never = {{0, 0}, {0, 0}};
    (void)self;
    (void)none;
    if (ready) timer_settime(timer, 0, &never, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bound", bound, METH_VARARGS, bound_doc},
    {"heard", heard, METH_NOARGS, heard_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure.probes._signals", "Signals that C code keeps waiting.",
                                    -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__signals(void)
{
    return PyModule_Create(&module);
}
