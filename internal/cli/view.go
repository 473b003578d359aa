//go:build !lite

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/browse"
	"github.com/optool/optool/reports/rundir"
)

type viewOptions struct{ port int }

func newViewCmd(a *app) *cobra.Command {
	var o viewOptions
	cmd := &cobra.Command{
		Use:   "view RUN|PATH...",
		Short: "Show the results of a run, and tensors, in a browser",
		Long: `view serves the results of a run as pages in a browser: sort, filter, open a result,
and see a slice of its tensor with a map of the errors. RUN is a file of JSON lines
that --json of replay, compare, check or conformance wrote; the tensors come from the
captures under PATH. A PATH without a RUN is replayed first. With two RUNs the second is
the newer one, and the page shows both results side by side.

view prints an address with a token, and answers nothing without the token. It serves
only this machine, changes nothing and reads no other file. Ctrl-C ends it.`,
		Example: `  optool view op_tools_results
  optool view run.jsonl op_tools_results
  optool view before.jsonl after.jsonl op_tools_results`,
		Args: somePaths,
		RunE: func(cmd *cobra.Command, args []string) error { return runView(cmd, a, &o, args) },
	}
	cmd.Flags().IntVar(&o.port, "port", 0, "listen on `PORT`; 0 picks a free one")
	return cmd
}

func runView(cmd *cobra.Command, a *app, o *viewOptions, args []string) error {
	if o.port < 0 || o.port > 65535 {
		return usageError("--port: want 0 to 65535, got %d", o.port)
	}
	server, closed, err := a.viewer(cmd.Context(), args)
	if err != nil {
		return err
	}
	defer closed()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return failed(err)
	}
	fmt.Fprintf(a.Out, "http://%s%s\n", listener.Addr(), server.Path())
	if !a.quiet {
		fmt.Fprintln(a.Err, "open the address in a browser on this machine; Ctrl-C ends it")
	}
	if a.cutOff != nil {
		a.cutOff.Store(ExitOK) // Ctrl-C is its end, however long that takes
	}
	return failed(serve(cmd.Context(), listener, server))
}

// viewer is the server of the runs and captures that args name, until closed is called.
func (a *app) viewer(ctx context.Context, args []string) (_ *browse.Server, _ func(), err error) {
	var ends []func()
	closed := func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}
	defer func() {
		if err != nil {
			closed()
		}
	}()
	dir, err := os.MkdirTemp("", "optool-view-*")
	if err != nil {
		return nil, nil, failed(err)
	}
	ends = append(ends, func() { os.RemoveAll(dir) })
	var files, trees []string
	for _, arg := range args {
		if isRun(arg) {
			files = append(files, arg)
		} else {
			trees = append(trees, arg)
		}
	}
	names := files
	if len(files) == 0 {
		file := filepath.Join(dir, "run.jsonl")
		if err := a.replayInto(ctx, file, dir, trees); err != nil {
			return nil, nil, err
		}
		files, names = []string{file}, trees[:1]
	}
	if len(files) > 2 {
		return nil, nil, usageError("view: want at most two RUNs, got %d", len(files))
	}
	var runs []browse.Run
	for i, path := range files {
		rec, err := a.readRecording(path)
		if err != nil {
			return nil, nil, failed(err)
		}
		ends = append(ends, func() { rec.Close() })
		if why := noResults(rec); why != "" {
			return nil, nil, &exitError{ExitFailed, fmt.Errorf("%s: %s", path, why)}
		}
		runs = append(runs, browse.Run{Name: names[i], Recording: rec})
	}
	var open browse.Opener
	if len(trees) > 0 {
		if open, err = a.opener(ctx, trees); err != nil {
			return nil, nil, err
		}
	}
	server, err := browse.New(dir, runs, open)
	if err != nil {
		return nil, nil, failed(err)
	}
	ends = append(ends, func() { server.Close() })
	return server, closed, nil
}

// serve answers requests until the context is done.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 1 << 16}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// isRun reports whether a path is a file of JSON lines, or the directory of a run.
func isRun(path string) bool {
	info, err := os.Stat(path)
	switch {
	case rundir.Is(path):
		return true
	case err != nil || !info.Mode().IsRegular(): // a pipe can be read once, and is no tree of captures
		return err == nil && info.Mode()&os.ModeNamedPipe != 0
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(f, first)
	return err == nil && first[0] == '{'
}

// replayInto replays the captures under paths and writes the records to a file; what
// replay saves besides goes below dir.
func (a *app) replayInto(ctx context.Context, file, dir string, paths []string) error {
	quiet := *a
	quiet.Out, quiet.quiet = io.Discard, true
	cmd := newReplayCmd(&quiet)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"--json", file, "--out", dir}, paths...))
	err := cmd.ExecuteContext(ctx)
	if code := exitCode(err); code == ExitUsage || code == ExitInterrupted || err != nil && err.Error() != "" {
		return err
	}
	return nil
}

// opener opens values of the captures under paths, and of no others.
func (a *app) opener(ctx context.Context, paths []string) (browse.Opener, error) {
	mode, err := a.readMode()
	if err != nil {
		return nil, err
	}
	entries := map[string]*capture.Entry{}
	for e, err := range capture.Scan(ctx, paths, capture.Options{}) {
		if err == nil {
			entries[e.Rel] = e
		}
	}
	opt, lim := replay.Options{Registry: a.known(), Read: mode}, newLimits(0, referenceTimeout)
	return func(name, phase, target string) (*browse.Value, error) {
		e := entries[name]
		if e == nil {
			return nil, fmt.Errorf("no capture %s under the given paths", reports.OneLine(name))
		}
		return within(ctx, lim, e.Bytes(), func() (*browse.Value, error) { return openValue(e, opt, phase, target) })
	}, nil
}

// openValue replays a call and takes one of its values.
func openValue(e *capture.Entry, opt replay.Options, phase, target string) (*browse.Value, error) {
	call := replay.Open(e, opt)
	outcome := call.Compare()
	for i := range outcome.Results {
		r := &outcome.Results[i]
		if string(r.Phase) != phase || r.Target != target {
			continue
		}
		if got, want, ok := call.Pair(r); ok {
			return &browse.Value{Got: got, Want: want, Compared: r.Compared, Close: func() { call.Close() }}, nil
		}
	}
	call.Close()
	return nil, errors.New("the reference has no such tensor")
}
