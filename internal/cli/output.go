package cli

import (
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/reports"
)

// A jsonOutput is where --json FILE goes. Its methods do nothing if the flag
// was not given.
type jsonOutput struct {
	lines *reports.JSONLines
	file  *os.File // nil for standard output
	out   io.Writer
}

func addJSONFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "json", "",
		"also write JSON lines to `FILE`; - for standard output, which then holds nothing else")
}

// openJSON opens the file of --json and writes the first line.
func (a *app) openJSON(path, device string, settings ...*reports.Setting) (*jsonOutput, error) {
	run := a.run(device)
	run.Settings = settings
	return a.openJSONRun(path, run)
}

func (a *app) openJSONRun(path string, run reports.Run) (*jsonOutput, error) {
	j := &jsonOutput{out: a.Out}
	switch path {
	case "":
		return j, nil
	case "-":
		j.lines, j.out = reports.NewJSONLines(a.Out), io.Discard
	default:
		f, err := os.Create(path)
		if err != nil {
			return nil, failed(err)
		}
		j.file, j.lines = f, reports.NewJSONLines(f)
	}
	return j, failed(j.lines.Run(run))
}

// run is the first line of a run's records.
func (a *app) run(device string) reports.Run {
	host, _ := os.Hostname()
	return reports.Run{
		Command: append([]string{os.Args[0]}, a.args...), Version: version(),
		Host: host + " " + runtime.GOOS + "/" + runtime.GOARCH, Device: device, Start: time.Now(), Machine: machine(),
	}
}

// text is where tables for people go: standard output, unless JSON takes it.
func (j *jsonOutput) text() io.Writer { return j.out }

func (j *jsonOutput) result(r *reports.Result) error {
	if j.lines == nil {
		return nil
	}
	return j.lines.Result(r)
}

func (j *jsonOutput) summary(s *reports.Summary) error {
	if j.lines == nil {
		return nil
	}
	return j.lines.Summary(s)
}

// write writes a line of another kind.
func (j *jsonOutput) write(v any) error {
	if j.lines == nil {
		return nil
	}
	return j.lines.Write(v)
}

// close closes the file; the second time it does nothing.
func (j *jsonOutput) close() error {
	if j.file == nil {
		return nil
	}
	f := j.file
	j.file = nil
	return f.Close()
}
