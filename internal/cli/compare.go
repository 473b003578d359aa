package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/compare/pairs"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

func newCompareCmd(a *app) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "Compare two recordings, runs or files, without computing anything",
		Long: `compare compares two captures, two trees of captures or two files of values, value by
value. With A only, it compares the device and CPU results that op_tools saved in A.
A (or the device) is checked; B (or the CPU) is the reference.

A value passes if op_tools' allclose passes, or if every element is within one unit
in the last place of the reference in its dtype. compare does not know the operator,
so it cannot tell whether a larger difference is a bug: use replay for that.

Files of values (.pt, .pth, .pt2, .safetensors, .npy, .npz, the JSON of polygraphy
run), and directories of them such as sharded checkpoints, are compared by name. A
value that only one side has is a difference. Saved integers must be equal.

Logs of PyTorch's DebugMode (debug_string or save_logs, with log_tensor_hashes) and of
torchtitan (dump_numerics) are compared by sequence and hashes. A log, or msprobe's
statistics, can also be compared with captures of another recorder.

Calls of two trees are paired by path, then by op, id and process. If one run made
calls that the other did not, they are paired by their sequence. If one run used a
lower precision (bfloat16 instead of float32), compare first says how many calls it
explains: those whose results are not much further apart than their inputs.`,
		Example: `  optool compare op_tools_results
  optool compare run1/op_tools_results run2/op_tools_results
  optool compare --json result.jsonl a/output.pth b/output.pth
  optool compare --map names.txt --unshard auto megatron/ hf/model.safetensors
  optool compare --rows batch1 batch8
  optool compare --time old.jsonl new.jsonl
  optool compare --results before.jsonl run.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError("compare: want A or A and B, got %d paths", len(args))
			}
			switch {
			case o.results && len(args) != 2:
				return usageError("compare --results: want OLD and NEW, got %d paths", len(args))
			case o.rows && len(args) != 2:
				return usageError("compare --rows: want A and B, got %d paths", len(args))
			case o.rows && (o.results || o.times):
				return usageError("--rows, --results and --time exclude each other")
			case o.results && o.times:
				return usageError("--results and --time exclude each other")
			case o.times && len(args) != 2:
				return usageError("compare --time: want OLD and NEW, got %d paths", len(args))
			case o.threshold < 0:
				return usageError("--threshold: want at least 0, got %v", o.threshold)
			case cmd.Flags().Changed("threshold") && !o.times:
				return usageError("--threshold needs --time")
			case o.resolution <= 0:
				return usageError("--resolution: want more than 0, got %v", o.resolution)
			case cmd.Flags().Changed("resolution") && !o.times:
				return usageError("--resolution needs --time")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, paths []string) error {
			if o.results || o.times {
				if o.records.files.any() {
					return usageError("--results and --time write no reports but --json")
				}
			}
			if o.rows {
				return runCompareRows(cmd, a, &o, paths)
			}
			if o.results {
				return a.compareResults(paths[0], paths[1], o.records, o.tables)
			}
			if o.times {
				return a.compareTimes(paths[0], paths[1], o.resolution/100, o.threshold/100, o.records)
			}
			if comparesLogs(cmd.Context(), paths) {
				return a.compareLogs(cmd.Context(), paths, o.records)
			}
			return runCompare(cmd, a, &o, paths)
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	o.records.addFlags(cmd)
	o.failOn.addFlag(cmd)
	o.tolerances.addFlag(cmd)
	f.StringVar(&o.names, "map", "", "pair values by the names in `FILE`, with lines such as a.*.w -> b.*.w")
	f.StringArrayVar(&o.unshard, "unshard", nil,
		"join a value that is sharded over ranks by `RULE`: dim=N, column, row, auto, qkv=N, dims; "+
			"PATTERN:RULE limits it to some names")
	f.BoolVar(&o.tables, "tables", false, "print every capture, with op_tools' table")
	o.sort.addFlag(cmd)
	o.clock.addFlags(cmd, "the comparison of two calls or values")
	f.BoolVar(&o.results, "results", false,
		"compare the JSON lines of two runs: what got worse, better, is new or gone; exit code 1 if anything "+
			"got worse or a new value is a finding, 130 if the new run did not end")
	f.BoolVar(&o.rows, "rows", false, "compare one program in batches, paddings or packings of different sizes: the first "+
		"call whose row in A is not the same bit for bit in B")
	f.BoolVar(&o.times, "time", false,
		"compare the JSON lines of two runs of optool time; exit code 1 if anything got slower")
	f.Float64Var(&o.resolution, "resolution", 100*timing.Resolution,
		"with --time: treat times within this `PERCENT` of each other as equal")
	f.Float64Var(&o.threshold, "threshold", 0, "with --time: allowed slowdown in `PERCENT` before the exit code is 1")
	return cmd
}

// A compared is what one pair gave.
type compared struct {
	pair    pairs.Pair
	results []*reports.Result // empty if not selected
	apart   map[*reports.Result]*pairs.Difference
	hidden  string // the setting that left it out
	err     error
}

// A holder holds back the pairs of two recordings from the first difference on until it is known whether the
// recordings have different precisions, and judges them then.
type holder struct {
	two       bool
	next      func(compared) error
	precision pairs.Precision
	held      []compared
	differs   bool
}

// mostPairs bounds the memory of a holder: so many pairs without another dtype have one precision.
const mostPairs = 20_000

func (h *holder) add(c compared) error {
	if !h.two {
		return h.next(c)
	}
	h.precision.Look(c.results, c.apart)
	h.differs = h.differs || reports.NewFinding(c.results).Wrong()
	h.held = append(h.held, c)
	if h.differs && !h.precision.Known() && len(h.held) < mostPairs {
		return nil
	}
	return h.release()
}

func (h *holder) release() error {
	for _, c := range h.held {
		h.precision.Explain(c.pair, c.results, c.apart)
		if err := h.next(c); err != nil {
			return err
		}
	}
	h.held = nil
	return nil
}

func runCompare(cmd *cobra.Command, a *app, o *compareOptions, paths []string) error {
	if err := o.parse(cmd, a, "AUTOCOMPARE"); err != nil {
		return err
	}
	tol, err := o.tolerances.load(nil)
	if err != nil {
		return err
	}
	settings := append(o.settings(), o.tolerances.settings(tol)...)
	ctx := cmd.Context()
	o.clock.start()
	if o.comparesValues(ctx, paths) {
		start := time.Now()
		j, err := a.openRecords(o.records, a.run("none", settings...))
		if err != nil {
			return err
		}
		defer j.close()
		return a.compareValues(cmd, o, paths, pairs.Comparer{Tolerances: tol, Read: o.read}, settings, j, start)
	}
	if o.names != "" || len(o.unshard) > 0 {
		return usageError("--map and --unshard are for two files or directories of values, not for recorded calls")
	}
	all := pairs.Saved(ctx, paths[0])
	if len(paths) == 2 {
		if all, err = pairs.Corresponding(ctx, paths[0], paths[1]); err != nil {
			return failed(err)
		}
	}
	start := time.Now()
	j, err := a.openRecords(o.records, a.run("none", settings...))
	if err != nil {
		return err
	}
	defer j.close()
	var t tally
	var parted pairs.Divergence
	out := a.compare("compare", "pair", o.sort, o.tables, o.failOn, j)
	out.Settings = settings
	held := holder{two: len(paths) == 2, next: func(c compared) error {
		parted.Add(c.pair, c.results)
		finding := reports.NewFinding(c.results)
		out.bar.add(finding.Bad(), 0)
		return out.add(finding, false)
	}}
	comparer := pairs.Comparer{Tolerances: tol, Read: o.read, Repro: o.repro}
	err = ordered(ctx, a.jobs, all,
		func(p pairs.Pair) compared { return o.compare(ctx, p, comparer) },
		func(c compared) error {
			t.walked++
			if c.err != nil {
				t.refused++
				out.bar.warn(a, c.err)
			}
			settings.Hide(c.hidden)
			if len(c.results) == 0 {
				out.bar.add(false, 0)
				return nil
			}
			t.captures++
			return held.add(c)
		})
	if err == nil {
		err = held.release()
	}
	out.bar.end()
	if err != nil && ctx.Err() == nil {
		return failed(err)
	}
	out.Interrupted = ctx.Err() != nil
	if err == nil {
		if t.walked == 0 && len(paths) == 1 {
			return &exitError{ExitFailed, fmt.Errorf("%s: no saved device/cpu pairs found", paths[0])}
		}
		if err := o.found(t, paths); err != nil {
			return err
		}
	}
	if len(paths) == 2 {
		out.Precision = held.precision.Record()
		if out.Precision != nil {
			fmt.Fprintf(j.text(), "%s\n\n", a.style().Wrap(reports.OneLine(held.precision.String()), 2))
		}
		if err := a.parted(j, out.Summary, &parted); err != nil {
			return failed(err)
		}
		if out.First != nil {
			out.digest.Lead(out.First.Capture)
		}
	}
	for _, err := range unused(tol.File(), a.known(), out.Ops()) {
		t.refused++
		a.warn("%v", err)
	}
	return out.finish(a, t, start)
}

// parted writes where two recordings part, and what only one of them has.
func (a *app) parted(j *jsonOutput, s *reports.Summary, d *pairs.Divergence) error {
	s.First = d.First()
	for _, f := range d.Findings() {
		if err := j.write(f); err != nil {
			return err
		}
		if f.Rule != verdict.Diverged {
			continue // one of many: the table of ops counts them
		}
		if _, err := fmt.Fprintf(j.text(), "%s\n\n", f.In(a.style())); err != nil {
			return err
		}
	}
	return nil
}

// compare compares one pair.
func (o *compareOptions) compare(ctx context.Context, p pairs.Pair, c pairs.Comparer) compared {
	if p.Err != nil {
		return compared{err: p.Err}
	}
	if name, err := o.hides(p.A); err != nil || name != "" {
		return compared{err: err, hidden: name}
	}
	out, err := within(ctx, o.clock.limits, 0, func() (out compared, _ error) {
		out.results, out.apart = c.Compare(p)
		return out, nil
	})
	if err != nil {
		out = compared{results: c.GiveUp(p, err)}
	}
	out.pair = p
	return out
}
