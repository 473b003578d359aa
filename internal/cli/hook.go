package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/hook"
	"github.com/optool/optool/reports"
)

func newHookCmd(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Print the recorder: a Python file that records calls of a PyTorch program",
		Long: `hook prints the recorder: a Python file that records the operator calls of a PyTorch
program on any device. It needs only torch 1.13 or newer.

Save it beside the program as optool_capture.py and write

    import optool_capture
    with optool_capture.record("captures", steps=[3]) as recording:
        for batch in loader:
            train(batch)
            recording.step()

Or save it as DIR/sitecustomize.py and do not change the program:

    export OPTOOL_CAPTURE=captures OPTOOL_CAPTURE_STEPS=3
    PYTHONPATH=DIR python train.py`,
		Example: `  optool hook --out optool_capture.py
  optool hook --out site/sitecustomize.py
  optool hook | less`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if out == "" || out == "-" {
				_, err := io.WriteString(a.Out, hook.Source)
				return failed(err)
			}
			return failed(writeHook(a, out))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write to `FILE`, or into a directory, not to standard output")
	return cmd
}

func writeHook(a *app, path string) error {
	if info, err := os.Stat(path); strings.HasSuffix(path, "/") || err == nil && info.IsDir() {
		path = filepath.Join(path, hook.Name)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(hook.Source), 0o666); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Err, "recorder written to %s\n", reports.OneLine(path))
	return err
}
