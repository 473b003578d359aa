package cli

import (
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/reports"
)

// An outputs is the flags that say where the records of a run go besides the terminal.
type outputs struct {
	json  string
	files reportFiles
}

// addFlags adds --json and, for records that reports can be made of, their formats.
func (o *outputs) addFlags(cmd *cobra.Command) {
	o.addJSON(cmd)
	o.files.addFlags(cmd)
}

func (o *outputs) addJSON(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.json, "json", "",
		"also write JSON lines to `FILE`; - for standard output, which then holds nothing else")
}

// A jsonOutput is where the records of a run go. Its methods do nothing if no flag
// asked for them.
type jsonOutput struct {
	lines *reports.JSONLines
	path  string   // of file
	file  *os.File // nil for standard output
	out   io.Writer
	temp  bool // the file is for the reports alone
	files reportFiles
}

// openRecords opens what the flags name and writes the first line.
func (a *app) openRecords(o outputs, run reports.Run) (*jsonOutput, error) {
	if err := o.files.check(); err != nil {
		return nil, err
	}
	j := &jsonOutput{out: a.Out, files: o.files}
	var w io.Writer
	if o.json == "-" {
		w, j.out = a.Out, io.Discard
		if o.files.stdout() {
			return nil, usageError("more than one file is -, standard output")
		}
	}
	if o.files.stdout() {
		j.out = io.Discard
	}
	var err error
	switch {
	case o.json != "" && o.json != "-":
		j.file, err = os.Create(o.json)
	case o.files.any():
		j.temp = true
		j.file, err = os.CreateTemp("", "optool-*.jsonl")
	}
	switch {
	case err != nil:
		return nil, failed(err)
	case j.file != nil && w != nil:
		w = io.MultiWriter(w, j.file)
	case j.file != nil:
		w = j.file
	}
	if w == nil {
		return j, nil
	}
	if j.file != nil {
		j.path = j.file.Name()
	}
	j.lines = reports.NewJSONLines(w)
	return j, failed(j.lines.Run(run))
}

// run is the first line of a run's records.
func (a *app) run(device string, settings ...*reports.Setting) reports.Run {
	host, _ := os.Hostname()
	return reports.Run{
		Command: append([]string{os.Args[0]}, a.args...), Version: version(),
		Host: host + " " + runtime.GOOS + "/" + runtime.GOARCH, Device: device, Start: time.Now(), Machine: machine(),
		Settings: settings, Config: a.config,
	}
}

// text is where tables for people go: standard output, unless a file takes it.
func (j *jsonOutput) text() io.Writer { return j.out }

func (j *jsonOutput) result(r *reports.Result) error {
	if j.lines == nil {
		return nil
	}
	return j.lines.Result(r)
}

func (j *jsonOutput) cause(c *reports.Cause) error {
	if j.lines == nil {
		return nil
	}
	return j.lines.Cause(c)
}

func (j *jsonOutput) profile(p *reports.Profile) error {
	if j.lines == nil {
		return nil
	}
	return j.lines.Profile(p)
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

// end closes the file and writes the reports, as optool report would, from what was
// written.
func (j *jsonOutput) end(a *app) error { return j.endWith(a, nil, func(string) {}) }

// endWith is end with tables of the run's own; it calls wrote with the name of each file.
func (j *jsonOutput) endWith(a *app, own []reports.Sheet, wrote func(path string)) error {
	if !j.files.any() {
		return j.close()
	}
	_, err := j.file.Seek(0, io.SeekStart)
	if err != nil {
		return err
	}
	rec, err := reports.ReadRecording(j.file)
	if err != nil {
		return err
	}
	if err := writeReports(a.Out, rec, own, j.files, wrote); err != nil {
		return err
	}
	return j.close()
}

// close closes the file; the second time it does nothing.
func (j *jsonOutput) close() error {
	if j.file == nil {
		return nil
	}
	f := j.file
	j.file = nil
	if j.temp {
		defer os.Remove(j.path)
	}
	return f.Close()
}
