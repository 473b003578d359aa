package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

type lsOptions struct {
	selection
	json  bool
	paths bool
}

func newLsCmd(a *app) *cobra.Command {
	var o lsOptions
	cmd := &cobra.Command{
		Use:   "ls PATH...",
		Short: "List recorded calls, one a line",
		Long: `List the recorded calls under each PATH: a capture directory of any layout, a
tree of them, or a .pth file. Shapes are those of the input tensors (of the
results where the call itself was not saved). Payloads are not read.`,
		Example: `  optool ls op_tools_results
  optool ls --op 'torch.nn.functional.*' --dtype bfloat16 op_tools_results
  optool ls --where 'numel > 1000000' --paths op_tools_results
  optool ls --json op_tools_results`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error { return runLs(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a line")
	cmd.Flags().BoolVar(&o.paths, "paths", false, "add a column with the path of each call")
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
	var t tally
	out := reports.NewJSONLines(a.Out)
	head := []string{"id", "op", "pid", "time", "files", "size", "dtype", "shapes"}
	if o.paths {
		head = append(head, "path")
	}
	table := reports.NewListing(a.Out, a.outputWidth(), head...)
	table.Right(0)
	table.Right(5)
	err := ordered(cmd.Context(), a.jobs, scan(cmd.Context(), paths, capture.Options{}),
		func(f found) *lsLine { return o.line(f) },
		func(l *lsLine) error {
			t.walked++
			if len(l.failures) > 0 {
				t.refused++
			}
			for _, err := range l.failures {
				a.warn("%v", err)
			}
			if !l.selected {
				return nil
			}
			t.captures++
			if o.json {
				return out.Write(l)
			}
			return table.Add(l.cells(o.paths)...)
		})
	if err := cmp.Or(table.Flush(), err); err != nil {
		return failed(err)
	}
	if err := t.check(paths); err != nil {
		return err
	}
	return exitWith(t.code())
}

// line examines one capture.
func (o *lsOptions) line(f found) *lsLine {
	if f.err != nil {
		return &lsLine{failures: []error{f.err}}
	}
	e := f.entry
	ok, err := o.filter.Match(e, o.read)
	if err != nil {
		return &lsLine{failures: []error{err}}
	}
	if !ok {
		return &lsLine{}
	}
	l := &lsLine{
		Path: e.Rel, Op: e.Op, ID: known(e.ID), PID: known(e.PID), Rank: known(e.Rank), Time: e.Time,
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
	defer c.Close()
	if err != nil {
		l.Error = err.Error()
		l.failures = []error{err}
	}
	l.Op = c.Op
	l.Inputs, l.Outputs = lsTensors(c.Inputs()), lsTensors(c.Outputs())
	return l
}

func lsTensors(ts []*tensor.Tensor) []lsTensor {
	out := make([]lsTensor, len(ts))
	for i, t := range ts {
		out[i] = lsTensor{DType: t.DType.String(), Shape: nonNil(t.Shape), Device: t.Device, RequiresGrad: t.RequiresGrad}
	}
	return out
}

func (l *lsLine) cells(paths bool) []string {
	tensors := l.Inputs
	if !slices.Contains(l.Files, capture.Input.String()) {
		tensors = l.Outputs
	}
	var dtypes, shapes []string
	for _, t := range tensors {
		if !slices.Contains(dtypes, t.DType) {
			dtypes = append(dtypes, t.DType)
		}
		shapes = append(shapes, tensor.ShapeString(t.Shape))
	}
	text := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	cells := []string{
		text(l.ID), cmp.Or(l.Op, l.Path), text(l.PID), cmp.Or(l.Time, "-"), fileLetters(l.Files, l.HostFiles),
		reports.Bytes(l.Bytes), strings.Join(dtypes, ","), strings.Join(shapes, " "),
	}
	if l.Error != "" {
		cells[len(cells)-1] = "unreadable"
	}
	if paths {
		cells = append(cells, l.Path)
	}
	return cells
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

// known is a number of a capture's name, nil for -1.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
