/* outputs.h - {{x.output}}: a folder of links to what accepted attempts left.
 *
 * FOLDER/outputs/EXPERIMENT/INDEX -> ../../attempts/EXPERIMENT/K/INDEX.ATTEMPT. The facts are the
 * truth; the links follow them and are put right when a run is resumed.
 */
#ifndef MASTER_OUTPUTS_H
#define MASTER_OUTPUTS_H

#include "core/core.h"
#include "master/flow.h"

/* Makes or replaces one link. On failure (a full disk) there may be none. */
MUST_USE enum err_code outputs_link(const char *folder, const char *experiment, uint64_t task,
                                    uint32_t attempt, struct err *err);

enum outputs_age {
    OUTPUTS_NEW,     /* nothing was ever accepted */
    OUTPUTS_ALONE,   /* resumed, and no attempt outlived the master before */
    OUTPUTS_ADOPTING /* resumed, and nodes may come back with what they run */
};

/* Makes every experiment's folder, and where the flow was resumed makes or corrects the links of
 * accepted tasks and removes links and attempt folders of others. */
MUST_USE enum err_code outputs_repair(const struct core *core, const struct flow *flow,
                                      enum outputs_age age, struct err *err);

#endif
