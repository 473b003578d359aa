package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/reduce"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
)

type reduceOptions struct {
	selection
	deviceFlags
	tolerances toleranceFile
	out        string
	total      time.Duration
}

// reduceTime is how long a reduction may take if nothing else is said.
const reduceTime = time.Minute

func newReduceCmd(a *app) *cobra.Command {
	o := reduceOptions{total: reduceTime}
	cmd := &cobra.Command{
		Use:   "reduce PATH",
		Short: "Find the smallest call that still fails",
		Long: `reduce looks for the smallest call that still fails: fewer rows, columns, batches and
arguments, contiguous, with simple values, in float32. Of several calls it takes the
first wrong one.

With --device it runs each candidate on the device, and says on which sizes the
failure depends. Without a device it cuts the recorded call as far as the recorded
results can still be compared.

reduce writes the call to a directory that op_tools can read, too. The exit codes are
those of replay: 1 if the call fails.`,
		Example: `  optool reduce op_tools_results
  optool reduce --device ./libdiopi_impl.so -o small op_tools_results`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, paths []string) error { return runReduce(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	o.deviceFlags.addWhich(cmd, "none",
		"what fails: none, the recorded results; host, the built-in device; the path of a DIOPI "+
			"`LIBRARY`; or torch:DEVICE, a device of PyTorch")
	o.addReplay(cmd)
	f := cmd.Flags()
	f.Var((*timeLimit)(&o.total), "timeout", "look for a smaller call for at most this `TIME`")
	o.tolerances.addFlag(cmd)
	f.StringVarP(&o.out, "out", "o", "reduced", "write the reduced call to `DIR`")
	return cmd
}

// onePath is the Args of commands that take one PATH.
func onePath(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError("%s: want one PATH, got %d", cmd.Name(), len(args))
	}
	return nil
}

// perCall is how long one call on a device may take within a total.
func perCall(total time.Duration) time.Duration { return max(total/6, min(total, time.Second)) }

func runReduce(cmd *cobra.Command, a *app, o *reduceOptions, paths []string) error {
	if err := o.deviceFlags.check(); err != nil {
		return err
	}
	opt, err := o.judging(cmd, a, o.tolerances)
	if err != nil {
		return err
	}
	if err := o.writable(); err != nil {
		return err
	}
	ctx, lim := cmd.Context(), newLimits(o.memory, referenceTimeout)
	if !o.none() {
		o.deviceFlags.timeout = perCall(o.total)
		dev, err := o.checked(cmd, a)
		if err != nil {
			return err
		}
		defer dev.release()
		if _, err := dev.ready(a.say); err != nil {
			return err
		}
		opt.Device = dev.Device
	}
	e, err := o.firstWrong(ctx, a, "reduce", lim, opt, paths)
	if err != nil || e == nil {
		return err
	}
	rec, err := e.Load(capture.LoadOptions{Read: o.read, Verify: true})
	if err != nil {
		rec.Close()
		return failed(err)
	}
	defer rec.Close()
	r, err := within(ctx, lim, e.Bytes(), func() (*reduce.Reduction, error) {
		return reduce.Of(ctx, rec, opt, time.Now().Add(o.total))
	})
	switch {
	case errors.Is(err, reduce.ErrSound):
		fmt.Fprintf(a.Out, "%s%s: %v\n", reports.Name(rec.Op), inTree(e), err)
		return nil
	case err != nil:
		return failed(fmt.Errorf("%s%s: %w", rec.Op, inTree(e), err))
	}
	text := []byte(o.text(reports.Style{Width: 80}, e, r))
	if err := errors.Join(mark(o.out), r.Call.Write(o.out),
		os.WriteFile(filepath.Join(o.out, reductionFile), text, 0o666)); err != nil {
		return failed(err)
	}
	if err := o.print(a.Out, a.style(), e, r); err != nil {
		return err
	}
	return exitWith(ExitDiffers)
}

// writable reports whether the directory is new, empty, or one that optool wrote.
func (o *reduceOptions) writable() error {
	files, err := os.ReadDir(o.out)
	if err == nil && len(files) > 0 && !capture.Marked(o.out) {
		return failed(fmt.Errorf("%s: the directory holds files that optool did not write", o.out))
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".pth") {
			if err := os.Remove(filepath.Join(o.out, f.Name())); err != nil {
				return failed(err)
			}
		}
	}
	return nil
}

// reductionFile is the file beside a reduced call that says what became of it. bundle packs it.
const reductionFile = "reduction.txt"

// print says what became of the call.
func (o *reduceOptions) print(w io.Writer, st reports.Style, e *capture.Entry, r *reduce.Reduction) error {
	_, err := fmt.Fprintf(w, "%swritten to %s\nagain: %s\nfor a vendor: %s\n", o.text(st, e, r), reports.OneLine(o.out),
		reports.Command(o.repro("replay", "--tables")), reports.Command(o.repro("bundle")))
	return err
}

// text says what became of the call, and what its failure depends on.
func (o *reduceOptions) text(st reports.Style, e *capture.Entry, r *reduce.Reduction) string {
	var b strings.Builder
	where := fmt.Sprintf("the %s pass", r.Phase)
	if r.Phase == replay.Input {
		where = "an argument after the call"
	}
	fmt.Fprintf(&b, "%s%s: %s in %s\n", st.Bold(r.Call.Op), inTree(e),
		st.Paint(r.Verdict, string(r.Verdict)), where)
	for _, s := range r.Was {
		fmt.Fprintf(&b, "  recorded  %s\n", s)
	}
	now := "smallest"
	if o.none() {
		now = "cut to"
	}
	for _, s := range r.Is {
		fmt.Fprintf(&b, "  %-8s  %s\n", now, s)
	}
	cut := !slices.Equal(r.Was, r.Is)
	if o.none() && !cut && r.Done {
		b.WriteString(st.Wrap("nothing can be cut: without a device, a smaller call is compared with a part of the recorded "+
			"value that is wrong, and each cut changes all of it: it may be a sum over the batch, as the gradient of a "+
			"weight is. With --device, the device runs smaller calls", 2) + "\n")
	}
	line := func(label, text string) {
		fmt.Fprintf(&b, "%s %s\n", st.Bold(label), st.Hang(label+" ", text, 2))
	}
	fails := "it fails:"
	if o.none() {
		fails = "the recorded value:"
	}
	line(fails, reports.OneLine(r.Failure))
	if r.Cause != nil {
		cause := results.OfCause(e, *r.Cause)
		line(cause.Label()+":", reports.OneLine(cause.String()))
	}
	if o.none() && cut {
		fmt.Fprintf(&b, "%s\n", st.Wrap("nothing was run: these are the recorded values, cut. A device may compute the smaller "+
			"call otherwise; --device runs it", 2))
	}
	if r.Verdict == verdict.Timeout {
		fmt.Fprintf(&b, "%s\n", st.Wrap(fmt.Sprintf("each call had %v, a sixth of --timeout: a longer one tells a slow call "+
			"from one that hangs", perCall(o.total)), 2))
	}
	only := "only if"
	if o.none() {
		only = "where:"
	}
	for _, s := range r.Depends {
		line(only, s)
	}
	if len(r.Indifferent) > 0 {
		line("whatever:", strings.Join(r.Indifferent, "; "))
	}
	for _, s := range r.Unclear {
		line("unclear:", s)
	}
	fmt.Fprintf(&b, "%s run", reports.Count(r.Runs, "call"))
	if !r.Done {
		fmt.Fprintf(&b, ", then the time was up: --timeout allows more than %v", o.total)
	}
	b.WriteByte('\n')
	return b.String()
}

// repro is the command line of another command for the reduced call.
func (o *reduceOptions) repro(command string, flags ...string) string {
	args := append(o.command(command, flags...), o.tolerances.repro()...)
	args = append(args, o.deviceFlags.repro()...)
	return o.withModules(append(args, quotePath(o.out)))
}
