/* Any bytes: a profile or a reason; every type's model gives positive, finite speeds. */
#include "advise/model.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct profile profile = {0};
    struct err err = {0};
    if (profile_add_csv(&profile, "fuzz", (const char *)bytes, size, &err) != ERR_OK) {
        CHECK(strncmp(err.text, "fuzz:", 5) == 0);
    }
    for (size_t i = 0; i < profile.count && i < 20; i++) {
        static struct model model;
        for (int mode = PROFILE_SYNC; mode <= PROFILE_ALLREDUCE; mode++) {
            if (model_fit(&profile, profile.runs[i].type, (enum profile_mode)mode, 450, &model,
                          &err) != ERR_OK) {
                continue;
            }
            struct model_setting setting = {.workers = 1 + (uint32_t)i, .servers = 2};
            struct model_speed speed = model_predict(&model, &setting);
            CHECK(speed.steps_per_s >= 0);
            CHECK(isfinite(speed.log_sd));
        }
    }
    profile_release(&profile);
    return 0;
}
