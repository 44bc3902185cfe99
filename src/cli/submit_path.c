#include "base/mem.h"
#include "cli/submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void submit_add_path(struct str *path, const struct submit *submit, const char *code)
{
    str_add(path, "/api/v1/workflows");
    remote_add_query(path, "folder", submit->folder);
    remote_add_query(path, "file", submit->file);
    if (code[0]) {
        remote_add_query(path, "code", code);
    }
    if (submit->seed) {
        char number[24];
        snprintf(number, sizeof number, "%" PRIu64, *submit->seed);
        remote_add_query(path, "seed", number);
    }
    for (size_t i = 0; i < submit->set_count; i++) {
        remote_add_query(path, "set", submit->sets[i]);
    }
    if (submit->volumes && submit->volumes[0]) {
        remote_add_query(path, "volumes", submit->volumes);
    }
    if (submit->no_containers) {
        remote_add_query(path, "no_containers", "1");
    }
    if (submit->ignore_hardware) {
        remote_add_query(path, "ignore_hardware", "1");
    }
}

char *submit_workdir(const struct remote *remote, const char *wish)
{
    static const char *const near[] = {"://127.", "://localhost", "://[::1]"};
    if (wish) {
        return mem_strdup(wish);
    }
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        AUTO_FREE char *here = strstr(remote->url, near[i]) ? realpath(".", NULL) : NULL;
        if (here) {
            return mem_strdup(here);
        }
    }
    return mem_strdup("/");
}
