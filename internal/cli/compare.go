package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step/pairs"
	"github.com/optool/optool/timing"
)

func newCompareCmd(a *app) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "Compare two recordings, runs or files",
		Long: `compare compares two captures, two trees of captures or two files of values, value by
value. With A only, it compares the device and CPU results that op_tools saved in A. That
shows where the two sides differ; replay judges which of these differences are faults.
A (or the device) is checked; B (or the CPU) is the reference. After a repair, judge both
recordings by replay --json and compare the results (--results): what is repaired, what
is still wrong, what is new.

A value passes if op_tools' allclose passes, or if every element is within one unit
in the last place of the reference in its dtype. Calls of two recordings whose results
differ are computed again: what differs by rounding alone, as of other kernels, passes,
and a wrong value fails, even if it is so small that the tolerance allows it. So are calls
whose results are the same, if any others differ: one that is wrong on both sides is still
wrong. Use replay to judge one recording.

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
  optool compare --results before.jsonl run.jsonl
  optool compare --results good.jsonl night1.jsonl night2.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error { return o.check(cmd, args) },
		RunE: func(cmd *cobra.Command, paths []string) error {
			if (o.results || o.times) && o.records.files.path("write-known") != "" {
				return usageError("--write-known goes with neither --results nor --time: give it to replay or report")
			}
			switch {
			case o.rows:
				return runCompareRows(cmd, a, &o, paths)
			case o.results:
				return a.compareResults(paths, &o)
			case o.times:
				return a.compareTimes(paths[0], paths[1], &o)
			case comparesLogs(cmd.Context(), paths):
				return a.compareLogs(cmd.Context(), paths, o.records)
			}
			return runCompare(cmd, a, &o, paths)
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	o.records.addFlags(cmd)
	o.failOn.addFlag(cmd, "; with --results these are values that only the new run has, and it may name gone (values that "+
		"only A has); worse is the default; "+
		"with --time it may name ambiguous or gone (times that only A has)")
	o.known.addFlag(cmd)
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
			"got worse, a finding of both got ten times as wrong, or a new value is a finding; 130 if the new run did not end")
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
	judged  map[*capture.Entry]pairs.Judgement // of calls whose values have other dtypes
	hidden  string                             // the setting that left it out
	err     error
}

// A compareRun compares recorded calls, or values by name.
type compareRun struct {
	a        *app
	o        *compareOptions
	ctx      context.Context
	paths    []string
	comparer pairs.Comparer
	settings reports.Settings
	known    *reports.KnownList
	start    time.Time
	json     *jsonOutput
	out      *comparison
	tally    tally
	searches searches
}

func runCompare(cmd *cobra.Command, a *app, o *compareOptions, paths []string) error {
	if err := o.parse(cmd, a, "AUTOCOMPARE"); err != nil {
		return err
	}
	tol, err := o.tolerances.load(nil)
	if err != nil {
		return err
	}
	known, err := o.known.load(o.failOn.stale)
	if err = cmp.Or(err, o.known.keepsWords(o.records.files)); err != nil {
		return err
	}
	o.clock.start()
	r := &compareRun{a: a, o: o, ctx: cmd.Context(), paths: paths, known: known,
		settings: append(append(o.settings(), o.tolerances.settings(tol)...), o.known.settings()...),
		comparer: pairs.Comparer{Tolerances: tol, Read: o.read, Repro: o.repro,
			Registry: a.known()}}
	if o.comparesValues(r.ctx, paths) {
		return r.values()
	}
	if o.names != "" || len(o.unshard) > 0 {
		return usageError("--map and --unshard are for two files or directories of values, not for recorded calls")
	}
	all := pairs.Saved(r.ctx, paths[0])
	if len(paths) == 2 {
		if all, err = pairs.Corresponding(r.ctx, paths[0], paths[1]); err != nil {
			if none := new(pairs.NoCalls); errors.As(err, &none) {
				return noCaptures(none.Paths)
			}
			return failed(err)
		}
	}
	return r.pairs(all)
}

// open opens the records.
func (r *compareRun) open() (err error) {
	r.start = time.Now()
	r.json, err = r.a.openRecords(r.o.records, r.a.run("none", r.settings...))
	return err
}

// begin begins the walk; noun is what is counted.
func (r *compareRun) begin(noun string) {
	r.out = r.a.compare("compare", noun, r.o.sort, r.o.tables, r.o.failOn.verdicts, r.json)
	r.out.Settings, r.out.Known = r.settings, r.known
}

// ended ends the walk, which err ended early. A walk that was interrupted is no error.
func (r *compareRun) ended(err error) error {
	r.out.bar.end()
	r.out.Interrupted = r.ctx.Err() != nil
	switch {
	case r.out.Interrupted && err != nil:
		return nil
	case err != nil:
		return failed(err)
	case r.tally.walked == 0 && len(r.paths) == 1:
		return &exitError{ExitFailed, fmt.Errorf("%s: no saved device/cpu pairs found", r.paths[0])}
	}
	return r.o.found(r.tally, r.paths)
}

// finish prints what was found and returns the exit code.
func (r *compareRun) finish() error {
	for _, err := range unused(r.comparer.Tolerances.File(), r.a.known(), r.out.Ops()) {
		r.tally.refused++
		r.a.warn("%v", err)
	}
	return r.out.finish(r.a, r.tally, r.start)
}

// pairs compares recorded calls.
func (r *compareRun) pairs(all iter.Seq[pairs.Pair]) error {
	if err := r.open(); err != nil {
		return err
	}
	defer r.json.close()
	var sides []reports.Fact
	if len(r.paths) == 2 {
		sides = r.sides()
	}
	r.begin("pair")
	rounding := &pairs.Rounding{Judge: r.judged, Jobs: r.a.jobs}
	parted := pairs.Divergence{Noise: r.noise, Rounding: rounding}
	held := holder{two: len(r.paths) == 2, rounding: rounding}
	held.undetermined.Registry = r.a.known()
	var steps pairs.Steps
	var versions pairs.Versions
	faulty := reports.Faulty{}
	if held.two {
		r.out.Same = &reports.Same{}
		if r.known != nil {
			r.known.OfTwo = true
		}
	}
	whole := false // a call of both recordings is no failure that was saved by itself
	held.next = func(c compared) error {
		versions.Add(c.pair)
		if c.pair.B != nil {
			whole = whole || !c.pair.A.IsPair() && !c.pair.B.IsPair()
			steps.Add(0, c.pair.A.Step)
			steps.Add(1, c.pair.B.Step)
		}
		if held.two {
			rounding.AddSame(c.looked(), r.out.Same)
			rounding.Tell(c.looked())
		}
		inherits := parted.Add(c.pair, c.results, c.apart)
		for _, res := range c.results {
			if res.Inherits = inherits; res.WrongIn != "" {
				res.Partner = c.pair.B.Rel
			}
			res.Repair()
		}
		finding := reports.NewFinding(c.results)
		faulty.Add(finding)
		r.out.bar.add(finding.Bad(), 0)
		if held.two && c.pair.B != nil {
			r.explain(c.pair, finding, rounding)
		}
		return r.out.add(finding, false)
	}
	err := ordered(r.ctx, r.a.jobs, all,
		func(p pairs.Pair) compared {
			c := r.o.compare(r.ctx, p, r.comparer)
			if held.two && p.B != nil && c.looked().Retyped() {
				c.judged = map[*capture.Entry]pairs.Judgement{p.A: r.judged(p.A), p.B: r.judged(p.B)}
			}
			if !held.two && p.Err == nil {
				r.skipOthers(p.A, c.results)
			}
			return c
		},
		func(c compared) error {
			r.tally.walked++
			if c.err != nil {
				r.tally.refused++
				r.out.unread(c.err)
				r.out.bar.warn(r.a, c.err)
				held.unread = true
			}
			r.settings.Hide(c.hidden)
			if len(c.results) == 0 {
				r.out.bar.add(false, 0)
				return nil
			}
			r.tally.captures++
			return held.add(c)
		})
	if err == nil {
		err = held.end()
	} else if r.ctx.Err() != nil {
		err = cmp.Or(held.release(), err) // what was finished is saved
	}
	if err := r.ended(err); err != nil {
		return err
	}
	if !held.two {
		r.out.digest.Next = "which side is wrong. compare only shows that the sides differ, which rounding does, " +
			"too. Where replay passes a value, trust replay:\n  " +
			strings.Join(r.o.command("replay", quotePath(r.paths[0])), " ")
	}
	if held.two {
		r.tellTwo(&held, &parted, faulty, steps, versions, sides)
		if err := r.a.parted(r.json, r.out.Summary, &parted); err != nil {
			return failed(err)
		}
		where := ""
		if at := r.out.First; at != nil {
			where = at.Capture
		}
		r.out.digest.Lead(where)
		if parted.Steps() && whole {
			r.out.digest.Next = "the step as one program, and what this did to the loss:\n  " + strings.Join(
				r.o.command("step", "--against", quotePath(r.paths[1]), quotePath(r.paths[0])), " ")
		}
	}
	return r.finish()
}

// tellTwo prints what two recordings have in common and what became of their faults. Reports begin with the same facts,
// the result first.
func (r *compareRun) tellTwo(held *holder, parted *pairs.Divergence, faulty reports.Faulty, steps pairs.Steps,
	versions pairs.Versions, sides []reports.Fact) {
	out := r.json.text()
	say := func(text string) { fmt.Fprintf(out, "%s\n\n", r.a.style().Wrap(reports.OneLine(text), 2)) }
	fact := func(name, text string) { r.out.Facts = append(r.out.Facts, reports.Fact{Name: name, Text: text}) }
	if text := faulty.String(); text != "" {
		fact("faults", text)
		say(fmt.Sprintf("Faults of %s, compared with those of %s: %s.", r.paths[0], r.paths[1], text))
		if faulty[reports.WrongInBoth] != nil && !r.a.quiet {
			fmt.Fprintf(out, "The calls that are still wrong are shown by\n  %s\n\n",
				strings.Join(r.o.command("replay", quotePath(r.paths[0])), " "))
		}
	}
	alone := parted.Alone()
	torch := versions.String(alone)
	if both := r.tally.captures - alone[0] - alone[1]; alone[0]+alone[1] > both && torch == "" {
		text := fmt.Sprintf("%s, %d in both", onlyIn(r.paths, alone), both)
		fact("the programs differ", text)
		say("The programs differ: " + text + ".")
		alone = [2]int{}
	}
	if torch != "" { // that sentence counts them
		alone = [2]int{}
	}
	if text := held.says(r.paths, parted.First(), alone); text != "" {
		fact("result", text)
		say(text)
	} else if !held.differs && r.tally.refused == 0 && r.out.Same.Calls > 0 {
		text := "No value differs between the recordings."
		if alone != [2]int{} {
			text = "No value differs between the calls of both recordings. " + onlyIn(r.paths, alone) + ": not compared."
		}
		fact("result", text)
		say(text)
	}
	r.out.Precision = held.precision.Record()
	if r.out.Precision != nil {
		fact("precision", held.precision.String())
		say(held.precision.String())
		if text := held.rounding.SaysAlone(held.precision.Calls, r.out.Same.Calls); text != "" {
			fact("judged by themselves", text)
			say(text)
		}
	}
	switch first := parted.Findings(); {
	case len(r.out.Facts) > 0:
	case parted.First() != nil:
		fact("the recordings part at "+reports.Name(first[0].Op), first[0].Target+": "+first[0].Reason)
	default:
		fact("compared", r.paths[0]+" with "+r.paths[1])
	}
	if torch != "" { // in the headline
		say(torch)
		first := &r.out.Facts[0]
		first.Text = strings.TrimSuffix(first.Text, ".") + ". " + torch
	}
	r.out.Facts = append(r.out.Facts, sides...)
	if text := r.out.Same.String(); text != "" {
		fact("calls not judged", text)
		say("Calls not judged: " + text + ".")
	}
	if text := steps.String([2]string(r.paths)); text != "" {
		fact("steps", strings.TrimPrefix(text, "note: "))
		say(text)
	}
}

// sides prints which of two recordings is the new one.
func (r *compareRun) sides() []reports.Fact {
	s := newAndOld{now: dated{name: r.paths[0], recorded: recordedAt(r.ctx, r.paths[0])},
		old:     dated{name: r.paths[1], recorded: recordedAt(r.ctx, r.paths[1])},
		swapped: strings.Join(r.o.command("compare", quotePath(r.paths[1]), quotePath(r.paths[0])), " ")}
	s.tell(r.a, r.json.text())
	return s.facts()
}

// parted writes where two recordings part, and what only one of them has.
func (a *app) parted(j *jsonOutput, s *reports.Summary, d *pairs.Divergence) error {
	s.First = d.First()
	for _, note := range d.Notes {
		if _, err := fmt.Fprintf(j.text(), "%s\n\n", a.style().Wrap(reports.OneLine(note), 2)); err != nil {
			return err
		}
	}
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

// noise reports whether a gradient of a recorded call is within its rounding error of zero. Only then does compare run
// the reference.
func (r *compareRun) noise(e *capture.Entry, target string) bool {
	out := replay.Run(e, replay.Options{Registry: r.a.known(), Read: r.o.read})
	return slices.ContainsFunc(out.Results, func(res replay.Result) bool {
		return res.Phase == replay.Backward && res.Target == target && res.Compared != nil && res.Compared.Residue
	})
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
