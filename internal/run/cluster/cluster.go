// Package cluster writes the jobs that run a command in parts over many hosts, as texts that
// people can read and edit: a script for Slurm, a manifest for Kubernetes.
package cluster

import (
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"
)

// A Job is a run in parts, and the report that makes one run of them.
type Job struct {
	Name    string
	Program string   // optool
	Command []string // the command with its flags and PATHs; which part, and where, is added
	Run     string   // directory of the run
	Report  []string // flags of the report
	Parts   int
	CPUs    int           // of a part
	Memory  int64         // of a part, in bytes; a tenth of it is not optool's to use
	Time    time.Duration // most that a part may take
	Retries int           // of a part that was stopped or killed
	About   []string      // lines that say what the limits were made of
}

// reserve is the part of the memory that is left to what optool does not count: its program,
// files that are mapped, the scheduler's own.
const reserve = 10

// OptoolMemory is the value of --memory for a part.
func (j *Job) OptoolMemory() int64 { return j.Memory - j.Memory/reserve }

// SlurmOptions are what only Slurm wants.
type SlurmOptions struct {
	Dir       string              // where the job is run
	Partition string              // "" for the default one
	Further   []string            // options of sbatch
	Quote     func(string) string // for a shell
}

const slurm = `#!/bin/bash
{{range .About}}# {{.}}
{{end -}}
#
# "bash THIS-FILE" submits the parts, and the report, which runs when all of them have ended;
# options for sbatch may follow. A part that is stopped at its time limit, or killed, goes on
# where it was, up to {{.Retries}} times. Submit the file again to go on with what has not ended.
#SBATCH --job-name={{.Name}}
#SBATCH --array=1-{{.Parts}}
{{- if .Partition}}
#SBATCH --partition={{.Partition}}{{end}}
#SBATCH --cpus-per-task={{.CPUs}}
#SBATCH --mem={{.MiB}}M
#SBATCH --time={{.Limit}}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
#SBATCH --chdir={{.Dir}}
#SBATCH --output={{.Log}}
{{- range .Further}}
#SBATCH {{.}}{{end}}

run={{.RunQuoted}}

if [ -z "${SLURM_ARRAY_TASK_ID-}" ]; then
	mkdir -p "$run/logs" || exit
	parts=$(sbatch --parsable "$@" "$0") || exit
	sbatch --job-name={{.Name}}-report --dependency=afterany:"${parts%%;*}" \
{{- if .Partition}}
		--partition={{.Partition}} \{{end}}
		--cpus-per-task=1 --mem={{.MiB}}M --time={{.Limit}} --chdir={{.DirQuoted}} \
		--output="$run/logs/report.log" "$@" <<'END'
#!/bin/bash
exec {{.ReportLine}}
END
	exit
fi

{{.PartLine}} \
	--run "$run" --shard "$SLURM_ARRAY_TASK_ID/{{.Parts}}" --resume --exit-zero \
	--jobs "${SLURM_CPUS_PER_TASK:-{{.CPUs}}}" --memory {{.OptoolMemory}} &
trap 'kill -TERM $!' TERM # a minute before the time limit: what is finished is saved
wait $!
code=$?
while [ $code -ge 128 ] && kill -0 $! 2>/dev/null; do # the signal ended the wait, not optool
	wait $!
	code=$?
done
if [ $code -ge 128 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt {{.Retries}} ]; then
	scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit $code
`

// Slurm writes a script that is both: what submits the job, and what each part runs.
func Slurm(w io.Writer, j *Job, o SlurmOptions) error {
	line := func(words ...string) string {
		quoted := make([]string, len(words))
		for i, word := range words {
			quoted[i] = o.Quote(word)
		}
		return strings.Join(quoted, " ")
	}
	minutes := int((j.Time + time.Minute - 1) / time.Minute)
	return template.Must(template.New("").Parse(slurm)).Execute(w, struct {
		*Job
		SlurmOptions
		MiB                                                         int64
		Limit, Log, RunQuoted, DirQuoted, ReportLine, PartLine, Dir string
	}{j, o, j.Memory >> 20, fmt.Sprintf("%02d:%02d:00", minutes/60, minutes%60), directive(j.Run+"/logs/part-", "%a.log"),
		o.Quote(j.Run), o.Quote(o.Dir), line(append(append([]string{j.Program, "report"}, j.Report...), j.Run)...),
		line(append([]string{j.Program}, j.Command...)...), directive(o.Dir, "")})
}

// directive quotes a path and a pattern after it for a line of #SBATCH, where a percent sign
// begins a pattern.
func directive(path, pattern string) string {
	path = strings.ReplaceAll(path, "%", "%%") + pattern
	if strings.ContainsAny(path, " '\"\\#") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
	}
	return path
}
