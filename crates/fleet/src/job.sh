#!/bin/bash
# The steps of one drive of a flashproof campaign. Slurm runs this script once for each task of the array.
@PROGRAM@ fleet task @DIR@ $((SLURM_ARRAY_TASK_ID + @FIRST@)) &
task=$!
trap 'kill -TERM $task 2>/dev/null' TERM
# A trapped signal ends the wait, not the task.
while wait $task; code=$?; kill -0 $task 2>/dev/null; do :; done
# The task was stopped (75) or killed: requeue the job, which resumes it. The controller may be down for a while, so a
# failed requeue is repeated. A successful requeue ends this script.
if (( code == 75 || code > 128 )) && (( ${SLURM_RESTART_COUNT:-0} < @REQUEUES@ )); then
    for _ in {1..60}; do
        scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" && sleep 60 && break
        sleep 10
    done
fi
exit $code
