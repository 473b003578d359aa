// Package cli is the command line: flags, environment, exit codes. One file
// per command holds its options, newXCmd and runX; what they do is in the
// other packages.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/internal/num/blas"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/replay"
)

// Main runs a command line (without the program's name) and returns the exit
// code. No panic leaves it.
func Main(args []string, s Streams) (code int) {
	defer func() {
		if r := recover(); r != nil {
			s.warn("internal error: %v%s", r, traceHint())
			traceStack(s, debug.Stack())
			code = ExitFailed
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	replay.ReportPanic = func(e *replay.InternalError) { traceStack(s, e.Stack) }
	a := &app{Streams: s, args: args, cutOff: new(atomic.Int32), reporting: new(reporting)}
	a.cutOff.Store(ExitInterrupted)
	defer a.interruptible(cancel)()
	root := newRootCmd(a)
	root.SetArgs(repeatListFlags(a.helpFlags(args)))
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, failed(a.helpErr))
	switch {
	case err == nil || err.Error() == "":
	case exitCode(err) == ExitInterrupted:
		a.tellInterrupted()
	default:
		s.fail(err)
		if exitCode(err) == ExitUsage {
			fmt.Fprintf(s.Err, "run \"%s --help\" for usage\n", cmd.CommandPath())
		}
	}
	return exitCode(err)
}

// After a signal the program stops computing and writes what is finished. It may take so long.
const (
	exitGrace   = 900 * time.Millisecond
	reportGrace = 20 * time.Second // more, if it writes reports then: those of many calls take seconds
)

// interruptible has a signal stop all computing and cancel what runs; what is not done
// soon afterwards is cut off with the exit code that the command asked for. A later signal ends the program at once;
// one within exitGrace is the same one, sent to the whole process group and passed on by a script. It returns what
// ends that.
func (a *app) interruptible(cancel context.CancelFunc) (end func()) {
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			quota.Stop()
			files.Cancel()
			cancel()
		case <-ended:
			return
		}
		select {
		case <-time.After(exitGrace):
			signal.Stop(signals)
		case <-ended:
			return
		}
		if a.reporting.under.Load() {
			a.warn("interrupted: writing the reports of what was judged; a second signal ends that")
			select {
			case <-time.After(reportGrace):
			case <-ended:
				return
			}
		}
		a.tellInterrupted()
		os.Exit(int(a.cutOff.Load()))
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}

// tellInterrupted says that the command was interrupted and, if that left reports unwritten, how to write them.
func (a *app) tellInterrupted() {
	if how := a.reporting.pending.Load(); how != nil {
		a.warn("interrupted: %s", *how)
		return
	}
	a.warn("interrupted")
}

func newRootCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "optool",
		Version: version(),
		Short:   "Find wrong operators in recorded PyTorch training",
		Long: `optool finds wrong operators in recorded PyTorch training. It reads the operator
calls that op_tools or "optool hook" recorded, computes each one again in float64 on
the CPU, and tells rounding from bugs. It needs no Python, torch or accelerator.

Exit codes: 0 all compared and passed, 1 differences found, 2 wrong usage,
3 could not run, nothing compared or some input refused, 130 interrupted.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.configure(cmd); err != nil {
				return err
			}
			if a.jobs < 1 {
				return usageError("--jobs: want at least 1, got %d", a.jobs)
			}
			if !slices.Contains([]string{"auto", "always", "never"}, a.color) {
				return usageError("--color: want auto, always or never, got %q", a.color)
			}
			if err := a.useBLAS(cmd); err != nil {
				return err
			}
			a.warnUnheard()
			if err := a.useOperators(); err != nil {
				return err
			}
			_, err := a.readMode()
			return err
		},
	}
	cmd.SetVersionTemplate(versionLine() + revisionLine(buildInfo(), version()) + featuresLine())
	cmd.SetFlagErrorFunc(flagError)
	cmd.SetHelpCommand(newHelpCmd())
	cmd.SetHelpFunc(a.help)
	cmd.SetGlobalNormalizationFunc(spelling)
	cmd.SetOut(a.Out)
	cmd.SetErr(a.Err)
	cmd.SetIn(a.In)
	f := cmd.PersistentFlags()
	f.BoolVar(&a.quiet, "quiet", false, "print only findings and totals, and no progress")
	f.StringVar(&a.color, "color", "auto",
		"use colours: always, never, or auto (only on a terminal; NO_COLOR and CLICOLOR_FORCE are respected)")
	f.StringVar(&a.read, "read", "mmap", "how files are read, `MODE`: mmap, or plain (faster on network disks)")
	f.IntVar(&a.jobs, "jobs", runtime.GOMAXPROCS(0), "work on this many calls in parallel")
	f.StringVar(&a.blas, "blas", "auto",
		"compute large float64 products with auto (OpenBLAS if found), go, or the library at this path (OPTOOL_BLAS)")
	f.StringArrayVar(&a.operators, "ops", nil,
		"load your own operators from `FILE` or a folder (docs/custom-ops.md); repeatable (OPTOOL_OPS)")
	f.Bool("help-all", false, "describe all flags")

	cobra.EnableCommandSorting = false // what one needs first comes first
	group := func(title string, commands ...*cobra.Command) {
		cmd.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
			cmd.AddCommand(c)
		}
	}
	group("Record", newHookCmd(a))
	group("Find what is wrong", newReplayCmd(a), newStepCmd(a), newCompareCmd(a), newCheckCmd(a))
	group("Follow a finding", newExplainCmd(a), newReduceCmd(a), newBundleCmd(a))
	group("Look", newLsCmd(a), newShowCmd(a), newViewCmd(a), newReportCmd(a))
	group("Devices and operators", newDeviceCmd(a), newTimeCmd(a), newConformanceCmd(a), newOpsCmd(a))
	group("Clusters", newSlurmCmd(a), newKubernetesCmd(a))
	group("optool itself", newVersionCmd(a), newManCmd(a))
	cmd.SetCompletionCommandGroupID("optool itself")
	cmd.SetHelpCommandGroupID("optool itself")
	describeCompletion(cmd)
	return cmd
}

// useBLAS follows --blas or, where that was not given, OPTOOL_BLAS.
func (a *app) useBLAS(cmd *cobra.Command) error {
	which, source := a.blas, "--blas"
	if env := os.Getenv("OPTOOL_BLAS"); env != "" && !cmd.Flags().Changed("blas") {
		which, source = env, "OPTOOL_BLAS"
	}
	if err := blas.Use(which); err != nil {
		return usageError("%s: %w", source, err)
	}
	return nil
}
