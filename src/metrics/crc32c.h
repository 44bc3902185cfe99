/* crc32c.h - the checksum of TensorBoard's files (Castagnoli's polynomial), and its mask.
 *
 * Uses the processor's instruction where it has one; both ways give the same number. Pure. */
#ifndef METRICS_CRC32C_H
#define METRICS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc`, 0 at the beginning: crc32c(crc32c(0, a), b) is that of a and b together. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size);

/* As it is stored: so that a checksum of bytes that hold checksums is not a weak one. */
uint32_t crc32c_masked(uint32_t crc);

/* For the tests: without the instruction. */
uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t size);

#endif
