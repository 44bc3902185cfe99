/* conformance.h - what every provider must do. For tests. */
#ifndef PROVIDER_CONFORMANCE_H
#define PROVIDER_CONFORMANCE_H

#include "provider/provider.h"

struct conformance_driver {
    /* An empty provider; node names beginning with "deaf" take no notice of PROVIDER_ASK. */
    struct provider *(*create)(void);
    /* Waits until the node is at work (a node that just begins may not be deaf yet). */
    void (*settle)(const char *name);
    /* Makes the node end by itself. */
    void (*crash)(struct provider *provider, const char *name);
};

void conformance_run(const struct conformance_driver *driver);

#endif
