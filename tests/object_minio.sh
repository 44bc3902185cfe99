#!/bin/bash
# timeout: 300
# The S3 driver of src/object, with a second server: MinIO.
S3_SERVER=minio
. "$(dirname "$0")/object_s3.sh"
