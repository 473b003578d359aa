package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// A fusion is the flag --fuse: calls that are compared as one.
type fusion struct {
	ranges  []step.Range
	regions map[string]*step.Region // by the captures of their calls
	opt     step.Options
}

func (f *fusion) String() string {
	var words []string
	for _, r := range f.ranges {
		words = append(words, r.String())
	}
	return strings.Join(words, ",")
}

func (f *fusion) Type() string { return "FROM..TO[=OP]" }

func (f *fusion) Set(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		r, err := step.ParseRange(part)
		if err != nil {
			return err
		}
		f.ranges = append(f.ranges, r)
	}
	return nil
}

// named reports whether all ranges say which operator they are, so that a device can run
// them.
func (f *fusion) named() bool {
	for _, r := range f.ranges {
		if r.Op == "" {
			return false
		}
	}
	return true
}

// setting is what the reports say of the flag.
func (f *fusion) setting() *reports.Setting {
	return &reports.Setting{Kind: byFlag, Name: "--fuse", Value: f.String(), Effect: reports.Fuses}
}

// repro are the words of a repeat command.
func (f *fusion) repro() []string {
	if len(f.ranges) == 0 {
		return nil
	}
	return []string{"--fuse", quote(f.String())}
}

// link finds the regions: all captures are read, since what leaves a region is what calls
// outside of it read.
func (f *fusion) link(cmd *cobra.Command, a *app, paths []string, lim *limits, opt replay.Options) error {
	if len(f.ranges) == 0 {
		return nil
	}
	f.opt = step.Options{Options: opt}
	f.opt.Device = nil
	read := func(e *capture.Entry, opt step.Options) *step.Call {
		for _, r := range f.ranges {
			if r.Has(e) {
				return step.Read(e, opt)
			}
		}
		return step.NotRun(e, errOutside, opt)
	}
	t, _, err := a.readCalls(cmd, paths, lim, f.opt, new([]readiness), read)
	if err != nil {
		return err
	}
	regions, err := t.Regions(f.ranges)
	if err != nil {
		return usageError("--fuse: %w", err)
	}
	f.opt.Device = opt.Device
	f.regions = map[string]*step.Region{}
	for _, r := range regions {
		for _, c := range r.Calls {
			f.regions[c.Entry.Rel] = r
		}
	}
	return nil
}

// errOutside is why calls outside of all regions are not run to find these.
var errOutside = errors.New("it belongs to no region")

// of is the region of a capture, and whether it is reported with it: the last of its
// calls.
func (f *fusion) of(e *capture.Entry) (r *step.Region, last bool) {
	if r = f.regions[e.Rel]; r == nil {
		return nil, false
	}
	return r, r.Last() == e || r.Last().Rel == e.Rel
}

// open opens what is compared for a capture: its call, or the region that it ends.
func (f *fusion) open(ctx context.Context, e *capture.Entry, opt replay.Options) (*replay.Call, func(), error) {
	r, last := f.of(e)
	if !last {
		c := replay.Open(e, opt)
		return c, func() { c.Close() }, nil
	}
	c, done, err := r.Open(ctx, f.opt)
	if err != nil {
		return nil, nil, err
	}
	return c, func() { c.Close(); done() }, nil
}

// entry is the capture that results name: that of a region bears its operator's name.
func (f *fusion) entry(e *capture.Entry) *capture.Entry {
	r, last := f.of(e)
	if !last {
		return e
	}
	named := *e
	named.Op = r.Op
	return &named
}

// bytes is what a capture, or the region that it ends, occupies on disk.
func (f *fusion) bytes(e *capture.Entry) int64 {
	r, last := f.of(e)
	if !last {
		return e.Bytes()
	}
	var n int64
	for _, c := range r.Calls {
		n += c.Entry.Bytes()
	}
	return n
}

// check refuses what regions cannot be combined with.
func (f *fusion) check(device string, none bool) error {
	if len(f.ranges) > 0 && !none && !f.named() {
		return usageError("--fuse %s: --device %s needs to know which operator the calls are: FROM..TO=OP", f, device)
	}
	return nil
}
