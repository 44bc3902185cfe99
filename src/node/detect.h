/* detect.h - the parts of node_detect that can be tested without the hardware. */
#ifndef NODE_DETECT_H
#define NODE_DETECT_H

#include <stddef.h>

/* The kind that recipes use for a GPU's full name: "Tesla V100-SXM2-16GB" gives "v100",
 * "NVIDIA GeForce RTX 3090" gives "rtx-3090". */
void detect_gpu_kind(const char *name, char *out, size_t out_size);

#endif
