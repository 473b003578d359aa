package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// A stepCall is what one capture gave: nothing, if it is no call of the step.
type stepCall struct {
	call    *step.Call
	leftOut *capture.Entry // that is no operator's call of one run; one of both sides has a call as well
	bytes   int64
	err     error
}

// readStep reads all calls below a path and links them; devices are starting.
func (a *app) readStep(cmd *cobra.Command, path string, lim *limits, opt step.Options, devices *[]readiness) (
	t *step.Trace, refused int, err error) {
	return a.readCalls(cmd, []string{path}, lim, opt, devices, step.Read)
}

// readCalls reads all calls under the paths, each by read, and links them.
func (a *app) readCalls(cmd *cobra.Command, paths []string, lim *limits, opt step.Options, devices *[]readiness,
	read func(*capture.Entry, step.Options) *step.Call) (t *step.Trace, refused int, err error) {
	calls, leftOut, refused, err := a.readEach(cmd, paths, lim, opt, devices, read)
	if err != nil {
		return nil, refused, err
	}
	return traceOf(calls, leftOut), refused, nil
}

// traceOf links calls; others were left out.
func traceOf(calls []*step.Call, leftOut []*stepCall) *step.Trace {
	t := step.New(calls)
	for _, c := range leftOut {
		t.LeaveOut(c.leftOut, c.call)
	}
	return t
}

// readPrograms reads all calls below a path, and links those of each program.
func (a *app) readPrograms(cmd *cobra.Command, path string, lim *limits, opt step.Options, devices *[]readiness) (
	list []*recordedProgram, refused int, err error) {
	calls, leftOut, refused, err := a.readEach(cmd, []string{path}, lim, opt, devices, step.Read)
	if err != nil {
		return nil, refused, err
	}
	ps := &programs{}
	for _, c := range calls {
		p := ps.of(c.Entry)
		p.calls = append(p.calls, c)
	}
	if !ps.Several() {
		return []*recordedProgram{{dir: path, trace: traceOf(calls, leftOut)}}, refused, nil
	}
	for _, c := range leftOut {
		p := cmp.Or(ps.by[programOf(c.leftOut)], ps.list[0])
		p.leftOut = append(p.leftOut, c)
	}
	for _, p := range ps.list {
		p.dir = programDir(path, p.folder, p.rels)
		p.trace = traceOf(p.calls, p.leftOut)
	}
	return ps.list, refused, nil
}

// readEach reads all calls under the paths, each by read.
func (a *app) readEach(cmd *cobra.Command, paths []string, lim *limits, opt step.Options, devices *[]readiness,
	read func(*capture.Entry, step.Options) *step.Call) (calls []*step.Call, leftOut []*stepCall, refused int,
	err error) {
	bar := a.newProgress("step", "capture")
	bar.index(cmd.Context(), paths)
	defer bar.end()
	coming := readAhead(cmd.Context(), scan(cmd.Context(), paths, capture.Options{}), lim.ahead(),
		func(e *capture.Entry) bool { return e.NotRun() == "" })
	err = ordered(cmd.Context(), a.jobs, coming,
		func(f found) *stepCall {
			switch {
			case f.entry == nil:
				return &stepCall{err: f.err}
			case f.entry.NotRun() != "": // operators' calls
				return &stepCall{leftOut: f.entry}
			}
			bar.begin(f.entry.Op)
			bytes := f.entry.Bytes()
			call, err := within(cmd.Context(), lim, bytes, func() (*step.Call, error) {
				c := read(f.entry, opt)
				return c, c.TooLarge
			})
			if err != nil && cmd.Context().Err() == nil {
				call, _ = within(cmd.Context(), lim, bytes, func() (*step.Call, error) {
					return step.NotRun(f.entry, err, opt), nil
				})
				err = fmt.Errorf("%s: %w", f.entry.Rel, err)
			}
			c := &stepCall{call: call, bytes: bytes, err: err}
			if f.entry.IsPair() {
				c.leftOut = f.entry
			}
			return c
		},
		func(c *stepCall) error {
			if err := started(devices, a, bar); err != nil {
				return err
			}
			if c.err != nil {
				refused++
				bar.warn(a, c.err)
			}
			bar.add(false, c.bytes)
			if c.call != nil && c.leftOut == nil {
				calls = append(calls, c.call)
			}
			if c.leftOut != nil {
				leftOut = append(leftOut, c)
			}
			return nil
		})
	if err != nil {
		return nil, nil, refused, failed(err)
	}
	if len(calls) == 0 && slices.ContainsFunc(leftOut, func(c *stepCall) bool { return c.leftOut.IsPair() }) {
		return nil, nil, refused, onlyPairs(leftOut, paths)
	}
	if len(calls) == 0 {
		return nil, nil, refused, noCaptures(paths)
	}
	return calls, leftOut, refused, nil
}

// onlyPairs says that the paths hold no step, what they hold, and what to do.
func onlyPairs(leftOut []*stepCall, paths []string) error {
	n := 0
	for _, c := range leftOut {
		if c.leftOut.IsPair() {
			n++
		}
	}
	quoted := make([]string, len(paths))
	for i, p := range paths {
		quoted[i] = quotePath(p)
	}
	text := "%s: no step: %s of failed calls, which op_tools' OpAutoCompare saves; the other calls of the program were not " +
		"recorded. `%s replay %s` judges these calls. For a step, record all of its calls: with `%s hook`, or with " +
		"op_tools.OpCapture()"
	return &exitError{ExitFailed, fmt.Errorf(text, strings.Join(paths, ", "), reports.Count(n, "device/CPU pair"),
		program(), strings.Join(quoted, " "), program())}
}
