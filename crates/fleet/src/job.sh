#!/bin/bash
# The steps of one drive of a flashproof campaign. Slurm runs this script once for each task of the array.
job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
echo "job $job begins on $SLURMD_NODENAME"
if ! command -v @PROGRAM@ >/dev/null; then
    echo "cannot run "@PROGRAM@" - there is no such program on this node - set program under [slurm] in campaign.toml"
    exit 127
fi
@PROGRAM@ fleet task @DIR@ $((SLURM_ARRAY_TASK_ID + @FIRST@)) &
task=$!
trap 'kill -TERM $task 2>/dev/null' TERM
# A trapped signal ends the wait, not the task.
while wait $task; code=$?; kill -0 $task 2>/dev/null; do :; done
# The task was stopped (75) or killed: requeue the job, which resumes it. The controller may be down for a while, so a
# failed requeue is repeated. A successful requeue ends this script. A job that Slurm ends for another reason than the
# time limit or a preemption was cancelled by a user, or is requeued by Slurm.
if (( code == 75 || code > 128 )) && (( ${SLURM_RESTART_COUNT:-0} < @REQUEUES@ )); then
    for _ in {1..60}; do
        case $(scontrol -o show job "$job") in
            *JobState=RUNNING* | *Reason=TimeLimit* | *PreemptTime=[0-9]*) scontrol requeue "$job" && sleep 60 && break ;;
            *JobState=*) break ;;
        esac
        sleep 10
    done
fi
exit $code
