#!/bin/sh
# usage: train.sh KIND LR L2 EPOCHS POINTS_FOLDER OUTPUT_FOLDER - learns from shards 0 to 5, judges
# by 6 and 7; leaves OUTPUT_FOLDER/model and OUTPUT_FOLDER/score.
set -eu
kind=$1 lr=$2 l2=$3 epochs=$4 points=$5 output=$6

lost_at=
if [ "$DROVER_ATTEMPT" -eq 1 ]; then
    lost_at=${LOST_AT:-}
fi
exec awk -v kind="$kind" -v lr="$lr" -v l2="$l2" -v epochs="$epochs" \
    -v model="$output/model" -v score="$output/score" \
    -v checkpoint="${DROVER_CHECKPOINT:+$DROVER_CHECKPOINT/weights}" -v lost_at="$lost_at" \
    -f pipeline/features.awk -f pipeline/train.awk \
    "$points/0/points" "$points/1/points" "$points/2/points" "$points/3/points" \
    "$points/4/points" "$points/5/points" valid "$points/6/points" "$points/7/points"
