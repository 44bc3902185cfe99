#include "mount/spin.h"

void spin_served(struct spin *spin, int64_t now_us)
{
    if (spin->is_on) {
        spin->calm_length_us = 0;
    }
    spin->is_on = false;
    spin->last_us = now_us;
}

bool spin_goes_on(struct spin *spin, int64_t now_us)
{
    bool was_on = spin->is_on;

    spin->is_on = now_us >= spin->calm_us && now_us - spin->last_us < SPIN_US;
    if (was_on && !spin->is_on) {
        int64_t length_us = spin->calm_length_us * 2;
        length_us = length_us > SPIN_CALM_MIN_US ? length_us : SPIN_CALM_MIN_US;
        spin->calm_length_us = length_us < SPIN_CALM_MAX_US ? length_us : SPIN_CALM_MAX_US;
        spin->calm_us = now_us + spin->calm_length_us;
    }
    return spin->is_on;
}
