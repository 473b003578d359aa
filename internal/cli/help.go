package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/optool/optool/reports"
)

// A flagGroup is a heading of --help-all, with the flags below it in order.
type flagGroup struct {
	title string
	flags []string
}

// flagGroups holds the flags of all commands. A flag that belongs to no other group is in the last: that of one
// command.
var flagGroups = []flagGroup{
	{"Select calls", []string{"op", "not-op", "dtype", "where", "only_run_forward", "fuse", "target", "fname",
		"filter_dtype", "case", "test_cases_path", "model_name", "all"}},
	{"Verdict", []string{"acc_check", "tolerances", "strict", "fail-on", "known", "run_times", "sample", "full", "threshold"}},
	{"Device", []string{"device", "against-device", "devices", "repeat", "stress", "adaptor", "fallback", "dtype-cast",
		"convert-config", "python", "against-python", "torch-import", "against-torch-import",
		"map-function", "against-map-function"}},
	{"Output", []string{"tables", "sort", "html", "json", "csv", "csv-bom", "xlsx", "junit", "markdown", "sqlite", "write-known",
		"out", "save-reference", "graph", "dot", "mermaid", "plot", "trace", "bench", "html_report",
		"test_result_path", "error_report", "db_path", "use_db"}},
	{"Large runs", []string{"run", "resume", "shard", "budget", "timeout", "memory", "jobs", "read", "exit-zero"}},
	{"Every command", []string{"quiet", "color", "ops", "blas", "help", "help-all", "version"}},
	{"This command", nil},
}

// mainFlags are the flags that --help describes, of the commands that have many.
var mainFlags = map[string][]string{
	"replay": {"op", "dtype", "tolerances", "fail-on", "known", "device", "against-device", "tables", "html", "json", "xlsx",
		"out", "run", "resume"},
	"step": {"against", "of", "exact", "in", "device", "tolerances", "fail-on", "html", "json"},
	"compare": {"op", "tolerances", "fail-on", "known", "map", "unshard", "rows", "results", "time", "tables", "html", "json",
		"xlsx"},
	"check": {"op", "dtype", "all", "html", "json", "xlsx", "run", "resume"},
	"time": {"op", "device", "against-device", "run_times", "acc_check", "all", "cache", "budget", "threshold", "html",
		"json", "xlsx", "trace"},
	"conformance": {"mode", "fname", "filter_dtype", "case", "configs", "model_name", "cache_dir", "device",
		"impl_folder", "test_cases_path", "html_report", "test_result_path", "json"},
	"reduce": {"op", "device", "tolerances", "out", "timeout"},
	"bundle": {"op", "device", "tolerances", "out"},
	"device": {"captures", "check", "dtypes", "missing", "json", "csv", "html", "build-worker", "adaptor"},
}

// helpWidth is the widest line of help: that of the terminal, and not more than one reads with ease.
func (a *app) helpWidth() int {
	if width := a.outputWidth(); width > 0 {
		return min(width, 100)
	}
	return 80
}

// helpFlags reads --help-all, which asks for help wherever it stands before "--".
func (a *app) helpFlags(args []string) []string {
	before := args
	if i := slices.Index(args, "--"); i >= 0 {
		before = args[:i]
	}
	i := slices.IndexFunc(before, func(arg string) bool { return spelling(nil, arg) == "--help-all" })
	if i < 0 {
		return args
	}
	a.helpAll = true
	args = slices.Clone(args)
	args[i] = "--help"
	return args
}

// help prints what a command is for, its usage, examples and flags. cobra has no way to return an error of a
// help function: what could not be written is kept for Main.
func (a *app) help(cmd *cobra.Command, _ []string) {
	var text bytes.Buffer
	a.writeHelp(&text, cmd)
	_, a.helpErr = text.WriteTo(cmd.OutOrStdout())
}

func (a *app) writeHelp(w io.Writer, cmd *cobra.Command) {
	width := a.helpWidth()
	for paragraph := range strings.SplitSeq(cmp.Or(strings.TrimSpace(cmd.Long), cmd.Short+"."), "\n\n") {
		if !strings.HasPrefix(paragraph, " ") {
			paragraph = wrap("", paragraph, width)
		}
		fmt.Fprintf(w, "%s\n\n", strings.TrimSuffix(paragraph, "\n"))
	}
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		commandList(w, cmd, width)
	}
	flags := commandFlags(cmd)
	first, many := mainFlags[cmd.Name()]
	if !many || a.helpAll {
		for _, g := range groupsOf(flags) {
			fmt.Fprintf(w, "\n%s:\n%s", g.title, usages(flags, g.flags, width))
		}
		return
	}
	fmt.Fprintf(w, "\nMain flags:\n%s", usages(flags, first, width))
	fmt.Fprintf(w, "\nOther flags (\"%s --help-all\" describes them):\n", cmd.CommandPath())
	for _, g := range groupsOf(flags) {
		var rest []string
		for _, name := range g.flags {
			if !slices.Contains(first, name) {
				rest = append(rest, "--"+name)
			}
		}
		if len(rest) > 0 {
			fmt.Fprint(w, wrap(fmt.Sprintf("  %-15s", g.title), strings.Join(rest, " "), width))
		}
	}
}

// commandList prints the commands below a command by their groups, in the order of their declaration.
func commandList(w io.Writer, cmd *cobra.Command, width int) {
	var groups []string
	for _, g := range cmd.Groups() {
		groups = append(groups, g.ID)
	}
	if len(groups) == 0 {
		groups = []string{""}
	}
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s:\n", cmp.Or(g, "Commands"))
		for _, c := range cmd.Commands() {
			if c.GroupID == g && c.IsAvailableCommand() {
				fmt.Fprint(w, wrap(fmt.Sprintf("  %-11s", c.Name()), c.Short, width))
			}
		}
	}
	fmt.Fprintf(w, "\n\"%s COMMAND --help\" describes a command.\n", cmd.CommandPath())
}

// commandFlags are all flags of a command by name, those of every command among them.
func commandFlags(cmd *cobra.Command) map[string]*pflag.Flag {
	flags := map[string]*pflag.Flag{}
	add := func(f *pflag.Flag) {
		if !f.Hidden && !(readsNothing[cmd.Name()] && slices.Contains(readingFlags, f.Name)) {
			flags[f.Name] = f
		}
	}
	cmd.InheritedFlags().VisitAll(add)
	cmd.LocalFlags().VisitAll(add)
	return flags
}

// readingFlags are flags about how recordings are read and computed. Every command takes them, since they may stand in
// optool.yaml; the help of those in readsNothing leaves them out.
var readingFlags = []string{"jobs", "read", "blas", "ops"}

// readsNothing are commands that read no recording and compute nothing.
var readsNothing = map[string]bool{"hook": true, "completion": true, "man": true, "version": true, "slurm": true,
	"kubernetes": true}

// groupsOf puts flags below their headings. Flags in no group come last, by name.
func groupsOf(flags map[string]*pflag.Flag) []flagGroup {
	var groups []flagGroup
	grouped := map[string]bool{}
	for _, g := range flagGroups[:len(flagGroups)-1] {
		var have []string
		for _, name := range g.flags {
			grouped[name] = true
			if flags[name] != nil {
				have = append(have, name)
			}
		}
		if len(have) > 0 {
			groups = append(groups, flagGroup{g.title, have})
		}
	}
	var own []string
	for name := range flags {
		if !grouped[name] {
			own = append(own, name)
		}
	}
	if len(own) > 0 {
		slices.Sort(own)
		groups = append([]flagGroup{{flagGroups[len(flagGroups)-1].title, own}}, groups...)
	}
	return groups
}

// valueNames are what the help calls the values of flags whose usage does not name them.
var valueNames = map[string]string{"int": "N", "uint": "N", "float": "NUMBER", "string": "TEXT", "strings": "LIST",
	"stringArray": "NAME", "duration": "TIME"}

// usages describes the flags of these names that there are: the flag, and what it does from a column on.
func usages(flags map[string]*pflag.Flag, names []string, width int) string {
	const column = 24
	var b strings.Builder
	for _, name := range names {
		f := flags[name]
		if f == nil {
			continue
		}
		value, text := pflag.UnquoteUsage(f)
		head := "      --" + f.Name
		if f.Shorthand != "" {
			head = "  -" + f.Shorthand + ", --" + f.Name
		}
		if value != "" {
			head += " " + cmp.Or(valueNames[value], value)
		}
		if !slices.Contains([]string{"", "[]", "false", "0", "0s"}, f.DefValue) && !strings.Contains(text, "(default") {
			text += " (default " + strings.Trim(f.DefValue, "[]") + ")"
		}
		if len(head) > column {
			b.WriteString(head + "\n")
			head = ""
		}
		b.WriteString(wrap(fmt.Sprintf("%-*s", column, head), text, width))
	}
	return b.String()
}

// wrap breaks text between words into lines of a width: the first follows the prefix, the others are
// indented as far.
func wrap(prefix, text string, width int) string {
	if prefix != "" {
		prefix += " "
	}
	text = strings.Join(strings.Fields(text), " ")
	return prefix + reports.Style{Width: width}.Wrap(text, len(prefix)) + "\n"
}

// underscored are the flags that op_tools' scripts and diopi_test spell with underscores.
var underscored = []string{"acc_check", "run_times", "only_run_forward", "sync_time_measure", "group_by_input_shape",
	"row_limit", "sort_by", "cache_dir", "case_output_dir", "db_path", "error_report", "failure_debug_level",
	"filter_dtype", "four_bytes", "get_model_list", "html_report", "impl_folder", "model_name", "nhwc_min_dim",
	"test_cases_path", "test_result_path", "use_db"}

// spelling has each flag answer to dashes and to underscores.
func spelling(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if with := strings.ReplaceAll(name, "-", "_"); slices.Contains(underscored, with) {
		return pflag.NormalizedName(with)
	}
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}
