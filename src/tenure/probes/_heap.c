/* The object-graph walk of tenure, in C. `_heap_python.py` is its twin and gives the same answer, step by step.
 *
 * The walk holds the GIL from start to end, runs no Python code, switches the collector off for its duration and
 * keeps borrowed pointers only: nothing can die while it looks. What it hands out is referenced before anything else.
 *
 * - visited: one bit for 16 bytes of address space, in blocks of 8 KiB for 1 MiB. Two objects never start in the same
 *   16 bytes, for an object is at least 16 bytes long. 1/128 of the touched address space.
 * - the queue is also the list of what was reached: object 8 bytes, parent 4, group 4.
 * - references first go to a small ring and are prefetched there; a type's facts are decided once and memoised.
 */
#define PY_SSIZE_T_CLEAN
#include <fcntl.h>
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef Py_GIL_DISABLED
#error "tenure.probes._heap needs the GIL: its Python twin is used on free-threaded builds"
#endif

enum { F_GC = 1, F_ISGC = 2, F_SELECT = 4, F_ARRAY = 8, F_BYTES = 16, F_STR = 32, F_DICT = 64, F_FUNC = 128, F_TYPE = 256,
       F_PLAIN = 512, F_MANAGED = 1024, F_OFFSET = 2048 };
/* what a library calls its functions, classes and texts makes no group (44,000 groups of TensorFlow's otherwise) */
enum { UNNAMED = F_FUNC | F_TYPE | F_STR };
enum { WANT_GROUPS = 1, WANT_PATHS = 2, WANT_UNREACHED = 4 };
enum { MAIN, HIDDEN, NATIVE, GARBAGE, RETAIN };
enum { LATE = 3 }; /* a root of tier 0 that starts when the others have been walked to exhaustion */
enum { SPECIAL_NONE, SPECIAL_BARRIER, SPECIAL_ENTERED, SPECIAL_CUT };

#define NONE UINT32_MAX
#define ROOT 0x80000000u      /* in `parent`: the rest is the index of a root */
#define NAMESPACE 0x80000000u /* in `group`: the node is a dict whose string keys are names */
#define FAR 24                /* nodes between prefetch and expansion: the object, */
#define NEAR 8                /* and what its traverse reads first: 0.26 -> 0.23 CPU-s for a million objects scattered in memory */
#define RING 64               /* references between prefetch and use */
#define ORDINALS 64           /* inline attributes with a group of their own */
#define HOLDERS 8
#define PATH_FIRST 48         /* objects of a longer path than both: the rest is left out, an Ellipsis stands for it */
#define PATH_LAST 16
#define PAYLOAD 512
#define FIELDS 64 /* objects of one record */
#define LABELS_MAX 256        /* a namespace with more names than this is a table, unless it is a user's module */
#define GROUPS_MAX (1u << 20)
#define SIZE_LIMIT ((Py_ssize_t)1 << 40)
#define RECURSION 4
static const unsigned DEPTH[5] = {32, 8, 8, 8, 8};

typedef struct { uint64_t page; uint64_t *bits; } Page;
typedef struct { PyTypeObject *type; uint32_t flags, info; } Slot;
typedef struct {
    PyTypeObject *type;
    PyObject *name; /* owned, made when first asked for */
    uint64_t hash;
    PyCFunction sizer;
    Py_ssize_t pre;
    int64_t count[2], bytes[2]; /* native, garbage */
} Info;
typedef struct {
    uint64_t key, label_hash;
    PyObject *label; /* borrowed; NULL is blank */
    int64_t count, bytes;
    uint32_t parent, info, sample;
    uint8_t depth, tier;
} Group;
typedef struct { uint64_t key; uint32_t group; } GroupSlot;
typedef struct { PyObject *obj, *label; uint32_t parent, space; } Entry;
typedef struct { PyObject *obj; uint32_t what; } Special;
typedef struct { PyObject *obj; uint32_t node, n, holder[HOLDERS]; } Selected;
typedef struct { uint64_t key; uint32_t most; uint64_t seen; uint32_t *node; } Sample;
typedef struct { PyObject *obj; Py_ssize_t refs; } Candidate;

typedef struct {
    int want, mode, tier, failed;
    size_t memory, peak, edges;
    /* visited */
    Page *pages;
    size_t n_pages, m_pages;
    uint64_t last_page;
    uint64_t *last_bits;
    /* queue */
    PyObject **obj;
    uint32_t *parent, *group;
    size_t head, tail, room;
    uint32_t *deferred, *found, *top;
    uint8_t *depth;
    size_t n_deferred, m_deferred, n_found, m_found;
    Entry ring[RING];
    unsigned ring_head, ring_n;
    /* types */
    Slot *slots;
    size_t n_slots, m_slots;
    Info *info;
    size_t n_info, m_info;
    /* groups */
    Group *groups;
    GroupSlot *table;
    size_t n_groups, m_groups, n_table, m_table;
    /* the container that is being expanded */
    uint32_t current;
    PyObject *space; /* its attribute dict */
    int plain;
    unsigned ordinal;
    /* what was asked for */
    PyObject *root_labels, *user_names, *sizers, *select_types;
    PyTypeObject *ndarray;
    Special *special, *user;
    size_t m_special, m_user;
    Selected *selected;
    size_t n_selected, m_selected;
    uint64_t bloom;
    Sample *samples;
    size_t n_samples;
    /* what only the targets keep */
    int64_t kept_count, kept_bytes;
    /* the references between what was not reached */
    Candidate *candidates;
    size_t m_candidates;
} Walk;

static PyObject *str_module, *ordinal_label[ORDINALS], *gc_get_objects;

/* ---- memory ---- */

static void *grow(Walk *w, void *old, size_t from, size_t to)
{
    void *p = realloc(old, to);
    if (!p) {
        w->failed = 1;
        return NULL;
    }
    w->memory += to - from;
    if (w->memory > w->peak) w->peak = w->memory;
    return p;
}

static void *zeroed(Walk *w, size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        w->failed = 1;
        return NULL;
    }
    w->memory += bytes;
    if (w->memory > w->peak) w->peak = w->memory;
    return p;
}

static void release(Walk *w, void *p, size_t bytes)
{
    free(p);
    w->memory -= bytes;
}

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 29;
    x *= 0x9E3779B97F4A7C15ull;
    return x ^ (x >> 32);
}

static inline size_t pointer_hash(const void *p) { return (size_t)mix((uint64_t)(uintptr_t)p >> 3); }

static size_t table_size(size_t n)
{
    size_t m = 16;
    while (m < 2 * n + 2) m *= 2;
    return m;
}

/* ---- visited ---- */

static uint64_t *page_bits(Walk *w, uint64_t page)
{
    if (2 * (w->n_pages + 1) > w->m_pages) {
        size_t m = w->m_pages ? 2 * w->m_pages : 1024;
        Page *fresh = zeroed(w, m * sizeof(Page));
        if (!fresh) return NULL;
        for (size_t i = 0; i < w->m_pages; i++)
            if (w->pages[i].bits) {
                size_t j = mix(w->pages[i].page) & (m - 1);
                while (fresh[j].bits) j = (j + 1) & (m - 1);
                fresh[j] = w->pages[i];
            }
        release(w, w->pages, w->m_pages * sizeof(Page));
        w->pages = fresh;
        w->m_pages = m;
    }
    size_t j = mix(page) & (w->m_pages - 1);
    while (w->pages[j].bits) {
        if (w->pages[j].page == page) return w->pages[j].bits;
        j = (j + 1) & (w->m_pages - 1);
    }
    uint64_t *bits = zeroed(w, 8192);
    if (!bits) return NULL;
    w->pages[j].page = page;
    w->pages[j].bits = bits;
    w->n_pages++;
    return bits;
}

/* 1 when it was marked before, 0 when it is marked now, -1 when there is no memory */
static inline int mark(Walk *w, PyObject *o)
{
    uint64_t a = (uint64_t)(uintptr_t)o, page = a >> 20;
    if (page != w->last_page || !w->last_bits) {
        uint64_t *bits = NULL;
        if (w->m_pages) {
            size_t j = mix(page) & (w->m_pages - 1);
            while (w->pages[j].bits) {
                if (w->pages[j].page == page) {
                    bits = w->pages[j].bits;
                    break;
                }
                j = (j + 1) & (w->m_pages - 1);
            }
        }
        if (!bits && !(bits = page_bits(w, page))) return -1;
        w->last_page = page;
        w->last_bits = bits;
    }
    uint64_t *word = &w->last_bits[(a >> 10) & 1023], bit = 1ull << ((a >> 4) & 63);
    if (*word & bit) return 1;
    *word |= bit;
    return 0;
}

static int marked(Walk *w, PyObject *o)
{
    uint64_t a = (uint64_t)(uintptr_t)o, page = a >> 20;
    if (!w->m_pages) return 0;
    size_t j = mix(page) & (w->m_pages - 1);
    while (w->pages[j].bits) {
        if (w->pages[j].page == page) return (int)(w->pages[j].bits[(a >> 10) & 1023] >> ((a >> 4) & 63) & 1);
        j = (j + 1) & (w->m_pages - 1);
    }
    return 0;
}

/* ---- small sets of pointers ---- */

static Special *special(Special *table, size_t m, const void *p)
{
    size_t j = pointer_hash(p) & (m - 1);
    while (table[j].what && table[j].obj != p) j = (j + 1) & (m - 1);
    return &table[j];
}

static Selected *selected(Walk *w, const void *p)
{
    size_t j = pointer_hash(p) & (w->m_selected - 1);
    while (w->selected[j].obj && w->selected[j].obj != p) j = (j + 1) & (w->m_selected - 1);
    return &w->selected[j];
}

static inline uint64_t bloom_bit(const void *p) { return 1ull << (pointer_hash(p) >> 40 & 63); }

/* ---- types ---- */

/* An instance holds its attributes inline or in its own dict and has no other content: each of its bases is object, a
 * class with a managed dict, or a class without fields (Generic, ABC). Only there is the n-th reference the n-th attribute. */
static int plain_type(PyTypeObject *t)
{
#ifdef Py_TPFLAGS_MANAGED_DICT
    if (!(t->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return 0;
    for (; t && t != &PyBaseObject_Type; t = t->tp_base) {
        if (!(t->tp_flags & Py_TPFLAGS_HEAPTYPE)) return 0;
        if (!(t->tp_flags & Py_TPFLAGS_MANAGED_DICT) && t->tp_basicsize > PyBaseObject_Type.tp_basicsize) return 0;
    }
    return 1;
#else
    (void)t;
    return 0;
#endif
}

static Py_ssize_t preheader(PyTypeObject *t)
{
#if PY_VERSION_HEX >= 0x030C0000
    return (t->tp_flags & (Py_TPFLAGS_MANAGED_DICT | Py_TPFLAGS_MANAGED_WEAKREF)) ? 2 * (Py_ssize_t)sizeof(void *) : 0;
#elif PY_VERSION_HEX >= 0x030B0000
    return (t->tp_flags & Py_TPFLAGS_MANAGED_DICT) ? 2 * (Py_ssize_t)sizeof(void *) : 0;
#else
    (void)t;
    return 0;
#endif
}

static Slot *new_type(Walk *w, PyTypeObject *t)
{
    if (2 * (w->n_slots + 1) > w->m_slots) {
        size_t m = w->m_slots ? 2 * w->m_slots : 1024;
        Slot *fresh = zeroed(w, m * sizeof(Slot));
        if (!fresh) return NULL;
        for (size_t i = 0; i < w->m_slots; i++)
            if (w->slots[i].type) {
                size_t j = pointer_hash(w->slots[i].type) & (m - 1);
                while (fresh[j].type) j = (j + 1) & (m - 1);
                fresh[j] = w->slots[i];
            }
        release(w, w->slots, w->m_slots * sizeof(Slot));
        w->slots = fresh;
        w->m_slots = m;
    }
    if (w->n_info == w->m_info) {
        size_t m = w->m_info ? 2 * w->m_info : 512;
        Info *fresh = grow(w, w->info, w->m_info * sizeof(Info), m * sizeof(Info));
        if (!fresh) return NULL;
        w->info = fresh;
        w->m_info = m;
    }
    uint32_t f = 0;
    if (t->tp_flags & Py_TPFLAGS_HAVE_GC) f |= F_GC;
    if (t->tp_is_gc) f |= F_ISGC;
    if (t == &PyDict_Type) f |= F_DICT;
    if (t == &PyFunction_Type) f |= F_FUNC;
    if (t->tp_flags & Py_TPFLAGS_TYPE_SUBCLASS) f |= F_TYPE;
    if (t->tp_flags & Py_TPFLAGS_BYTES_SUBCLASS || PyType_IsSubtype(t, &PyByteArray_Type)) f |= F_BYTES;
    if (t->tp_flags & Py_TPFLAGS_UNICODE_SUBCLASS) f |= F_STR;
    if (w->ndarray && PyType_IsSubtype(t, w->ndarray)) f |= F_ARRAY;
    if (plain_type(t)) f |= F_PLAIN;
    if (t->tp_dictoffset) f |= F_OFFSET;
#ifdef Py_TPFLAGS_MANAGED_DICT
    if (t->tp_flags & Py_TPFLAGS_MANAGED_DICT) f |= F_MANAGED;
#endif
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->select_types); i++)
        if (PyType_IsSubtype(t, (PyTypeObject *)PyTuple_GET_ITEM(w->select_types, i))) f |= F_SELECT;

    Info *info = &w->info[w->n_info];
    memset(info, 0, sizeof(Info));
    info->type = t;
    info->pre = preheader(t);
    if (t->tp_mro)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t->tp_mro) && !info->sizer; i++)
            for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(w->sizers); j++) {
                PyObject *pair = PyTuple_GET_ITEM(w->sizers, j);
                if (PyTuple_GET_ITEM(pair, 0) == PyTuple_GET_ITEM(t->tp_mro, i)) {
                    info->sizer = ((PyMethodDescrObject *)PyTuple_GET_ITEM(pair, 1))->d_method->ml_meth;
                    break;
                }
            }
    size_t j = pointer_hash(t) & (w->m_slots - 1);
    while (w->slots[j].type) j = (j + 1) & (w->m_slots - 1);
    w->slots[j] = (Slot){t, f, (uint32_t)w->n_info++};
    w->n_slots++;
    return &w->slots[j];
}

static inline Slot *type_slot(Walk *w, PyTypeObject *t)
{
    size_t j = pointer_hash(t) & (w->m_slots - 1);
    while (w->slots[j].type) {
        if (w->slots[j].type == t) return &w->slots[j];
        j = (j + 1) & (w->m_slots - 1);
    }
    return new_type(w, t);
}

/* "module.qualname" without "builtins."; nothing of the metaclass is asked */
static int name_type(Walk *w, Info *info)
{
    PyTypeObject *t = info->type;
    if (t->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        PyObject *qualname = ((PyHeapTypeObject *)t)->ht_qualname, *module = NULL;
        if (t->tp_dict) module = PyDict_GetItemWithError(t->tp_dict, str_module);
        if (module && PyUnicode_CheckExact(module) && PyUnicode_CompareWithASCIIString(module, "builtins"))
            info->name = PyUnicode_FromFormat("%U.%U", module, qualname);
        else
            info->name = Py_NewRef(qualname);
    } else {
        info->name = PyUnicode_FromString(t->tp_name);
    }
    if (!info->name) {
        w->failed = 1;
        return -1;
    }
    info->hash = (uint64_t)PyObject_Hash(info->name);
    return 0;
}

static Py_ssize_t size_of(Walk *w, PyObject *o, Info *info, int gc)
{
    PyTypeObject *t = info->type;
    Py_ssize_t size;
    if (info->sizer) {
        PyObject *n = info->sizer(o, NULL);
        if (!n) {
            w->failed = 1;
            return 0;
        }
        size = PyLong_AsSsize_t(n);
        Py_DECREF(n);
    } else {
        size = t->tp_basicsize;
        if (t->tp_itemsize > 0) {
            Py_ssize_t n = ((PyVarObject *)o)->ob_size;
            size += t->tp_itemsize * (n < 0 ? -n : n);
        }
    }
    if (size < 0 || size > SIZE_LIMIT) size = t->tp_basicsize; /* ob_size is no length in every C type */
    if (gc) size += info->pre + 2 * (Py_ssize_t)sizeof(void *);
    return size;
}

static int is_large(PyObject *o, uint32_t f)
{
    if (f & F_BYTES) return Py_SIZE(o) >= PAYLOAD;
#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(o)) return 0;
#endif
    return PyUnicode_GET_LENGTH(o) * PyUnicode_KIND(o) >= PAYLOAD;
}

/* the dict that holds the object's attributes, when there is one; never made */
static PyObject *attribute_dict(PyObject *o, uint32_t f)
{
    PyTypeObject *t = Py_TYPE(o);
    if (f & F_MANAGED) {
        /* three words before the object: 3.11 the dict; 3.12 the dict, or the values with the lowest bit set; 3.13 the dict */
        uintptr_t p = ((uintptr_t *)o)[-3];
        return p & 1 ? NULL : (PyObject *)p;
    }
    Py_ssize_t offset = t->tp_dictoffset;
    if (offset < 0) {
        Py_ssize_t n = ((PyVarObject *)o)->ob_size, word = (Py_ssize_t)sizeof(void *);
        offset += (t->tp_basicsize + t->tp_itemsize * (n < 0 ? -n : n) + word - 1) / word * word;
    }
    return *(PyObject **)((char *)o + offset);
}

/* ---- groups ---- */

static int group_room(Walk *w)
{
    if (w->n_groups == w->m_groups) {
        size_t m = w->m_groups ? w->m_groups + w->m_groups / 2 : 4096;
        Group *fresh = grow(w, w->groups, w->m_groups * sizeof(Group), m * sizeof(Group));
        if (!fresh) return -1;
        w->groups = fresh;
        w->m_groups = m;
    }
    if (2 * (w->n_table + 1) > w->m_table) {
        size_t m = w->m_table ? 2 * w->m_table : 8192;
        GroupSlot *fresh = zeroed(w, m * sizeof(GroupSlot));
        if (!fresh) return -1;
        for (size_t i = 0; i < w->m_table; i++)
            if (w->table[i].key) {
                size_t j = w->table[i].key & (m - 1);
                while (fresh[j].key) j = (j + 1) & (m - 1);
                fresh[j] = w->table[i];
            }
        release(w, w->table, w->m_table * sizeof(GroupSlot));
        w->table = fresh;
        w->m_table = m;
    }
    return 0;
}

static uint32_t new_group(Walk *w, uint64_t key, uint32_t parent, PyObject *label, uint64_t label_hash, uint32_t info)
{
    Group *g = &w->groups[w->n_groups];
    *g = (Group){.key = key, .label_hash = label_hash, .label = label, .parent = parent, .info = info, .sample = NONE};
    g->depth = parent == NONE ? 0 : (uint8_t)(w->groups[parent].depth + 1);
    g->tier = (uint8_t)w->tier;
    for (size_t i = 0; i < w->n_samples; i++)
        if (w->samples[i].key == key) g->sample = (uint32_t)i;
    return (uint32_t)w->n_groups++;
}

static int same_step(const Walk *w, uint32_t a, uint32_t b)
{
    return w->groups[a].label_hash == w->groups[b].label_hash &&
           w->info[w->groups[a].info].hash == w->info[w->groups[b].info].hash;
}

static uint32_t find_group(Walk *w, uint32_t parent, PyObject *label, uint32_t info_index)
{
    Info *info = &w->info[info_index];
    if (!info->name && name_type(w, info)) return NONE;
    uint64_t label_hash = 0, key;
    if (parent == NONE) {
        label_hash = (uint64_t)PyObject_Hash(label);
        key = mix(label_hash + 0x9FB21C651E98DF25ull);
    } else {
        while (w->groups[parent].depth >= DEPTH[w->tier]) {
            parent = w->groups[parent].parent;
            label = NULL;
        }
        if (label) label_hash = (uint64_t)PyObject_Hash(label);
        if (w->tier != w->groups[parent].tier) label_hash += 0xD6E8FEB86659FD93ull * (uint64_t)(w->tier + 1);
        key = mix((w->groups[parent].key ^ label_hash * 0xC2B2AE3D27D4EB4Full) + info->hash * 0x165667B19E3779F9ull);
    }
    if (!key) key = 1;
    if (w->m_table) {
        size_t j = key & (w->m_table - 1);
        while (w->table[j].key) {
            if (w->table[j].key == key) return w->table[j].group;
            j = (j + 1) & (w->m_table - 1);
        }
    }
    if (group_room(w)) return NONE;
    uint32_t group = NONE;
    if (parent != NONE) {
        uint32_t up = parent;
        for (int i = 0; i < RECURSION && w->groups[up].parent != NONE; i++, up = w->groups[up].parent) {
            if (w->info[w->groups[up].info].type->tp_flags & Py_TPFLAGS_TYPE_SUBCLASS) break; /* a class ends a structure */
            /* two steps must repeat, not one: a variable's __dict__ is not the __dict__ of the wrapper that lists it */
            if (w->groups[up].label_hash == label_hash && w->info[w->groups[up].info].hash == info->hash &&
                same_step(w, parent, w->groups[up].parent)) {
                group = up;
                break;
            }
        }
        if (group == NONE && w->n_groups >= GROUPS_MAX) return parent;
    }
    if (group == NONE) group = new_group(w, key, parent, label, label_hash, info_index);
    size_t j = key & (w->m_table - 1);
    while (w->table[j].key) j = (j + 1) & (w->m_table - 1);
    w->table[j] = (GroupSlot){key, group};
    w->n_table++;
    return group;
}

/* ---- the walk ---- */

static int add_index(Walk *w, uint32_t **array, size_t *n, size_t *m, uint32_t value)
{
    if (*n == *m) {
        size_t more = *m ? 2 * *m : 1024;
        uint32_t *fresh = grow(w, *array, *m * sizeof(uint32_t), more * sizeof(uint32_t));
        if (!fresh) return -1;
        *array = fresh;
        *m = more;
    }
    (*array)[(*n)++] = value;
    return 0;
}

static int queue_room(Walk *w)
{
    size_t room = w->room ? w->room + w->room / 2 : 65536;
    if (room >= ROOT) room = ROOT - 1;
    if (room <= w->room) {
        w->failed = 1;
        return -1;
    }
    void *p = grow(w, w->obj, w->room * sizeof(PyObject *), room * sizeof(PyObject *));
    if (!p) return -1;
    w->obj = p;
    if (!(p = grow(w, w->parent, w->room * 4, room * 4))) return -1;
    w->parent = p;
    if (w->want & WANT_GROUPS) {
        if (!(p = grow(w, w->group, w->room * 4, room * 4))) return -1;
        w->group = p;
    }
    w->room = room;
    return 0;
}

static int is_gc(PyObject *o, uint32_t f) { return (f & F_GC) && (!(f & F_ISGC) || Py_TYPE(o)->tp_is_gc(o)); }

static void add_bytes(Walk *w, uint32_t parent, Py_ssize_t bytes)
{
    if (w->mode == RETAIN) {
        w->kept_bytes += bytes;
    } else if (w->mode == MAIN) {
        w->groups[w->group[parent] & ~NAMESPACE].bytes += bytes;
    } else {
        Slot *slot = type_slot(w, Py_TYPE(w->obj[parent]));
        if (slot) w->info[slot->info].bytes[w->mode - NATIVE] += bytes;
    }
}

/* one reference out of the ring: an atom, or a new node */
static int process(Walk *w, Entry *e)
{
    PyObject *o = e->obj;
    Slot *slot = type_slot(w, Py_TYPE(o));
    if (!slot) return -1;
    uint32_t f = slot->flags, info = slot->info;
    int gc = is_gc(o, f);
    int weigh = w->mode == MAIN ? w->want & WANT_GROUPS : w->mode != HIDDEN;
    Selected *asked = NULL;
    if (w->n_selected && (w->bloom & bloom_bit(o))) {
        asked = selected(w, o);
        if (!asked->obj) asked = NULL;
    }
    if (!gc && !(f & (F_SELECT | F_ARRAY)) && !asked && !(f & (F_BYTES | F_STR) && is_large(o, f))) {
        if (weigh && Py_REFCNT(o) == 1 && !(e->parent & ROOT)) add_bytes(w, e->parent, size_of(w, o, &w->info[info], 0));
        return w->failed ? -1 : 0;
    }
    if (w->tail == w->room && queue_room(w)) return -1;
    uint32_t node = (uint32_t)w->tail;
    w->obj[node] = o;
    w->parent[node] = e->parent;
    if (w->want & WANT_GROUPS) {
        uint32_t g = 0;
        if (w->mode == MAIN) {
            if (e->parent & ROOT)
                g = find_group(w, NONE, PyTuple_GET_ITEM(w->root_labels, e->parent & ~ROOT), info);
            else
                g = find_group(w, w->group[e->parent] & ~NAMESPACE, w->tier && f & UNNAMED ? NULL : e->label, info);
            if (g == NONE) return -1;
            w->groups[g].count++;
            w->groups[g].bytes += size_of(w, o, &w->info[info], gc);
            if (w->groups[g].sample != NONE) {
                Sample *s = &w->samples[w->groups[g].sample];
                s->node[s->seen++ % s->most] = node;
            }
        }
        w->group[node] = g | (e->space ? NAMESPACE : 0);
    }
    w->tail++;
    if (w->mode == NATIVE || w->mode == GARBAGE) {
        w->info[info].count[w->mode - NATIVE]++;
        w->info[info].bytes[w->mode - NATIVE] += size_of(w, o, &w->info[info], gc);
    } else if (w->mode == RETAIN) {
        w->kept_count++;
        w->kept_bytes += size_of(w, o, &w->info[info], gc);
    }
    if (asked && asked->node == NONE) asked->node = node;
    if ((f & F_SELECT || asked) && w->mode != HIDDEN && add_index(w, &w->found, &w->n_found, &w->m_found, node)) return -1;
    return w->failed ? -1 : 0;
}

static int push(Walk *w, PyObject *o, PyObject *label, uint32_t parent, uint32_t space)
{
    if (w->ring_n == RING) {
        Entry *e = &w->ring[w->ring_head];
        w->ring_head = (w->ring_head + 1) % RING;
        w->ring_n--;
        if (process(w, e)) return -1;
    }
    __builtin_prefetch(o);
    w->ring[(w->ring_head + w->ring_n++) % RING] = (Entry){o, label, parent, space};
    return 0;
}

static int drain(Walk *w)
{
    while (w->ring_n) {
        Entry *e = &w->ring[w->ring_head];
        w->ring_head = (w->ring_head + 1) % RING;
        w->ring_n--;
        if (process(w, e)) return -1;
    }
    return 0;
}

static void note_holder(Walk *w, PyObject *o)
{
    Selected *s = selected(w, o);
    if (s->obj && s->n < HOLDERS && (!s->n || s->holder[s->n - 1] != w->current)) s->holder[s->n++] = w->current;
}

static inline int edge(Walk *w, PyObject *o, PyObject *label, uint32_t space)
{
    w->edges++;
    if (w->bloom && w->mode == MAIN && (w->bloom & bloom_bit(o))) note_holder(w, o);
    int seen = mark(w, o);
    if (seen) return seen < 0 ? -1 : 0;
    return push(w, o, label, w->current, space);
}

static int visit(PyObject *o, void *arg)
{
    Walk *w = arg;
    if (!o) return 0;
    PyObject *label = NULL;
    if (w->plain && w->ordinal < ORDINALS) label = ordinal_label[w->ordinal++];
    return edge(w, o, o == w->space ? NULL : label, o == w->space);
}

/* numpy's PyArrayObject_fields; the same in numpy 1 and 2, tested against real arrays before it is used */
typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions, *strides;
    PyObject *base, *descr;
    int flags;
} Array;

/* Where the objects of one record lie, in the order of the fields; a field that is itself an array of objects is left out */
static void object_offsets(PyObject *descr, Py_ssize_t at, Py_ssize_t *offsets, int *n)
{
    int type_num = *(int *)((char *)descr + 28);
    if (type_num == 17 && *n < FIELDS) offsets[(*n)++] = at;
    if (type_num != 20) return;
    PyObject *fields = PyObject_GetAttrString(descr, "fields"), *names = PyObject_GetAttrString(descr, "names");
    for (Py_ssize_t i = 0; fields && names && PyTuple_Check(names) && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *field = PyObject_GetItem(fields, PyTuple_GET_ITEM(names, i)); /* (dtype, offset) */
        if (field && PyTuple_Check(field) && PyTuple_GET_SIZE(field) > 1)
            object_offsets(PyTuple_GET_ITEM(field, 0), at + PyLong_AsSsize_t(PyTuple_GET_ITEM(field, 1)), offsets, n);
        Py_XDECREF(field);
    }
    Py_XDECREF(fields);
    Py_XDECREF(names);
    PyErr_Clear();
}

/* What an array of objects or of records with objects holds: owned, contiguous. -1 when `each` says so. */
static int array_objects(Array *a, int (*each)(PyObject *, void *), void *arg)
{
    int type_num = *(int *)((char *)a->descr + 28), n_offsets = 0;
    if ((type_num != 17 && type_num != 20) || !(a->flags & 4) || !(a->flags & 3)) return 0;
    Py_ssize_t offsets[FIELDS], n = 1, step = (Py_ssize_t)sizeof(PyObject *);
    object_offsets(a->descr, 0, offsets, &n_offsets);
    if (!n_offsets) return 0;
    if (type_num == 20) {
        PyObject *size = PyObject_GetAttrString(a->descr, "itemsize");
        step = size ? PyLong_AsSsize_t(size) : -1;
        Py_XDECREF(size);
        PyErr_Clear();
        if (step <= 0) return 0;
    }
    for (int i = 0; i < a->nd; i++) n *= a->dimensions[i];
    for (Py_ssize_t i = 0; i < n; i++)
        for (int j = 0; j < n_offsets; j++) {
            PyObject *item;
            memcpy(&item, a->data + i * step + offsets[j], sizeof item); /* a packed record's fields lie anywhere */
            if (item && each(item, arg)) return -1;
        }
    return 0;
}

static int visit_item(PyObject *item, void *w) { return edge(w, item, NULL, 0); }

static int visit_array(Walk *w, PyObject *o)
{
    Array *a = (Array *)o;
    if (a->base && edge(w, a->base, NULL, 0)) return -1;
    return array_objects(a, visit_item, w);
}

static int take_first(PyObject *item, void *first)
{
    *(PyObject **)first = item;
    return -1;
}

/* 1 when the contents of a function or class are not the user's: they wait for tier 1 */
static int is_foreign(Walk *w, PyObject *o, uint32_t f)
{
    if (f & F_FUNC) return !special(w->user, w->m_user, ((PyFunctionObject *)o)->func_globals)->what;
    if (!(f & F_TYPE)) return 0;
    PyObject *dict = ((PyTypeObject *)o)->tp_dict, *module = dict ? PyDict_GetItemWithError(dict, str_module) : NULL;
    return !(module && PyUnicode_CheckExact(module) && PySet_Contains(w->user_names, module) == 1);
}

/* Python 3.12's module _asyncio shows the collector its free list: iterators without an owner. Whoever takes one (as
 * gc.get_referents does) frees it a second time, and the list becomes a ring in which the collector turns for ever. */
static int shows_the_dead(PyObject *o)
{
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
    if (PyModule_CheckExact(o)) {
        PyModuleDef *def = PyModule_GetDef(o);
        if (!def) PyErr_Clear();
        return def && def->m_name && !strcmp(def->m_name, "_asyncio");
    }
#else
    (void)o;
#endif
    return 0;
}

static int expand(Walk *w, uint32_t node, int waited)
{
    PyObject *o = w->obj[node];
    PyTypeObject *t = Py_TYPE(o);
    Slot *slot = type_slot(w, t);
    if (!slot) return -1;
    uint32_t f = slot->flags;
    int gc = is_gc(o, f);
    if (!gc && !(f & F_ARRAY)) return 0;
    if (!waited && w->tier == 0 && w->mode == MAIN && f & (F_FUNC | F_TYPE) && is_foreign(w, o, f))
        return add_index(w, &w->deferred, &w->n_deferred, &w->m_deferred, node);
    w->current = node;
    w->space = NULL;
    w->plain = 0;
    if (f & F_DICT) {
        int named = w->mode == MAIN && w->want & WANT_GROUPS && w->group[node] & NAMESPACE;
        if (named && PyDict_GET_SIZE(o) > LABELS_MAX && !(w->tier == 0 && w->parent[node] & ROOT)) named = 0;
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (PyDict_Next(o, &position, &key, &value))
            if (edge(w, key, NULL, 0) || edge(w, value, named && PyUnicode_CheckExact(key) ? key : NULL, 0)) return -1;
        return 0;
    }
    if (gc && shows_the_dead(o)) {
        PyObject *dict = PyModule_GetDict(o);
        return dict ? edge(w, dict, NULL, 0) : 0;
    }
    if (gc && t->tp_traverse) {
        if (w->mode == MAIN && w->want & WANT_GROUPS) {
            if (f & (F_MANAGED | F_OFFSET) && !(w->tier && f & F_TYPE)) w->space = attribute_dict(o, f);
            w->plain = (f & F_PLAIN) != 0;
            w->ordinal = 0;
        }
        t->tp_traverse(o, visit, w);
        if (w->failed) return -1;
        w->space = NULL;
        w->plain = 0;
    }
    return f & F_ARRAY ? visit_array(w, o) : 0;
}

/* What an object's traverse will read first: without it each list and dict costs two misses of the cache. */
static inline void prefetch_contents(PyObject *o)
{
    PyTypeObject *t = Py_TYPE(o);
    if (t == &PyList_Type) {
        __builtin_prefetch(((PyListObject *)o)->ob_item);
    } else if (t == &PyDict_Type) {
        const char *keys = (const char *)((PyDictObject *)o)->ma_keys;
        __builtin_prefetch(keys);
        __builtin_prefetch(keys + 64);
        if (((PyDictObject *)o)->ma_values) __builtin_prefetch(((PyDictObject *)o)->ma_values);
    } else {
#if PY_VERSION_HEX >= 0x030B0000
        if (t->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
            /* inline values: 3.11 a pointer four words before the object, 3.12 three words, 3.13 behind the object */
#if PY_VERSION_HEX < 0x030C0000
            __builtin_prefetch(((void **)o)[-4]);
#elif PY_VERSION_HEX < 0x030D0000
            __builtin_prefetch(((void **)o)[-3]);
#endif
        }
#endif
    }
}

static int run_to(Walk *w, size_t end)
{
    for (; w->head < end; w->head++) {
        if (w->head + FAR < w->tail) __builtin_prefetch(w->obj[w->head + FAR]);
        if (w->head + NEAR < w->tail) prefetch_contents(w->obj[w->head + NEAR]);
        if (expand(w, (uint32_t)w->head, 0)) return -1;
    }
    return 0;
}

static int run(Walk *w)
{
    for (;;) {
        if (drain(w)) return -1;
        if (w->head == w->tail) return 0;
        while (w->head < w->tail)
            if (run_to(w, w->tail)) return -1;
    }
}

static int start_roots(Walk *w, PyObject *objects, const char *tiers, int tier)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++) {
        if (tiers[i] != tier) continue;
        PyObject *o = PyTuple_GET_ITEM(objects, i);
        Special *s = special(w->special, w->m_special, o);
        int barrier = s->what == SPECIAL_BARRIER;
        if (s->what == SPECIAL_CUT || s->what == SPECIAL_ENTERED) continue;
        if (barrier) {
            s->what = SPECIAL_ENTERED;
        } else {
            int seen = mark(w, o);
            if (seen < 0) return -1;
            if (seen) continue;
        }
        if (push(w, o, NULL, ROOT | (uint32_t)i, barrier && w->tier < 2 && PyDict_CheckExact(o))) return -1;
    }
    return 0;
}

static int start_all(Walk *w, PyObject *objects)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++) {
        PyObject *o = PyTuple_GET_ITEM(objects, i);
        if (mark(w, o) < 0 || push(w, o, NULL, NONE, 0)) return -1;
    }
    return run(w);
}

/* ---- what was not reached ---- */

static Candidate *candidate(Walk *w, const void *p)
{
    size_t j = pointer_hash(p) & (w->m_candidates - 1);
    while (w->candidates[j].obj && w->candidates[j].obj != p) j = (j + 1) & (w->m_candidates - 1);
    return &w->candidates[j];
}

static int subtract(PyObject *o, void *arg)
{
    if (!o) return 0;
    Candidate *c = candidate(arg, o);
    if (c->obj) c->refs--;
    return 0;
}

/* As the cyclic collector decides: a reference that comes from none of the unreached objects comes from outside. */
static int split_unreached(Walk *w, PyObject *all, size_t *garbage_start)
{
    size_t n = 0;
    Py_ssize_t size = PyList_GET_SIZE(all);
    for (Py_ssize_t i = 0; i < size; i++) n += !marked(w, PyList_GET_ITEM(all, i));
    w->m_candidates = table_size(n);
    if (!(w->candidates = zeroed(w, w->m_candidates * sizeof(Candidate)))) return -1;
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *o = PyList_GET_ITEM(all, i);
        if (!marked(w, o)) *candidate(w, o) = (Candidate){o, Py_REFCNT(o) - 1};
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *o = PyList_GET_ITEM(all, i);
        if (!marked(w, o) && PyObject_IS_GC(o) && Py_TYPE(o)->tp_traverse) Py_TYPE(o)->tp_traverse(o, subtract, w);
    }
    w->mode = NATIVE;
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *o = PyList_GET_ITEM(all, i);
        Candidate *c = candidate(w, o);
        if (!c->obj || c->refs <= 0) continue;
        int seen = mark(w, o);
        if (seen < 0 || (!seen && push(w, o, NULL, NONE, 0))) return -1;
    }
    if (run(w)) return -1;
    *garbage_start = w->tail;
    w->mode = GARBAGE;
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *o = PyList_GET_ITEM(all, i);
        if (!candidate(w, o)->obj) continue;
        int seen = mark(w, o);
        if (seen < 0 || (!seen && push(w, o, NULL, NONE, 0))) return -1;
    }
    return run(w);
}

/* ---- results ---- */

/* `depth`: how many steps from its root, at most 255; `top`: the ancestor at the end of the path's first PATH_FIRST steps.
 * Without them each of a linked list's things would be asked for all that come before it. */
static int measure_paths(Walk *w)
{
    if (!(w->depth = zeroed(w, w->tail)) || !(w->top = zeroed(w, w->tail * sizeof(uint32_t)))) return -1;
    for (size_t i = 0; i < w->tail; i++) {
        uint32_t parent = w->parent[i];
        unsigned depth = parent & ROOT ? 0 : w->depth[parent] + 1u;
        w->depth[i] = depth > 255 ? 255 : (uint8_t)depth;
        w->top[i] = depth < PATH_FIRST ? (uint32_t)i : w->top[parent];
    }
    return 0;
}

static PyObject *path_to(Walk *w, uint32_t node, int include, Py_ssize_t *root)
{
    uint32_t i = w->top[node], end = include || w->parent[node] & ROOT ? node : w->parent[node];
    while (!(w->parent[i] & ROOT)) i = w->parent[i];
    *root = w->parent[i] == NONE ? -1 : (Py_ssize_t)(w->parent[i] & ~ROOT);
    int none = !(w->want & WANT_PATHS) || (!include && w->parent[node] & ROOT);
    int cut = w->depth[end] >= PATH_FIRST + PATH_LAST;
    Py_ssize_t n = none ? 0 : cut ? PATH_FIRST + 1 + PATH_LAST : w->depth[end] + 1;
    PyObject *path = PyTuple_New(n);
    if (!path || none) return path;
    for (i = end; n--; i = w->parent[i]) {
        if (cut && n == PATH_FIRST) {
            PyTuple_SET_ITEM(path, n--, Py_NewRef(Py_Ellipsis));
            i = w->top[end];
        }
        PyTuple_SET_ITEM(path, n, Py_NewRef(w->obj[i]));
    }
    return path;
}

static PyObject *holders_of(Walk *w, PyObject *o)
{
    Selected *s = w->n_selected ? selected(w, o) : NULL;
    Py_ssize_t n = s && s->obj ? s->n : 0;
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t i = 0; all && i < n; i++) {
        Py_ssize_t root;
        PyObject *path = path_to(w, s->holder[i], 1, &root);
        PyObject *one = path ? Py_BuildValue("(nN)", root, path) : NULL;
        if (!one) {
            Py_CLEAR(all);
            break;
        }
        PyTuple_SET_ITEM(all, i, one);
    }
    return all;
}

static int by_index(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static PyObject *found_result(Walk *w, const size_t *start)
{
    for (size_t i = 0; i < w->n_samples; i++) {
        Sample *s = &w->samples[i];
        for (uint64_t j = 0; j < s->most && j < s->seen; j++)
            if (add_index(w, &w->found, &w->n_found, &w->m_found, s->node[j])) return PyErr_NoMemory();
    }
    if (w->n_found && measure_paths(w)) return PyErr_NoMemory();
    if (w->n_found) qsort(w->found, w->n_found, sizeof(uint32_t), by_index);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < w->n_found; i++) {
        uint32_t node = w->found[i];
        if (i && node == w->found[i - 1]) continue;
        int tier = 0;
        while (tier < 4 && node >= start[tier + 1]) tier++;
        Py_ssize_t group = w->want & WANT_GROUPS && tier < 3 ? (Py_ssize_t)(w->group[node] & ~NAMESPACE) : -1, root;
        PyObject *path = path_to(w, node, 0, &root), *holders = path ? holders_of(w, w->obj[node]) : NULL;
        if (!holders) {
            Py_XDECREF(path);
            Py_CLEAR(list);
            break;
        }
        PyObject *one = Py_BuildValue("(OninNN)", w->obj[node], group, tier, root, path, holders);
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *groups_result(Walk *w)
{
    Py_ssize_t n = (Py_ssize_t)w->n_groups;
    PyObject *keys = PyBytes_FromStringAndSize(NULL, 8 * n), *parents = PyBytes_FromStringAndSize(NULL, 4 * n),
             *tiers = PyBytes_FromStringAndSize(NULL, n), *counts = PyBytes_FromStringAndSize(NULL, 8 * n),
             *bytes = PyBytes_FromStringAndSize(NULL, 8 * n), *labels = PyTuple_New(n), *types = PyTuple_New(n),
             *blank = PyUnicode_FromString(""), *result = NULL;
    if (keys && parents && tiers && counts && bytes && labels && types && blank) {
        for (Py_ssize_t i = 0; i < n; i++) {
            Group *g = &w->groups[i];
            ((uint64_t *)PyBytes_AS_STRING(keys))[i] = g->key;
            ((int32_t *)PyBytes_AS_STRING(parents))[i] = g->parent == NONE ? -1 : (int32_t)g->parent;
            PyBytes_AS_STRING(tiers)[i] = (char)g->tier;
            ((int64_t *)PyBytes_AS_STRING(counts))[i] = g->count;
            ((int64_t *)PyBytes_AS_STRING(bytes))[i] = g->bytes;
            PyObject *label = g->parent == NONE ? g->label : g->label ? g->label : blank;
            PyTuple_SET_ITEM(labels, i, Py_NewRef(label));
            PyTuple_SET_ITEM(types, i, Py_NewRef(w->info[g->info].name));
        }
        result = PyTuple_Pack(7, keys, parents, tiers, counts, bytes, labels, types);
    }
    Py_XDECREF(keys);
    Py_XDECREF(parents);
    Py_XDECREF(tiers);
    Py_XDECREF(counts);
    Py_XDECREF(bytes);
    Py_XDECREF(labels);
    Py_XDECREF(types);
    Py_XDECREF(blank);
    return result;
}

static PyObject *types_result(Walk *w, int which)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < w->n_info; i++) {
        Info *info = &w->info[i];
        if (!info->count[which]) continue;
        if (!info->name && name_type(w, info)) {
            Py_CLEAR(list);
            break;
        }
        PyObject *one = Py_BuildValue("(OLL)", info->name, (long long)info->count[which], (long long)info->bytes[which]);
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static void free_walk(Walk *w)
{
    for (size_t i = 0; i < w->m_pages; i++) free(w->pages[i].bits);
    for (size_t i = 0; i < w->n_info; i++) Py_XDECREF(w->info[i].name);
    for (size_t i = 0; i < w->n_samples; i++) free(w->samples[i].node);
    free(w->pages);
    free(w->obj);
    free(w->parent);
    free(w->group);
    free(w->deferred);
    free(w->found);
    free(w->top);
    free(w->depth);
    free(w->slots);
    free(w->info);
    free(w->groups);
    free(w->table);
    free(w->special);
    free(w->user);
    free(w->selected);
    free(w->samples);
    free(w->candidates);
    free(w);
}

static int read_request(Walk *w, PyObject *barriers, PyObject *cut, PyObject *targets, PyObject *user_globals,
                        PyObject *select_ids, PyObject *select_groups)
{
    PyObject *marks[3] = {barriers, cut, targets};
    size_t n = 0;
    for (int i = 0; i < 3; i++) n += (size_t)PyTuple_GET_SIZE(marks[i]);
    w->m_special = table_size(n);
    if (!(w->special = zeroed(w, w->m_special * sizeof(Special)))) return -1;
    for (int i = 0; i < 3; i++)
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(marks[i]); j++) {
            PyObject *o = PyTuple_GET_ITEM(marks[i], j);
            Special *s = special(w->special, w->m_special, o);
            s->obj = o;
            s->what = i ? SPECIAL_CUT : SPECIAL_BARRIER;
            if (mark(w, o) < 0) return -1;
        }
    w->m_user = table_size((size_t)PyTuple_GET_SIZE(user_globals));
    if (!(w->user = zeroed(w, w->m_user * sizeof(Special)))) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(user_globals); i++) {
        void *p = PyLong_AsVoidPtr(PyTuple_GET_ITEM(user_globals, i));
        if (!p && PyErr_Occurred()) return -1;
        Special *s = special(w->user, w->m_user, p);
        s->obj = p;
        s->what = SPECIAL_BARRIER;
    }
    w->m_selected = table_size((size_t)PyTuple_GET_SIZE(select_ids));
    if (!(w->selected = zeroed(w, w->m_selected * sizeof(Selected)))) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(select_ids); i++) {
        void *p = PyLong_AsVoidPtr(PyTuple_GET_ITEM(select_ids, i));
        if (!p) {
            if (PyErr_Occurred()) return -1;
            continue;
        }
        Selected *s = selected(w, p);
        s->obj = p;
        s->node = NONE;
        w->bloom |= bloom_bit(p);
        w->n_selected++;
    }
    Py_ssize_t position = 0;
    PyObject *key, *value;
    if (!(w->samples = zeroed(w, (size_t)PyDict_GET_SIZE(select_groups) * sizeof(Sample)))) return -1;
    while (PyDict_Next(select_groups, &position, &key, &value)) {
        Sample *s = &w->samples[w->n_samples];
        s->key = PyLong_AsUnsignedLongLongMask(key);
        Py_ssize_t most = PyLong_AsSsize_t(value);
        if (PyErr_Occurred()) return -1;
        if (most <= 0) continue;
        s->most = most > 1000000 ? 1000000u : (uint32_t)most;
        if (!(s->node = zeroed(w, s->most * sizeof(uint32_t)))) return -1;
        w->n_samples++;
    }
    return 0;
}

PyDoc_STRVAR(walk_doc,
             "walk(objects, tiers, labels, user_globals, user_names, barriers, cut, targets, select_types, select_ids,\n"
             "     select_groups, want, sizers, ndarray, hidden)\n\nUsed through tenure.probes.heap; see _heap_python.walk.");

static PyObject *walk(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *objects, *tiers, *labels, *user_globals, *user_names, *barriers, *cut, *targets, *select_types, *select_ids,
        *select_groups, *sizers, *ndarray, *hidden, *all = NULL, *result = NULL, *kept = NULL, *groups = NULL, *found = NULL,
        *unreached = NULL;
    int want;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!O!O!O!O!O!iO!OO!", &PyTuple_Type, &objects, &PyBytes_Type, &tiers, &PyTuple_Type,
                          &labels, &PyTuple_Type, &user_globals, &PyFrozenSet_Type, &user_names, &PyTuple_Type, &barriers,
                          &PyTuple_Type, &cut, &PyTuple_Type, &targets, &PyTuple_Type, &select_types, &PyTuple_Type,
                          &select_ids, &PyDict_Type, &select_groups, &want, &PyTuple_Type, &sizers, &ndarray, &PyTuple_Type,
                          &hidden))
        return NULL;
    Py_ssize_t n_roots = PyTuple_GET_SIZE(objects);
    if (PyBytes_GET_SIZE(tiers) != n_roots || PyTuple_GET_SIZE(labels) != n_roots || n_roots >= (Py_ssize_t)ROOT - 1) {
        PyErr_SetString(PyExc_ValueError, "objects, tiers and labels differ in length");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n_roots; i++)
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(labels, i)) || (unsigned char)PyBytes_AS_STRING(tiers)[i] > LATE) {
            PyErr_SetString(PyExc_ValueError, "a label must be a str, a tier 0, 1, 2 or late");
            return NULL;
        }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(select_types); i++)
        if (!PyType_Check(PyTuple_GET_ITEM(select_types, i))) {
            PyErr_SetString(PyExc_TypeError, "select_types must be types");
            return NULL;
        }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizers); i++) {
        PyObject *pair = PyTuple_GET_ITEM(sizers, i), *method = NULL;
        if (PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2) method = PyTuple_GET_ITEM(pair, 1);
        if (!method || !Py_IS_TYPE(method, &PyMethodDescr_Type) ||
            ((PyMethodDescrObject *)method)->d_method->ml_flags != METH_NOARGS) {
            PyErr_SetString(PyExc_TypeError, "a sizer must be a C method without arguments");
            return NULL;
        }
    }
    if (want & WANT_UNREACHED && !(all = PyObject_CallNoArgs(gc_get_objects))) return NULL; /* before any borrowed pointer */
    Walk *w = calloc(1, sizeof(Walk));
    if (!w) {
        Py_XDECREF(all);
        return PyErr_NoMemory();
    }
    int collecting = PyGC_Disable();
    w->want = want;
    w->root_labels = labels;
    w->user_names = user_names;
    w->sizers = sizers;
    w->select_types = select_types;
    w->ndarray = PyType_Check(ndarray) ? (PyTypeObject *)ndarray : NULL;
    w->m_slots = 4096;
    if (all) w->memory = w->peak = (size_t)PyList_GET_SIZE(all) * sizeof(PyObject *);
    if (!(w->slots = zeroed(w, w->m_slots * sizeof(Slot)))) goto failed;
    if (read_request(w, barriers, cut, targets, user_globals, select_ids, select_groups)) goto failed;

    size_t start[6] = {0, 0, 0, 0, 0, SIZE_MAX};
    for (w->tier = 0; w->tier < 3; w->tier++) {
        start[w->tier] = w->tail;
        if (start_roots(w, objects, PyBytes_AS_STRING(tiers), w->tier) || drain(w)) goto failed;
        if (w->tier == 1) {
            if (run_to(w, w->tail)) goto failed;
            for (size_t i = 0; i < w->n_deferred; i++)
                if (expand(w, w->deferred[i], 1)) goto failed;
        }
        if (run(w)) goto failed;
        if (w->tier == 0 && (start_roots(w, objects, PyBytes_AS_STRING(tiers), LATE) || run(w))) goto failed;
    }
    size_t reached = w->tail, edges = w->edges;
    start[3] = start[4] = reached;
    if (PyTuple_GET_SIZE(targets)) {
        if (!(kept = PyList_New(0))) goto failed;
        w->mode = RETAIN;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(targets); i++) {
            size_t first = w->n_found;
            w->kept_count = w->kept_bytes = 0;
            if (push(w, PyTuple_GET_ITEM(targets, i), NULL, NONE, 0) || run(w)) goto failed;
            PyObject *list = PyList_New((Py_ssize_t)(w->n_found - first));
            if (!list) goto failed;
            for (size_t j = first; j < w->n_found; j++)
                PyList_SET_ITEM(list, (Py_ssize_t)(j - first), Py_NewRef(w->obj[w->found[j]]));
            PyObject *one = Py_BuildValue("(LLN)", (long long)w->kept_count, (long long)w->kept_bytes, list);
            if (!one || PyList_Append(kept, one)) {
                Py_XDECREF(one);
                goto failed;
            }
            Py_DECREF(one);
            w->n_found = first;
        }
    }
    if (all) {
        w->mode = HIDDEN;
        if (mark(w, all) < 0 || start_all(w, cut) || mark(w, args) < 0 || push(w, args, NULL, NONE, 0) || run(w)) goto failed;
        start[3] = start[4] = w->tail;
        if (split_unreached(w, all, &start[4])) goto failed;
        PyObject *native = types_result(w, 0), *garbage = native ? types_result(w, 1) : NULL;
        if (!garbage) {
            Py_XDECREF(native);
            goto failed;
        }
        if (!(unreached = Py_BuildValue("(NN)", native, garbage))) goto failed;
    }
    if (!(found = found_result(w, start))) goto failed;
    if (want & WANT_GROUPS && !(groups = groups_result(w))) goto failed;
    result = Py_BuildValue("(nnnOOOO)", (Py_ssize_t)reached, (Py_ssize_t)edges, (Py_ssize_t)(w->peak + sizeof(Walk)),
                           groups ? groups : Py_None, found, unreached ? unreached : Py_None, kept ? kept : Py_None);
failed:
    if (!result && !PyErr_Occurred()) PyErr_NoMemory();
    free_walk(w);
    Py_XDECREF(groups);
    Py_XDECREF(found);
    Py_XDECREF(unreached);
    Py_XDECREF(kept);
    Py_XDECREF(all);
    if (collecting) PyGC_Enable();
    return result;
}

PyDoc_STRVAR(array_facts_doc, "array_facts(array) -> (base or None, first object of an object array or None): the self-test.");

static PyObject *array_facts(PyObject *self, PyObject *o)
{
    (void)self;
    Array *a = (Array *)o;
    if (Py_TYPE(o)->tp_basicsize < (Py_ssize_t)sizeof(Array)) {
        PyErr_SetString(PyExc_TypeError, "not an array of the known layout");
        return NULL;
    }
    PyObject *first = NULL;
    array_objects(a, take_first, &first);
    return Py_BuildValue("(OO)", a->base ? a->base : Py_None, first ? first : Py_None);
}

PyDoc_STRVAR(fork_doc, "fork() -> pid, as os.fork; without its warning in programs with threads (Python 3.12) and without the\n"
             "at-fork hooks of the parent. In the child the threading.local data of the other threads stay alive, and its\n"
             "standard streams lead nowhere.");

static PyObject *fork_(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    /* None of the program's at-fork hooks before the fork or in the parent: a lock that one of them takes may be held by
     * the very code that turns the cycle. The child's own streams are silent: its hooks may print. From 3.13 the child's
     * half gives back locks that the parent's half takes, so there both are run, hooks and all. */
#if PY_VERSION_HEX >= 0x030D0000
    PyOS_BeforeFork();
#endif
    pid_t pid = fork();
    if (pid == 0) {
        /* The child's interpreter drops the states of all other threads, and their threading.local data with them.
         * One reference more to each state's dict keeps what the program's threads hold alive for the walk. */
        int nowhere = open("/dev/null", O_RDWR);
        if (nowhere >= 0) {
            for (int stream = 0; stream < 3; stream++) dup2(nowhere, stream);
            if (nowhere > 2) close(nowhere);
        }
        PyThreadState *own = PyThreadState_Get();
        for (PyThreadState *t = PyInterpreterState_ThreadHead(own->interp); t; t = PyThreadState_Next(t))
            if (t != own) Py_XINCREF(t->dict);
        PyOS_AfterFork_Child();
    }
#if PY_VERSION_HEX >= 0x030D0000
    else {
        int error = errno;
        PyOS_AfterFork_Parent();
        errno = error;
    }
#endif
    if (pid < 0) return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromPid(pid);
}

static PyMethodDef methods[] = {
    {"walk", walk, METH_VARARGS, walk_doc},
    {"array_facts", array_facts, METH_O, array_facts_doc},
    {"fork", fork_, METH_NOARGS, fork_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure.probes._heap", "The object-graph walk in C.", -1, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__heap(void)
{
    if (!(str_module = PyUnicode_InternFromString("__module__"))) return NULL;
    for (int i = 0; i < ORDINALS; i++)
        if (!(ordinal_label[i] = PyUnicode_FromFormat("#%d", i))) return NULL;
    PyObject *gc = PyImport_ImportModule("gc");
    if (!gc) return NULL;
    gc_get_objects = PyObject_GetAttrString(gc, "get_objects");
    Py_DECREF(gc);
    if (!gc_get_objects) return NULL;
    return PyModule_Create(&module);
}
