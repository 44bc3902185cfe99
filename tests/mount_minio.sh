#!/bin/bash
# timeout: 300
# A volume in S3, with a second server: MinIO.
S3_SERVER=minio
. "$(dirname "$0")/mount_s3.sh"
