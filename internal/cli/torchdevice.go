package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/replay/ontorch"
)

const defaultPython = "python3"

// torchFlags say how PyTorch's devices are reached.
type torchFlags struct {
	python  string
	imports []string
	maps    map[string]string
}

func (t *torchFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.python, "python", defaultPython, "run --device torch:DEVICE with this `PROGRAM`")
	f.StringSliceVar(&t.imports, "torch-import", nil,
		"import this `MODULE` to add the device to PyTorch (default: torch_npu for npu, torch_mlu for mlu, "+
			"...)")
	f.StringToStringVar(&t.maps, "map-function", nil,
		"call another function for an operator on --device torch:DEVICE: `NAME=MODULE:FUNCTION`")
}

// isOtherPython reports whether a Python is on this machine, and is another one than --device runs by default: that may
// have no torch.
func isOtherPython(path string) bool {
	if info, err := os.Stat(path); err != nil || info.IsDir() || !filepath.IsAbs(path) {
		return false
	}
	found, err := exec.LookPath(defaultPython)
	return err != nil || found != path
}

// repro are the flags that say the same in a command line.
func (t *torchFlags) repro() []string {
	var args []string
	if t.python != "" && t.python != defaultPython {
		args = append(args, "--python", quoteProgram(t.python))
	}
	for _, m := range t.imports {
		args = append(args, "--torch-import", quote(m))
	}
	return append(args, mapped("--map-function", t.maps)...)
}

// withModules is a command that runs on a device, in the environment in which Python finds the modules of this run.
func (d *deviceFlags) withModules(args []string) string {
	text := strings.Join(args, " ")
	paths := os.Getenv("PYTHONPATH")
	if paths == "" || !isTorch(d.device) && !isTorch(d.against) || strings.HasPrefix(text, "PYTHONPATH=") {
		return text
	}
	all := filepath.SplitList(paths)
	for i, p := range all {
		all[i] = absolute(p)
	}
	return "PYTHONPATH=" + quote(strings.Join(all, string(filepath.ListSeparator))) + " " + text
}

// mapped are flags that say which functions a device calls for operators.
func mapped(flag string, functions map[string]string) (args []string) {
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		args = append(args, flag, quote(name+"="+functions[name]))
	}
	return args
}

// useTorch starts a device of PyTorch, to measure it alone or to check it beside others.
// release gives it back.
func (d *deviceFlags) useTorch(ctx context.Context, a *app, name string, alone bool, opt ontorch.Options) (
	dev *ontorch.Device, ready readiness, release func(), err error) {
	if d.adaptor != "" && (d.against == "" || isTorch(d.against)) {
		return nil, nil, nil, usageError("--adaptor: it is for libraries, and --device is %s", d.device)
	}
	config, err := d.torchConfig(name)
	if err != nil {
		return nil, nil, nil, err
	}
	unlock, err := d.lock(ctx, a, alone)
	if err != nil {
		return nil, nil, nil, failed(err)
	}
	td, err := torchbridge.Start(ctx, config)
	if err != nil {
		unlock()
		return nil, nil, nil, failed(err)
	}
	ready = func(say func(string)) (string, error) {
		if err := td.Ready(); err != nil {
			return "", failed(err)
		}
		described := describeTorch(d.device, td.Info())
		say(described)
		return described, nil
	}
	return ontorch.New(ctx, td, opt), ready, func() {
		td.Close()
		unlock()
	}, nil
}

// openTorch starts Python on a device of PyTorch and waits for it.
func (d *deviceFlags) openTorch(ctx context.Context, name string) (*torchbridge.Device, error) {
	config, err := d.torchConfig(name)
	if err != nil {
		return nil, err
	}
	td, err := torchbridge.Open(ctx, config)
	return td, failed(err)
}

// torchConfig is how a device of PyTorch is started.
func (d *deviceFlags) torchConfig(name string) (torchbridge.Config, error) {
	if name == "" {
		return torchbridge.Config{}, usageError("%s names no device of PyTorch, as torch:cpu and torch:cuda:0 do",
			d.device)
	}
	return torchbridge.Config{Device: name, Python: d.torch.python, Import: d.torch.imports, Map: d.torch.maps,
		Workers: d.devices, Timeout: cmp.Or(d.timeout, deviceTimeout)}, nil
}

// describeTorch is one line about a device of PyTorch for people.
func describeTorch(name string, i torchbridge.Info) string {
	text := fmt.Sprintf("device %s: %s, torch %s", name, i.Name, i.Torch)
	for _, m := range slices.Sorted(maps.Keys(i.Plugins)) {
		text += strings.TrimRight(fmt.Sprintf(", %s %s", m, i.Plugins[m]), " ")
	}
	return fmt.Sprintf("%s, Python %s (%s)", text, i.Python, i.Executable)
}

// quoteProgram is a program for a command that is run from another directory: one that is
// looked for on PATH stays as it is.
func quoteProgram(name string) string {
	if strings.ContainsRune(name, '/') {
		return quotePath(name)
	}
	return quote(name)
}
