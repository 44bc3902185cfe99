#include "recipe/recipe_build.h"

#include <ctype.h>
#include <string.h>

enum { GPUS_MAX = 1024, CPU_MAX = 100000, GPU_KIND_MAX = 64 };

static void read_cpu(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    double cpus = 0;
    if (!yaml_as_double(node, &cpus) || !(cpus >= 0.001 && cpus <= CPU_MAX)) {
        diag_add(build->diags, node->line, node->column,
                 "cpu must be a number of processors such as 4 or 0.5, from 0.001 to %d", CPU_MAX);
        return;
    }
    experiment->hardware.cpu_milli = (uint32_t)(cpus * 1000 + 0.5);
}

static void read_memory(struct build *build, struct experiment *experiment,
                        const struct ynode *node)
{
    build_size(build, node, "memory", &experiment->hardware.memory_bytes);
}

static void read_disk(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    build_size(build, node, "disk", &experiment->hardware.disk_bytes);
}

static void read_spot(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    build_bool(build, node, "spot", &experiment->hardware.spot);
}

static void read_gpu_count(struct build *build, struct experiment *experiment,
                           const struct ynode *node)
{
    uint64_t count = 0;
    if (build_count(build, node, "the number of gpus", 0, GPUS_MAX, &count)) {
        experiment->hardware.gpus = (uint32_t)count;
    }
}

static void read_gpu_kind(struct build *build, struct experiment *experiment,
                          const struct ynode *node)
{
    const char *text = build_text(build, node, "gpu");
    if (!text) {
        return;
    }
    char *kind = arena_strdup(build->arena, text);
    for (char *at = kind; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at)) {
            diag_add(build->diags, node->line, node->column,
                     "gpu must be a kind such as k80 or a number, not '%.60s'", text);
            return;
        }
        *at = (char)tolower((unsigned char)*at);
    }
    if (node->size > GPU_KIND_MAX) {
        diag_add(build->diags, node->line, node->column, "the kind of gpu is too long");
        return;
    }
    experiment->hardware.gpu_kind = kind;
}

static void read_gpu(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    static const struct build_key keys[] = {
        {"kind", read_gpu_kind}, {"count", read_gpu_count}, {NULL, NULL}};
    int64_t number = 0;
    if (node->kind == YNODE_MAPPING) {
        build_read_keys(build, experiment, node, keys);
    } else if (!yaml_as_i64(node, &number)) {
        read_gpu_kind(build, experiment, node);
    } else if (number > GPUS_MAX) {
        diag_add(build->diags, node->line, node->column,
                 "gpu: %.20s asks for that many gpus; put quotes round it if it is a kind",
                 node->text);
    } else {
        read_gpu_count(build, experiment, node);
    }
}

static bool label_is_valid(const char *label)
{
    size_t size = 0;
    for (; label[size]; size++) {
        if (size >= RECIPE_LABEL_MAX || label[size] <= ' ' || label[size] > '~') {
            return false;
        }
    }
    return size > 0 && !strstr(label, "{{");
}

static void add_label(struct build *build, struct hardware *hardware, const struct ynode *node)
{
    const char *label = build_text(build, node, "a label");
    if (label && !label_is_valid(label)) {
        diag_add(build->diags, node->line, node->column,
                 "a label is a word such as fast or zone=a, of at most %d bytes, unlike '%.70s'",
                 RECIPE_LABEL_MAX, label);
    } else if (label) {
        hardware->labels[hardware->label_count++] = label;
    }
}

static void read_labels(struct build *build, struct experiment *experiment,
                        const struct ynode *node)
{
    struct hardware *hardware = &experiment->hardware;
    bool is_list = node->kind == YNODE_SEQUENCE;
    size_t count = is_list ? node->count : 1;
    if (node->kind == YNODE_MAPPING) {
        diag_add(build->diags, node->line, node->column,
                 "labels must be a word or a list of them, such as [fast, zone=a]");
        return;
    }
    if (count > RECIPE_LABELS_MAX) {
        diag_add(build->diags, node->line, node->column, "more than %d labels", RECIPE_LABELS_MAX);
        return;
    }
    hardware->labels = arena_alloc(build->arena, count * sizeof *hardware->labels);
    for (size_t i = 0; i < count; i++) {
        add_label(build, hardware, is_list ? node->items[i] : node);
    }
}

/* gpus is read last: what it means depends on gpu. */
static const struct build_key hardware_keys[] = {
    {"cpu", read_cpu}, {"memory", read_memory}, {"disk", read_disk},     {"gpu", read_gpu},
    {"gpus", NULL},    {"spot", read_spot},     {"labels", read_labels}, {NULL, NULL},
};

static bool says_count(const struct ynode *gpu)
{
    int64_t number = 0;
    return gpu && (yaml_as_i64(gpu, &number) || yaml_get(gpu, "count"));
}

void build_hardware(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    struct hardware *hardware = &experiment->hardware;
    if (node->kind != YNODE_MAPPING) {
        diag_add(build->diags, node->line, node->column,
                 "hardware must be a mapping such as {cpu: 4, memory: 8GB, gpu: k80}");
        return;
    }
    build_read_keys(build, experiment, node, hardware_keys);
    const struct ynode *gpus = yaml_get(node, "gpus");
    const struct ynode *gpu = yaml_get(node, "gpu");
    bool counted = says_count(gpu);
    if (gpus && counted) {
        diag_add(build->diags, gpus->line, gpus->column,
                 "gpu: says how many already; leave out one of gpu: and gpus:");
    } else if (gpus) {
        read_gpu_count(build, experiment, gpus);
    } else if (!counted && hardware->gpu_kind) {
        hardware->gpus = 1;
    }
    if (hardware->gpu_kind && (gpus || counted) && hardware->gpus == 0) {
        const struct ynode *at = gpus ? gpus : gpu;
        diag_add(build->diags, at->line, at->column, "a kind of gpu is asked for, but none of it");
    }
}
