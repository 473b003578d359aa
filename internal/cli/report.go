package cli

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/overflow"
	"github.com/optool/optool/reports/rundir"
	"github.com/optool/optool/timing"
)

type reportOptions struct {
	wait   time.Duration
	tables bool
	sort   order
	files  reportFiles
	json   string
	known  knownFile
}

func newReportCmd(a *app) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Write reports of a finished run",
		Long: `report prints the findings and the summary of a run again, and writes them in other
formats; --json merges the parts of a run into one file. RUN is a file of JSON lines that --json wrote (- is standard input), or one or
more directories of --run with the parts of one run. It reports a run that was killed
as far as it got, and names the parts that are missing.

The exit codes are those of the run; 130 if the run did not end. With --known they are
those that the run would have had with this list.`,
		Example: `  optool replay --json run.jsonl op_tools_results
  optool report run.jsonl
  optool report --html run.html --xlsx run.xlsx run.jsonl
  optool report --quiet --junit junit.xml --markdown comment.md run.jsonl
  optool report --html run.html finished
  optool report --json run.jsonl finished
  optool report --known known.txt --json run.jsonl run.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("report: want one RUN, got 0")
			}
			for _, arg := range args {
				if len(args) > 1 && !rundir.Is(arg) {
					return usageError("report: want one RUN, or directories with the parts of one, got %s", arg)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.await(cmd.Context(), args); err != nil {
				return err
			}
			return a.report(&o, args...)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.wait, "wait", 0, "wait up to this `TIME` until all parts of the run have ended")
	f.BoolVar(&o.tables, "tables", false, "print every capture, with op_tools' table")
	o.sort.addFlag(cmd)
	f.StringVar(&o.json, "json", "", "write the run as one file of JSON lines to `FILE`, with the list of --known")
	o.known.addFlag(cmd)
	o.files.addFlags(cmd)
	return cmd
}

// report prints a run, writes the files and returns the run's exit code. A
// FILE of - is standard output, which then holds nothing else.
func (a *app) report(o *reportOptions, paths ...string) error {
	if err := cmp.Or(o.files.check(), failed(o.files.writable())); err != nil {
		return err
	}
	rec, err := a.readRecording(paths...)
	if err != nil {
		return failed(err)
	}
	defer func() { rec.Close() }()
	if o.json != "" || o.known != "" {
		if rec, err = a.rewriteRun(rec, o, paths[0]); err != nil {
			return err
		}
	}
	var listed knownFile
	if k := rec.Summary.Known; k != nil {
		listed = knownFile(k.File)
	}
	if err := listed.keepsWords(o.files); err != nil {
		return err
	}
	text := a.Out
	if o.files.stdout() || o.json == "-" {
		text = io.Discard
	}
	exit, err := a.printRecording(text, rec, o)
	if err != nil {
		return failed(err)
	}
	return a.unwritten(exit, writeReports(a.Out, rec, nil, o.files, func(string) {}))
}

// rewriteRun puts a list of known failures on a run, if there is one, and writes the run where --json says.
func (a *app) rewriteRun(rec *reports.Recording, o *reportOptions, path string) (*reports.Recording, error) {
	if len(rec.Timings) > 0 || rec.Overflow || rec.Summary.Generated != nil {
		return rec, usageError("report --json and --known: want a run that compared values, got %s", path)
	}
	list, err := o.known.load(false)
	if err != nil {
		return rec, err
	}
	again, lines, err := a.rewritten(rec, list, o.known)
	if err != nil {
		return rec, failed(err)
	}
	rec.Close()
	write := func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(lines, 0, math.MaxInt64))
		return err
	}
	switch o.json {
	case "":
	case "-":
		err = write(a.Out)
	default:
		err = writeFile(o.json, write)
	}
	return again, failed(err)
}

// awaitEvery is how often the parts of a run are looked at.
const awaitEvery = 2 * time.Second

// await waits until the run in directories has ended, or the time is over: then what there
// is will be reported.
func (o *reportOptions) await(ctx context.Context, dirs []string) error {
	over := time.After(o.wait)
	for o.wait > 0 && !rundir.Ended(dirs...) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return nil
		case <-time.After(awaitEvery):
		}
	}
	return nil
}

// readRecording reads a run: a file of JSON lines, or directories. An error names them. What
// is missing of a run is said.
func (a *app) readRecording(paths ...string) (*reports.Recording, error) {
	path := paths[0]
	if rundir.Is(path) {
		rec, lacks, err := rundir.Read(paths...)
		for _, s := range lacks {
			a.warn("%s", s)
		}
		if rec != nil {
			rec.Summary.Missing = lacks
		}
		return rec, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if below := runsBelow(path); len(below) > 0 {
			return nil, fmt.Errorf("%s: is a directory without a run; for parts of one run below it: optool report %s",
				path, strings.Join(below, " "))
		}
		return nil, fmt.Errorf("%s: is a directory without a run: want the file that `optool replay --json FILE %[1]s` "+
			"writes", path)
	}
	f, err := a.open(path)
	if err == nil {
		f, err = unpacked(f)
	}
	if err != nil {
		return nil, naming(path, err)
	}
	rec, err := reports.ReadRecording(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	rec.Own(f)
	return rec, nil
}

// maxRunsBelow is how many runs below a directory are named.
const maxRunsBelow = 20

// runsBelow are the directories of --run one or two levels below dir, quoted for a command line.
func runsBelow(dir string) (runs []string) {
	root := os.DirFS(dir)
	for _, pattern := range []string{"*", "*/*"} {
		names, _ := fs.Glob(root, pattern) // the patterns are well-formed
		for _, name := range names {
			at := filepath.Join(dir, name)
			if !rundir.Is(at) {
				continue
			}
			if len(runs) == maxRunsBelow {
				return append(runs, "...")
			}
			runs = append(runs, quotePath(at))
		}
	}
	return runs
}

// open opens a file to be read more than once. What can be read only once, a pipe or - for
// standard input, is copied into a file without a name. A device may have no end, and is refused.
func (a *app) open(path string) (*os.File, error) {
	in := a.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err != nil || info.Mode().IsRegular() || info.IsDir() {
			return f, err
		}
		defer f.Close()
		if info.Mode()&fs.ModeNamedPipe == 0 {
			return nil, errors.New("want a file or a pipe, found a device")
		}
		in = f
	}
	return nameless(in)
}

// mostUnpacked is how many times as large as its file an unpacked run may be.
const mostUnpacked = 300

// unpacked is what gzip packed into a file, in a file without a name, and any other file as it is.
func unpacked(f *os.File) (*os.File, error) {
	head := make([]byte, 2)
	if _, err := f.ReadAt(head, 0); err != nil || string(head) != "\x1f\x8b" {
		return f, nil // what is wrong with it, its reader says
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	in, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	most := mostUnpacked * info.Size()
	out, err := nameless(io.LimitReader(in, most+1))
	if err != nil {
		return nil, err
	}
	if info, err := out.Stat(); err != nil || info.Size() > most {
		return nil, errors.Join(err, fmt.Errorf("more than %d times as large when unpacked: unpack it with gzip -d",
			mostUnpacked), out.Close())
	}
	return out, nil
}

// nameless copies what in has into a file without a name.
func nameless(in io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "optool-*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("a temporary file: %v", err)
	}
	_, err = io.Copy(f, in)
	if err = errors.Join(os.Remove(f.Name()), err); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// printRecording prints what the run printed and returns its exit code.
func (a *app) printRecording(w io.Writer, rec *reports.Recording, o *reportOptions) (int, error) {
	if rec.Last == nil {
		a.warn("the run did not end: what it had written is reported")
	}
	switch {
	case len(rec.Timings) > 0:
		return a.printTimings(w, rec)
	case rec.Overflow:
		return a.printOverflows(w, rec, o.tables)
	case rec.Summary.Generated != nil:
		return a.printGenerated(w, rec)
	}
	style, digest := a.style(), reports.NewDigest(rec.Summary.FailOn)
	style.Tables, digest.Order = o.tables, reports.Order(o.sort)
	for f := range rec.Findings() {
		digest.Add(f)
		if style.Tables {
			if err := f.Write(w, style); err != nil {
				return 0, err
			}
		}
	}
	rec.Lead(digest)
	if err := cmp.Or(rec.Results.Err(), rec.Summary.WritePrograms(w, style), digest.Write(w, style)); err != nil {
		return 0, err
	}
	exit := comparisonExit(rec.Summary, rec.Summary.NotRead)
	if rec.Exit != nil {
		exit = *rec.Exit
	}
	digest.Readers(rec.Summary)
	return exit, cmp.Or(rec.Summary.Write(w, style), digest.WriteLast(w, style))
}

func (a *app) printTimings(w io.Writer, rec *reports.Recording) (int, error) {
	s := timeSummary{Interrupted: true, Exit: ExitInterrupted}
	if rec.Last != nil {
		s.Exit = ExitOK
		if err := json.Unmarshal(rec.Last, &s); err != nil {
			return 0, fmt.Errorf("summary: %w", err)
		}
	}
	var peak reports.Peak
	cache := timing.Cold
	for _, t := range rec.Timings {
		if t.Peak != (reports.Peak{}) {
			peak = t.Peak
		}
		if t.Series.Cache == timing.Hot {
			cache = timing.Hot
		}
	}
	table := newTimeTable(w, a.outputWidth(), peak != (reports.Peak{}), false)
	for _, t := range rec.Timings {
		if err := table.add(t, ""); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(table.list.Flush(), table.legend()); err != nil {
		return 0, err
	}
	if s.ChangeCounts != nil {
		fmt.Fprintln(w)
		if err := a.printChanges(w, rec.Changes, rec.Run.Rivals()); err != nil {
			return 0, err
		}
		fmt.Fprintf(w, "against the other device: %s\n", s.ChangeCounts)
	}
	if err := a.printAverages(w, rec.Timings, s.Measured, cache, false, "self", 0); err != nil {
		return 0, err
	}
	if rec.Last != nil {
		if err := a.printMeasured(w, &s.Measured, rec.Timings); err != nil {
			return 0, err
		}
	}
	return s.Exit, nil
}

func (a *app) printOverflows(w io.Writer, rec *reports.Recording, all bool) (int, error) {
	s := overflow.Summary{Interrupted: rec.Last == nil}
	if err := new(heldTables).write(w, a.style(), rec.NotFinite); err != nil {
		return 0, err
	}
	for f := range rec.Findings() {
		c := overflowCall(f.Results)
		for _, err := range c.Failures {
			a.warn("%v", err)
		}
		s.Add(c)
		if !c.Overflow() && !all {
			continue
		}
		if err := c.Write(w, a.tableWidth(), f.Results); err != nil {
			return 0, err
		}
	}
	s.Exit = -1
	if rec.Last != nil {
		if err := json.Unmarshal(rec.Last, &s); err != nil {
			return 0, fmt.Errorf("summary: %w", err)
		}
	}
	if s.Exit < 0 { // it did not end, or is of parts
		s.Exit = checkExit(&s)
	}
	return s.Exit, s.Write(w, a.style())
}

// printGenerated prints which cases gave no data, and how many did.
func (a *app) printGenerated(w io.Writer, rec *reports.Recording) (int, error) {
	for r := range rec.Results.All() {
		if r.Verdict == verdict.Error {
			fmt.Fprintf(w, "%s: %s\n", r.Capture, reports.OneLine(r.Reason))
		}
	}
	s := rec.Summary
	end := ""
	if s.Elapsed > 0 {
		end += fmt.Sprintf(", %.2f s", s.Elapsed.Seconds())
	}
	if s.Interrupted {
		end += " (interrupted)"
	}
	_, err := fmt.Fprintf(w, "%s%s\n", s.Generated, end)
	return generationExit(s), cmp.Or(rec.Results.Err(), err)
}

// overflowCall is what a check said of a call, from its results.
func overflowCall(results []*reports.Result) *overflow.Call {
	c := &overflow.Call{}
	for i, r := range results {
		c.Add(r)
		if i == 0 {
			id := "-"
			if r.ForwardID != nil {
				id = fmt.Sprint(*r.ForwardID)
			}
			c.Title = fmt.Sprintf("%s    forward_id: %s    %s", r.Op, id, r.Capture)
		}
		if r.Unwritten {
			c.Unwritten++
		} else if r.Verdict == verdict.Invalid || r.Verdict == verdict.Error {
			c.Failures = append(c.Failures, errors.New(reports.OneLine(r.Reason)))
		}
	}
	return c
}
