/* object_s3_metadata.h - credentials from the metadata server of a container or an instance.
 *
 * The fetch is a few exchanges on the store's pump, one after another, with short timeouts: where
 * there is no such server nobody should have to wait for it.
 */
#ifndef OBJECT_OBJECT_S3_METADATA_H
#define OBJECT_OBJECT_S3_METADATA_H

#include "object/object_s3_credentials.h"
#include "object/object_s3_pump.h"

struct s3_metadata {
    struct s3_exchange exchange; /* first: `done` of an exchange finds us by it */
    struct s3_pump *pump;
    void (*done)(struct s3_metadata *metadata); /* code, err and credentials are set */
    void *context;
    bool is_busy;
    enum err_code code;
    struct err err;
    struct s3_credentials credentials; /* the caller's to take */

    /* Its own. */
    void (*step)(struct s3_metadata *metadata); /* what the next answer is for */
    struct str base;                            /* http://169.254.169.254 */
    struct str url;
    struct str secret; /* the token that the server wants to see */
    struct s3_header header;
};

/* False: neither is to be expected here. */
bool s3_metadata_is_wanted(void);
void s3_metadata_start(struct s3_metadata *metadata);  /* pump and done are set */
void s3_metadata_cancel(struct s3_metadata *metadata); /* if busy; done is not called */
void s3_metadata_release(struct s3_metadata *metadata);

#endif
