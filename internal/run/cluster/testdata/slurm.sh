#!/bin/bash
# optool-replay of 8 calls, 3 GiB, in 8 parts.
#
# "bash THIS-FILE" submits the parts, and the report, which runs when all of them have ended;
# options for sbatch may follow. A part that is stopped at its time limit, or killed, goes on
# where it was, up to 3 times. Submit the file again to go on with what has not ended.
#SBATCH --job-name=optool-replay
#SBATCH --array=1-8
#SBATCH --partition=cpu
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
#SBATCH --time=01:30:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
#SBATCH --chdir=/data
#SBATCH --output="/data/checked 100%%/logs/part-%a.log"
#SBATCH --account=mine

run='/data/checked 100%'

if [ -z "${SLURM_ARRAY_TASK_ID-}" ]; then
	mkdir -p "$run/logs" || exit
	parts=$(sbatch --parsable "$@" "$0") || exit
	sbatch --job-name=optool-replay-report --dependency=afterany:"${parts%%;*}" \
		--partition=cpu \
		--cpus-per-task=1 --mem=8192M --time=01:30:00 --chdir=/data \
		--output="$run/logs/report.log" "$@" <<'END'
#!/bin/bash
exec /opt/optool report '--html=/data/checked 100%/run.html' '/data/checked 100%'
END
	exit
fi

/opt/optool replay --acc_check '--where=dtype == "float16"' /data/tree \
	--run "$run" --shard "$SLURM_ARRAY_TASK_ID/8" --resume --exit-zero \
	--jobs "${SLURM_CPUS_PER_TASK:-4}" --memory 7730941133 &
trap 'kill -TERM $!' TERM # a minute before the time limit: what is finished is saved
wait $!
code=$?
while [ $code -ge 128 ] && kill -0 $! 2>/dev/null; do # the signal ended the wait, not optool
	wait $!
	code=$?
done
if [ $code -ge 128 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
	scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit $code
