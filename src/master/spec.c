#include "master/spec.h"

#include "base/mem.h"
#include "wire/wire.h"

#include <stdio.h>

/* What a recipe may ask for is what a node may have. */
_Static_assert((int)RECIPE_LABELS_MAX == (int)WIRE_LABELS_MAX, "labels");
_Static_assert((int)RECIPE_LABEL_MAX == (int)WIRE_LABEL_BYTES_MAX, "bytes of a label");

static void fill_needs(const struct hardware *hardware, bool ignore_hardware,
                       struct core_resources *out)
{
    *out = (struct core_resources){.cpu_milli = ignore_hardware ? 1000 : hardware->cpu_milli};
    if (ignore_hardware) {
        return;
    }
    out->memory_bytes = hardware->memory_bytes;
    out->disk_bytes = hardware->disk_bytes;
    out->gpus = hardware->gpus;
    if (hardware->gpu_kind) {
        snprintf(out->gpu_kind, sizeof out->gpu_kind, "%s", hardware->gpu_kind);
    }
}

void spec_fill(const struct recipe *recipe, bool ignore_hardware, struct core_experiment_spec *out)
{
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct experiment *from = &recipe->experiments[e];
        out[e] = (struct core_experiment_spec){.task_count = from->task_count,
                                               .searched = from->search != NULL,
                                               .workers = from->workers,
                                               .depends_on = from->depends_on,
                                               .depends_count = from->depends_count,
                                               .allow_failure = from->allow_failure,
                                               .retries = from->retries,
                                               .backoff_ms = from->backoff_ms,
                                               .max_failures = from->max_failures,
                                               .crash_limit = from->crash_limit,
                                               .gang = from->gang};
        if (!ignore_hardware) {
            out[e].labels.items = from->hardware.labels;
            out[e].labels.count = from->hardware.label_count;
        }
        fill_needs(&from->hardware, ignore_hardware, &out[e].needs);
    }
}

void spec_define(struct core *core, uint32_t number, const struct recipe *recipe, uint64_t seed,
                 bool ignore_hardware)
{
    AUTO_FREE struct core_experiment_spec *specs =
        mem_array(recipe->experiment_count, sizeof *specs);
    spec_fill(recipe, ignore_hardware, specs);
    struct core_workflow_spec spec = {.seed = seed,
                                      .priority = recipe->priority,
                                      .experiments = specs,
                                      .experiment_count = recipe->experiment_count};
    core_define(core, number, &spec);
}
