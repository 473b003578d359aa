package cli

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/tensor"
)

// replaced says where flags of op_tools' scripts and of diopi_test went that no command
// has, by the command, "" for all.
var replaced = map[string]map[string]string{
	"replay": {
		"sync_time_measure": "replay does not measure: optool time --sync_time_measure does",
	},
	"": {
		"pytest_args": "there is no pytest: conformance takes --fname, --filter_dtype and --test_cases_path to " +
			"select cases, and --jobs",
	},
}

// unheard are variables of op_tools' tools that watch a program while it runs, and what
// does something like it for recorded calls.
var unheard = map[string]string{
	"OP_OBSERVE_LIST":                "optool ls and show --op list what was recorded",
	"OP_OBSERVE_DISABLE_LIST":        "optool ls and show --not-op leave ops out",
	"OP_DISPATCH_WATCH_LIST":         "optool device LIBRARY PATH says which functions recorded calls need",
	"OP_DISPATCH_WATCH_DISABLE_LIST": "optool device LIBRARY PATH --not-op leaves ops out",
}

// warnUnheard names the variables that are set and do nothing here.
func (a *app) warnUnheard() {
	if a.quiet {
		return
	}
	var set []string
	for name := range unheard {
		if os.Getenv(name) != "" {
			set = append(set, name)
		}
	}
	slices.Sort(set)
	for _, name := range set {
		a.warn("%s is about a program that runs and does nothing here: %s", name, unheard[name])
	}
}

// flagError is the error of a flag that a command does not have: where it went, which commands
// have it, or which is spelt nearly so. Of a value that is no number it says what the flag takes.
func flagError(cmd *cobra.Command, err error) error {
	if wrong := new(pflag.InvalidValueError); errors.As(err, &wrong) {
		want := map[string]string{"int": "a whole number", "int64": "a whole number", "float64": "a number",
			"duration": "a time such as 30s or 5m"}
		if f := wrong.GetFlag(); want[f.Value.Type()] != "" {
			return usageError("--%s: want %s, got %q", f.Name, want[f.Value.Type()], wrong.GetValue())
		}
	}
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return err
	}
	for _, of := range []string{cmd.Name(), ""} {
		if where := replaced[of][name]; where != "" {
			return usageError("--%s: %s", name, where)
		}
	}
	var have, names []string
	for _, c := range cmd.Root().Commands() {
		if c.IsAvailableCommand() && flagOf(c, name) != nil {
			have = append(have, c.Name())
		}
	}
	if len(have) > 0 {
		return usageError("unknown flag: --%s, which is one of %s", name, strings.Join(have, ", "))
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	if near := conformance.Nearest("--"+name, names); near != "" {
		return usageError("unknown flag: --%s%s", name, near)
	}
	return err
}

// knownCommand is the Args of the root: it names commands that are spelt nearly as one
// that there is not.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usageError("unknown command %q%s", args[0], conformance.Nearest(args[0], names))
}

// newHelpCmd is cobra's, but of a topic that there is not it is wrong usage.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := cmd.Root().Find(args)
			if err != nil || c == nil || c == cmd.Root() && len(args) > 0 {
				return knownCommand(cmd.Root(), args)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range cmd.Root().Commands() {
				if len(args) == 0 && c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// completed has a shell complete the values of a flag, the last item of a list.
func completed(cmd *cobra.Command, flag string, values func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		var out []string
		for _, v := range values() {
			if strings.HasPrefix(v, typed[len(before):]) {
				out = append(out, before+v)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	if err != nil {
		panic(err) // the command has no such flag
	}
}

// completeSelection completes the values of the flags of a selection.
func completeSelection(cmd *cobra.Command) {
	names := func() []string {
		var all []string
		for _, e := range ops.Default().Entries() {
			all = append(all, e.Names...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	completed(cmd, "op", names)
	completed(cmd, "not-op", names)
	completed(cmd, "dtype", func() []string {
		var all []string
		for dt := range tensor.DType(255) {
			if dt.Computable() {
				all = append(all, dt.String())
			}
		}
		return all
	})
}
