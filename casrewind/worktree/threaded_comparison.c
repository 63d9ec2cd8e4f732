/* Compares recorded stamps with the files, on two threads. `positions_that_differ` of casrewind/model/stamp.py defines what it answers.
   The package works without this module, and is slower then.

   The dangers prevented here. A row that no thread compares: the calling thread takes whatever is left, which is all without a second
   thread. A value that is cut before it is compared: all are compared in 64 bits, and a time beyond them differs. An interrupt that
   waits for a slow file system: the calling thread looks for signals ten times a second. */

#define Py_LIMITED_API 0x030B0000 /* one file for Python 3.11 and later */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SHARE 256           /* rows that a thread takes at once */
#define WORTH_A_THREAD 1024 /* rows; fewer are compared before a thread has started */
#define STAMP 36            /* bytes of a stamp: PACKED in model/stamp.py */
#define STACK (128 << 10)   /* bytes of the second thread's stack: a limit of memory may leave little */

#ifdef __APPLE__ /* the same fields by other names */
#define st_mtim st_mtimespec
#define st_ctim st_ctimespec
#endif

struct comparison {
    const char *names, *stamps; /* the names are separated by NUL */
    size_t *starts;             /* where the first name of each share begins */
    size_t rows, shares, next;  /* next: the share that is taken next */
    char *differs;              /* for each row */
    int fd, has_device;
    uint64_t device;
};

static uint64_t little_endian(const char *at, int bytes) {
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | (unsigned char)at[bytes];
    return value;
}

static int is_time(const char *recorded, struct timespec now) {
    int64_t ns;
    return !__builtin_mul_overflow((int64_t)now.tv_sec, 1000000000, &ns) && !__builtin_add_overflow(ns, (int64_t)now.tv_nsec, &ns)
        && little_endian(recorded, 8) == (uint64_t)ns;
}

static int has_stamp(const struct comparison *all, const char *name, const char *stamp) {
    struct stat now;
    return !fstatat(all->fd, name, &now, AT_SYMLINK_NOFOLLOW) && now.st_size >= 0
        && little_endian(stamp, 8) == (uint64_t)now.st_size && is_time(stamp + 8, now.st_mtim) && is_time(stamp + 16, now.st_ctim)
        && little_endian(stamp + 24, 8) == (uint64_t)now.st_ino && little_endian(stamp + 32, 4) == (uint64_t)now.st_mode
        && (!all->has_device || (uint64_t)now.st_dev == all->device);
}

/* Compare one share. Returns false if none is left. */
static int compare_share(struct comparison *all) {
    size_t share = __atomic_fetch_add(&all->next, 1, __ATOMIC_RELAXED);
    if (share >= all->shares)
        return 0;
    const char *name = all->names + all->starts[share];
    for (size_t row = share * SHARE; row < all->rows && row < (share + 1) * SHARE; row++, name += strlen(name) + 1)
        all->differs[row] = !has_stamp(all, name, all->stamps + row * STAMP);
    return 1;
}

static void *compare_shares(void *all) {
    while (compare_share(all))
        continue;
    return NULL;
}

static int has_one_processor(void) {
#ifdef __APPLE__
    return 0; /* macOS does not bind a process to a processor, and no Mac has only one */
#else
    cpu_set_t processors;
    return !sched_getaffinity(0, sizeof processors, &processors) && CPU_COUNT(&processors) < 2;
#endif
}

/* Start the second thread. Returns false if there is none: few rows, one processor, or a limit of the system. */
static int start_thread(struct comparison *all, pthread_t *thread) {
    pthread_attr_t attributes;
    sigset_t every, before;
    if (all->rows < WORTH_A_THREAD || has_one_processor() || pthread_attr_init(&attributes))
        return 0;
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before); /* signals are for the threads of Python */
    int failed = pthread_create(thread, &attributes, compare_shares, all);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !failed;
}

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Compare all shares. Returns false with an exception, such as that of an interrupt. */
static int compare_all(struct comparison *all) {
    pthread_t thread;
    int is_shared = start_thread(all, &thread), more = 1, interrupted = 0;
    while (more && !interrupted) {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t end = milliseconds() + 100; more && milliseconds() < end;)
            more = compare_share(all);
        Py_END_ALLOW_THREADS
        interrupted = PyErr_CheckSignals();
    }
    if (interrupted)
        __atomic_store_n(&all->next, all->shares, __ATOMIC_RELAXED);
    if (is_shared) {
        Py_BEGIN_ALLOW_THREADS
        pthread_join(thread, NULL);
        Py_END_ALLOW_THREADS
    }
    return !interrupted;
}

/* Set `starts`. Returns false if there are not as many names as rows. */
static int find_starts(const struct comparison *all, size_t length) {
    size_t at = 0, row = 0;
    for (; row < all->rows && at <= length; row++) {
        if (row % SHARE == 0)
            all->starts[row / SHARE] = at;
        at += strlen(all->names + at) + 1;
    }
    return row == all->rows && at == length + (all->rows > 0);
}

static PyObject *differing(const struct comparison *all) {
    PyObject *found = PyList_New(0);
    for (size_t row = 0; found != NULL && row < all->rows; row++) {
        PyObject *position = all->differs[row] ? PyLong_FromSize_t(row) : NULL;
        if (all->differs[row] && (position == NULL || PyList_Append(found, position)))
            Py_CLEAR(found);
        Py_XDECREF(position);
    }
    return found;
}

static PyObject *positions_that_differ(PyObject *Py_UNUSED(module), PyObject *arguments) {
    struct comparison all = {0};
    PyObject *names, *stamps, *device = Py_None, *found = NULL;
    if (!PyArg_ParseTuple(arguments, "SSi|O", &names, &stamps, &all.fd, &device))
        return NULL;
    all.has_device = device != Py_None;
    all.device = all.has_device ? PyLong_AsUnsignedLongLongMask(device) : 0;
    if (PyErr_Occurred())
        return NULL;
    all.names = PyBytes_AsString(names), all.stamps = PyBytes_AsString(stamps);
    all.rows = (size_t)PyBytes_Size(stamps) / STAMP, all.shares = (all.rows + SHARE - 1) / SHARE;
    all.starts = PyMem_Calloc(all.shares + 1, sizeof *all.starts), all.differs = PyMem_Calloc(all.rows + 1, 1);
    if (all.starts == NULL || all.differs == NULL)
        PyErr_NoMemory();
    else if (PyBytes_Size(stamps) % STAMP || !find_starts(&all, (size_t)PyBytes_Size(names)))
        PyErr_SetString(PyExc_ValueError, "there are not as many names as stamps");
    else if (compare_all(&all))
        found = differing(&all);
    PyMem_Free(all.starts);
    PyMem_Free(all.differs);
    return found;
}

static PyMethodDef functions[] = {
    {"positions_that_differ", positions_that_differ, METH_VARARGS, "As positions_that_differ of casrewind.model.stamp."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "threaded_comparison", .m_methods = functions, .m_slots = slots};

PyMODINIT_FUNC PyInit_threaded_comparison(void);
PyMODINIT_FUNC PyInit_threaded_comparison(void) {
    return PyModuleDef_Init(&definition);
}
