package cli

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/contents"
	"github.com/optool/optool/tensor/value"
)

type showOptions struct {
	selection
	json   bool
	sha256 bool
	width  int // of tables
	values int
	clock  clock
}

func newShowCmd(a *app) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show PATH...",
		Short: "Show the contents of captures, .pth files and checkpoints",
		Long: `show prints the contents of each capture under PATH, or of any .pth file, as op_tools'
table. data_ptr comes from the .pth.json beside a file. --json prints one object for
each file.`,
		Example: `  optool show op_tools_results/op_capture_results/torch.add/25021/4/2026-11-20-21-06-02
  optool show --values 8 input.pth
  optool show --json --sha256 op_tools_results`,
		Args: somePaths,
		RunE: func(cmd *cobra.Command, paths []string) error { return runShow(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print one JSON object for each file")
	f.BoolVar(&o.sha256, "sha256", false,
		"with --json: print the SHA-256 of each tensor's elements, contiguous and little-endian")
	f.IntVar(&o.values, "values", 0, "print the first `N` elements of each tensor")
	o.clock.addFlags(cmd, "the reading of one call or file")
	return cmd
}

// A shown is what one capture or file has to show.
type shown struct {
	text     []byte
	records  []any // *contents.File or *contents.Failure
	failures []error
	selected bool
}

func runShow(cmd *cobra.Command, a *app, o *showOptions, paths []string) error {
	if err := o.parse(cmd, a, "CAPTURE"); err != nil {
		return err
	}
	if o.sha256 && !o.json {
		return usageError("--sha256 needs --json")
	}
	if o.values < 0 {
		return usageError("--values: want a count, got %d", o.values)
	}
	o.width = a.tableWidth()
	o.clock.start()
	var t tally
	out := reports.NewJSONLines(a.Out)
	err := ordered(cmd.Context(), a.jobs, scan(cmd.Context(), paths, capture.Options{Loose: true}),
		func(f found) shown {
			if f.err != nil {
				return shown{failures: []error{f.err}}
			}
			s, err := within(cmd.Context(), o.clock.limits, 0, func() (shown, error) { return o.show(f.entry), nil })
			if err != nil {
				return o.gaveUp(f.entry, err)
			}
			return s
		},
		func(s shown) error {
			t.walked++
			if s.selected {
				t.captures++
			}
			for _, r := range s.records {
				if err := out.Write(r); err != nil {
					return err
				}
			}
			if _, err := a.Out.Write(s.text); err != nil {
				return err
			}
			t.refuse(a, s.failures)
			return nil
		})
	if err != nil {
		return failed(err)
	}
	if err := o.found(t, paths); err != nil {
		return err
	}
	t.end(a)
	return exitWith(t.code())
}

func (o *showOptions) show(e *capture.Entry) shown {
	ok, err := o.filter.Match(e, o.read)
	if err != nil || !ok {
		return shown{failures: errs(err)}
	}
	if o.json {
		return o.records(e)
	}
	return o.tables(e)
}

// gaveUp says that a capture was not read to its end.
func (o *showOptions) gaveUp(e *capture.Entry, err error) shown {
	s := shown{selected: true, failures: []error{fmt.Errorf("%s: %w", e.Rel, err)}}
	if o.json {
		s.records = []any{&contents.Failure{File: e.Rel, Error: err.Error()}}
	}
	return s
}

func errs(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

// records lists the capture's files one by one, as they are.
func (o *showOptions) records(e *capture.Entry) shown {
	s := shown{selected: true}
	for _, ref := range e.All() {
		name := e.RelPath(ref.Side, ref.Kind)
		r, err := o.record(e, ref, name)
		if err != nil {
			fe := &capture.FileError{Path: name, Err: err}
			s.records = append(s.records, &contents.Failure{File: name, Error: fe.Reason()})
			s.failures = append(s.failures, fe)
			continue
		}
		s.records = append(s.records, r)
	}
	return s
}

func (o *showOptions) record(e *capture.Entry, ref capture.FileRef, name string) (*contents.File, error) {
	r, done, err := o.open(e, ref, name)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := r.Sound(); err != nil {
		return nil, err
	}
	if o.sha256 {
		if err := r.Hash(); err != nil {
			return nil, err
		}
	}
	if o.values > 0 {
		for i := range r.Items {
			if t := r.Items[i].Tensor; t != nil {
				if r.Items[i].Values, err = contents.FirstValues(t, o.values); err != nil {
					return nil, err
				}
			}
		}
	}
	return r, nil
}

// open lists a file of a capture, and what another producer has in its place.
func (o *showOptions) open(e *capture.Entry, ref capture.FileRef, name string) (*contents.File, func() error, error) {
	if e.ByOther() {
		c, err := e.Load(capture.LoadOptions{Read: o.read, Only: capture.Of(ref.Kind)})
		if err == nil {
			r, err := contents.OfCall(name, e.Layout.String(), c, ref.Kind)
			return r, c.Close, err
		}
		c.Close()
		var file *capture.FileError
		if errors.As(err, &file) {
			err = file.Err
		}
		return nil, nil, err
	}
	f, err := pthformat.Open(e.Path(ref.Side, ref.Kind), pthformat.Options{Read: o.read})
	if err != nil {
		return nil, nil, err
	}
	r, err := contents.OfFile(name, f)
	return r, f.Close, err
}

// A page is what the tables of one capture show.
type page struct {
	title             []string
	forward, backward []contents.Row
}

// tables prints op_tools' tables: arguments and results, then gradients.
func (o *showOptions) tables(e *capture.Entry) shown {
	s := shown{selected: true}
	p := page{}
	sides := []capture.Side{capture.Device}
	if e.IsPair() {
		sides = append(sides, capture.Host)
	}
	for _, side := range sides {
		c, _ := e.Load(capture.LoadOptions{Read: o.read, Side: side})
		defer c.Close()
		for _, k := range capture.Kinds() {
			err := c.Err(k)
			if errors.Is(err, capture.ErrNotCapture) {
				var f *pthformat.File
				if f, err = pthformat.Open(e.Path(side, k), pthformat.Options{Read: o.read}); err == nil {
					defer f.Close()
					var rows []contents.Row
					rows, err = looseRows(e.RelPath(side, k), f)
					p.forward = append(p.forward, rows...)
				}
			} else if err == nil {
				p.add(e, c, side, k)
				err = contents.Sound(value.NewTuple(c.Values(k)...))
			}
			if err != nil && !errors.Is(err, capture.ErrNoFile) {
				s.failures = append(s.failures, err)
			}
		}
		if p.title == nil && c.Op != "" {
			p.title = []string{reports.OneLine(c.Op), "forward_id: " + reports.OneLine(e.Number(c.Identifier))}
		}
	}
	p.title = append(p.title, reports.OneLine(e.Rel))
	s.print(o, &p)
	return s
}

// add adds the rows of one file.
func (p *page) add(e *capture.Entry, c *capture.Call, side capture.Side, k capture.Kind) {
	prefix := c.Op + " " + [...]string{"inputs", "outputs", "grad_inputs", "grad_output", "inputs(after)"}[k]
	if side == capture.Host {
		prefix += "(cpu)"
	}
	var kwargs *value.Dict
	switch k {
	case capture.Input:
		kwargs = c.Kwargs
	case capture.After:
		kwargs = c.AfterKwargs
	}
	rows := contents.Rows(prefix, c.Values(k), kwargs, c.Addresses(k))
	switch k {
	case capture.GradInputs:
		p.backward = append(p.backward, rows...)
	case capture.GradOutputs: // op_tools prints them first
		p.backward = append(rows, p.backward...)
	default:
		p.forward = append(p.forward, rows...)
	}
}

// looseRows lists an open file that is no capture from its root.
func looseRows(name string, f *pthformat.File) ([]contents.Row, error) {
	r, err := contents.OfFile(name, f)
	if err != nil {
		return nil, err
	}
	return r.Rows(), r.Sound()
}

// print renders a page into s.text.
func (s *shown) print(o *showOptions, p *page) {
	var b bytes.Buffer
	fmt.Fprintln(&b, strings.Join(p.title, "    "))
	for i, rows := range [][]contents.Row{p.forward, p.backward} {
		if i > 0 && len(rows) > 0 {
			b.WriteByte('\n')
		}
		if err := reports.WriteArgs(&b, o.width, contents.Plain(rows)); err != nil {
			s.failures = append(s.failures, err)
		}
	}
	if o.values > 0 {
		for _, r := range slices.Concat(p.forward, p.backward) {
			if r.Of == nil {
				continue
			}
			v, err := contents.FirstValues(r.Of, o.values)
			if err != nil {
				s.failures = append(s.failures, fmt.Errorf("%s: %w", r.Name, err))
				continue
			}
			if r.Of.Numel() > len(v) {
				v = append(v, "...")
			}
			fmt.Fprintf(&b, "%s: [%s]\n", reports.OneLine(r.Name), reports.Command(strings.Join(v, ", ")))
		}
	}
	b.WriteByte('\n')
	s.text = b.Bytes()
}
