package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/tensor"
)

type lsOptions struct {
	selection
	json  bool
	paths bool
	clock clock
}

func newLsCmd(a *app) *cobra.Command {
	var o lsOptions
	cmd := &cobra.Command{
		Use:   "ls PATH...",
		Short: "List recorded calls",
		Long: `ls lists the recorded calls under each PATH: a capture directory of any layout, a tree
of them, or a .pth file. It prints the shapes of the input tensors, or of the results
if the inputs were not saved. It does not read the tensors.`,
		Example: `  optool ls op_tools_results
  optool ls --op 'torch.nn.functional.*' --dtype bfloat16 op_tools_results
  optool ls --where 'numel > 1000' --paths op_tools_results
  optool ls --json op_tools_results`,
		Args: somePaths,
		RunE: func(cmd *cobra.Command, paths []string) error { return runLs(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a line")
	cmd.Flags().BoolVar(&o.paths, "paths", false, "add a column with the path of each call")
	o.clock.addFlags(cmd, "the reading of one call")
	return cmd
}

// An lsLine is one recorded call as ls --json prints it. Numbers that the path
// does not tell are null.
type lsLine struct {
	Path      string     `json:"path"`
	Op        string     `json:"op"`
	ID        *int       `json:"id"`
	PID       *int       `json:"pid"`
	Rank      *int       `json:"rank"`
	Time      string     `json:"time"`
	Layout    string     `json:"layout"`
	Files     []string   `json:"files"`
	HostFiles []string   `json:"host_files,omitempty"`
	Bytes     int64      `json:"bytes"`
	Inputs    []lsTensor `json:"inputs"`
	Outputs   []lsTensor `json:"outputs"`
	Error     string     `json:"error,omitempty"`

	selected bool
	failures []error
}

type lsTensor struct {
	DType        string `json:"dtype"`
	Shape        []int  `json:"shape"`
	Device       string `json:"device"`
	RequiresGrad bool   `json:"requires_grad"`
}

func runLs(cmd *cobra.Command, a *app, o *lsOptions, paths []string) error {
	if err := o.parse(cmd, a, "CAPTURE"); err != nil {
		return err
	}
	o.clock.start()
	var t tally
	out := reports.NewJSONLines(a.Out)
	columns := lsColumns(a.outputWidth(), o.paths)
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.name
	}
	table := reports.NewListing(a.Out, a.outputWidth(), head...)
	op := slices.Index(head, "op")
	if table.Names(op); !a.onTerminal() {
		table.Whole(op)
	}
	table.Right(slices.Index(head, "size"))
	err := ordered(cmd.Context(), a.jobs, scan(cmd.Context(), paths, capture.Options{}),
		func(f found) *lsLine {
			if f.err != nil {
				return &lsLine{failures: []error{f.err}}
			}
			l, err := within(cmd.Context(), o.clock.limits, 0, func() (*lsLine, error) { return o.line(f.entry), nil })
			if err != nil {
				return &lsLine{failures: []error{fmt.Errorf("%s: %w", f.entry.Rel, err)}}
			}
			return l
		},
		func(l *lsLine) error {
			t.walked++
			t.refuse(a, l.failures)
			if !l.selected {
				return nil
			}
			t.captures++
			if o.json {
				return out.Write(l)
			}
			cells := make([]string, len(columns))
			for i, c := range columns {
				cells[i] = c.cell(l)
			}
			return table.Add(cells...)
		})
	if err := cmp.Or(table.Flush(), err); err != nil {
		return failed(err)
	}
	if err := o.found(t, paths); err != nil {
		return err
	}
	t.end(a)
	return exitWith(t.code())
}

// line examines one capture.
func (o *lsOptions) line(e *capture.Entry) *lsLine {
	ok, err := o.filter.Match(e, o.read)
	if err != nil {
		return &lsLine{failures: []error{err}}
	}
	if !ok {
		return &lsLine{}
	}
	l := &lsLine{
		Path: e.Rel, Op: e.Op, ID: results.Known(e.ID), PID: results.Known(e.PID), Rank: results.Known(e.Rank),
		Time:   e.Time,
		Layout: e.Layout.String(), Files: stems(e.Files), Bytes: e.Bytes(), selected: true,
	}
	if e.IsPair() {
		l.HostFiles = stems(e.Host)
	}
	only := capture.Of(capture.Input)
	if o.json || !e.Has(capture.Device, capture.Input) {
		only = capture.Of(capture.Input, capture.Output)
	}
	c, err := e.Load(capture.LoadOptions{Read: o.read, Only: only})
	if err != nil {
		l.Error = err.Error()
		l.failures = []error{err}
	}
	l.Op = c.Op
	l.Inputs, l.Outputs = lsTensors(c.Inputs()), lsTensors(c.Outputs())
	c.Close()
	return l
}

func lsTensors(ts []*tensor.Tensor) []lsTensor {
	out := make([]lsTensor, len(ts))
	for i, t := range ts {
		out[i] = lsTensor{DType: t.DType.String(), Shape: results.Shape(t.Shape), Device: t.Device,
			RequiresGrad: t.RequiresGrad}
	}
	return out
}

// An lsColumn is one column of the listing.
type lsColumn struct {
	name   string
	detail bool // left out on narrow terminals
	cell   func(*lsLine) string
}

// lsColumns are the columns that make sense on a terminal of this width.
func lsColumns(width int, paths bool) []lsColumn {
	columns := []lsColumn{
		{"id", false, (*lsLine).label},
		{"op", false, func(l *lsLine) string { return cmp.Or(l.Op, "-") }},
		{"pid", true, func(l *lsLine) string {
			if l.PID == nil {
				return "-"
			}
			return strconv.Itoa(*l.PID)
		}},
		{"time", true, func(l *lsLine) string { return cmp.Or(l.Time, "-") }},
		{"files", false, func(l *lsLine) string { return fileLetters(l.Files, l.HostFiles) }},
		{"size", false, func(l *lsLine) string { return reports.Bytes(l.Bytes) }},
		{"dtype", false, (*lsLine).dtypes},
		{"shapes", false, (*lsLine).shapes},
	}
	if paths {
		columns = append(columns, lsColumn{"path", false, func(l *lsLine) string { return l.Path }})
	}
	const roomy = 110
	if width > 0 && width < roomy {
		columns = slices.DeleteFunc(columns, func(c lsColumn) bool { return c.detail })
	}
	return columns
}

// label is the call's id, or its path where that tells no id.
func (l *lsLine) label() string {
	if l.ID != nil {
		return strconv.Itoa(*l.ID)
	}
	return l.Path
}

// tensors are the inputs, or the outputs where the call was not saved.
func (l *lsLine) tensors() []lsTensor {
	if !slices.Contains(l.Files, capture.Input.String()) {
		return l.Outputs
	}
	return l.Inputs
}

func (l *lsLine) dtypes() string {
	var names []string
	for _, t := range l.tensors() {
		if !slices.Contains(names, t.DType) {
			names = append(names, t.DType)
		}
	}
	return strings.Join(names, ",")
}

func (l *lsLine) shapes() string {
	if l.Error != "" {
		return "unreadable"
	}
	var shapes []string
	for _, t := range l.tensors() {
		shapes = append(shapes, tensor.ShapeString(t.Shape))
	}
	return strings.Join(shapes, " ")
}

// fileLetters abbreviates the files present: i input, o output, gi and go the
// gradients, a after; both sides of a saved failure are separated by a bar.
func fileLetters(files, host []string) string {
	short := func(stems []string) string {
		s := ""
		for _, stem := range stems {
			if s != "" {
				s += " "
			}
			for word := range strings.SplitSeq(stem, "_") {
				s += word[:1]
			}
		}
		return s
	}
	if host == nil {
		return short(files)
	}
	return short(files) + "|" + short(host)
}

func stems(s capture.FileSet) []string {
	names := []string{}
	for _, k := range capture.Kinds() {
		if s.Has(k) {
			names = append(names, k.String())
		}
	}
	return names
}
