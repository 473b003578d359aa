package cli

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/rundir"
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
	cmd.Flags().StringVar(&o.json, "json", "", "write JSON lines to `FILE`; - writes only them to standard output")
}

// A jsonOutput is where the records of a run go. Its methods do nothing if no flag
// asked for them.
type jsonOutput struct {
	lines   *reports.JSONLines
	dir     *runDir         // nil unless the run is kept in a directory
	journal *rundir.Journal // of dir, which lines go to
	ended   bool            // the run has come to its end
	marked  bool            // lines say where calls end, as those of a journal do
	path    string          // of file
	file    *os.File        // nil for standard output
	out     io.Writer
	temp    bool // the file is for the reports alone
	files   reportFiles
}

// openRecords opens what the flags name and writes the first line.
func (a *app) openRecords(o outputs, run reports.Run) (*jsonOutput, error) {
	return a.openRecordsIn(nil, o, run)
}

// openRecordsIn is openRecords for a run that is kept in a directory, unless that is nil.
func (a *app) openRecordsIn(d *runDir, o outputs, run reports.Run) (*jsonOutput, error) {
	if err := o.files.check(); err != nil {
		return nil, err
	}
	j := &jsonOutput{out: a.Out, dir: d, files: d.placed(o.files)}
	if d != nil && d.part != nil {
		run.Shard = d.part.String()
	}
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
	err := j.files.writable()
	switch {
	case err != nil:
	case o.json != "" && o.json != "-":
		j.file, err = os.Create(o.json)
	case o.files.any() && d == nil:
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
	if j.file != nil {
		j.path = j.file.Name()
	}
	if o.files.any() {
		a.reporting.owe(j.laterReports())
	}
	if d != nil {
		return j, failed(j.keep(w, run))
	}
	if w == nil {
		return j, nil
	}
	j.lines = reports.NewJSONLines(w)
	return j, failed(j.lines.Run(run))
}

// laterReports says how to write the reports if an interruption leaves them unwritten.
func (j *jsonOutput) laterReports() *string {
	how := "no report is written; with --json FILE, \"optool report FILE\" makes them of what was judged"
	switch {
	case j.dir != nil:
		how = "no report is written; \"" + program() + " report " + quotePath(j.dir.Root) + "\" with their flags makes them of what was judged"
	case j.file != nil && !j.temp:
		how = "no report is written; \"" + program() + " report " + quotePath(j.path) + "\" with their flags makes them of what was judged"
	}
	return &how
}

// keep has the lines go to the journal of the directory, and to w if it is not nil, which
// gets what is in the journal first.
func (j *jsonOutput) keep(w io.Writer, run reports.Run) (err error) {
	if w != nil && j.dir.Journal != nil {
		if err := j.dir.CopyTo(w); err != nil {
			return err
		}
	}
	if j.journal, err = j.dir.journal(); err != nil {
		return err
	}
	var lines io.Writer = j.journal
	if w != nil {
		lines = io.MultiWriter(w, lines)
	}
	j.lines = reports.NewJSONLines(lines)
	if j.dir.Journal != nil {
		return nil
	}
	return j.flush(j.lines.Run(run))
}

// done ends the results of a call: it is finished. It does nothing without a journal, unless
// the lines are marked.
func (j *jsonOutput) done(d *reports.Done) error {
	if j.journal == nil {
		if j.lines == nil || !j.marked {
			return nil
		}
		return j.lines.Done(d)
	}
	d.Elapsed = j.journal.Elapsed().Seconds()
	if err := j.lines.Done(d); err != nil {
		return err
	}
	return j.journal.Flush()
}

// elapsed is how long a run took that this process began at start, with the time that
// others spent on it.
func (j *jsonOutput) elapsed(start time.Time) time.Duration {
	if j.journal == nil {
		return time.Since(start)
	}
	return j.journal.Elapsed()
}

// flush has what was written last: nothing of it waits for the end of a call.
func (j *jsonOutput) flush(err error) error {
	if j.journal == nil || err != nil {
		return err
	}
	return j.journal.Flush()
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
	return j.flush(j.lines.Cause(c))
}

func (j *jsonOutput) profile(p *reports.Profile) error {
	if j.lines == nil {
		return nil
	}
	return j.flush(j.lines.Profile(p))
}

func (j *jsonOutput) summary(s *reports.Summary) error {
	if j.lines == nil {
		return nil
	}
	return j.flush(j.lines.Summary(s))
}

// write writes a line of another kind.
func (j *jsonOutput) write(v any) error {
	if j.lines == nil {
		return nil
	}
	return j.flush(j.lines.Write(v))
}

// end closes the file and writes the reports, as optool report would, from what was
// written.
func (j *jsonOutput) end(a *app) error { return j.endWith(a, nil, a.tellPages(j.files)) }

// endWith is end with tables of the run's own; it calls wrote with the name of each file.
func (j *jsonOutput) endWith(a *app, own []reports.Sheet, wrote func(path string)) error {
	if !j.files.any() {
		return cmp.Or(j.close(), j.dir.end(j.ended))
	}
	defer a.reporting.begin()()
	rec, err := j.recording()
	if err != nil {
		return err
	}
	defer rec.Close()
	if err := writeReports(a.Out, rec, own, j.files, wrote); err != nil {
		return errors.Join(err, j.close())
	}
	a.reporting.owe(nil)
	return cmp.Or(j.close(), j.dir.end(j.ended))
}

// recording is what was written, read back.
func (j *jsonOutput) recording() (*reports.Recording, error) {
	if j.dir != nil {
		return j.dir.recording()
	}
	return reports.ReadRecording(j.file)
}

// close closes the files; the second time it does nothing.
func (j *jsonOutput) close() error {
	if j.journal != nil {
		journal := j.journal
		j.journal, j.lines = nil, nil
		if err := journal.Close(); err != nil {
			return err
		}
	}
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

// ownResults is where op_tools' files go whose place in the working directory is that of recordings.
const ownResults = "optool-results"

// resultsDir is the directory below which op_tools_results is written by default: the working directory,
// unless that would write into the recordings under paths.
func resultsDir(paths []string) string {
	target, err := filepath.Abs("op_tools_results")
	if err != nil {
		return "."
	}
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil || files.Remote(path) {
			continue
		}
		down, err1 := filepath.Rel(abs, target)
		up, err2 := filepath.Rel(target, abs)
		if err1 == nil && filepath.IsLocal(down) || err2 == nil && filepath.IsLocal(up) {
			return ownResults
		}
	}
	return "."
}
