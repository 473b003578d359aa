package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand calls f with the root and each command below it.
func everyCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		everyCommand(c, f)
	}
}

// TestHelp: the help of each command keeps to 80 columns, but for examples, and --help-all describes every
// flag once. --help names every flag.
func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	var names []string
	everyCommand(newRootCmd(&app{Streams: System()}), func(c *cobra.Command) {
		names = append(names, strings.TrimPrefix(c.CommandPath(), "optool"))
	})
	for _, name := range names {
		for _, flag := range []string{"--help", "--help-all", "--help_all"} {
			var out bytes.Buffer
			if code := Main(append(strings.Fields(name), flag), Streams{Out: &out, Err: &out}); code != ExitOK {
				t.Fatalf("optool%s %s: exit code %d:\n%s", name, flag, code, out.String())
			}
			text, after, _ := strings.Cut(out.String(), "\nExamples:\n")
			if _, rest, ok := strings.Cut(after, "\n\n"); ok {
				text += rest
			}
			for line := range strings.SplitSeq(text, "\n") {
				if len([]rune(line)) > 80 {
					t.Errorf("optool%s %s: a line of %d columns: %s", name, flag, len(line), line)
				}
			}
			cmd, _, _ := newRootCmd(&app{Streams: System()}).Find(strings.Fields(name))
			cmd.InitDefaultHelpFlag()
			each := func(f *pflag.Flag) {
				if readsNothing[cmd.Name()] && slices.Contains(readingFlags, f.Name) {
					return
				}
				if n := strings.Count(text, "--"+f.Name+" ") + strings.Count(text, "--"+f.Name+"\n"); n == 0 {
					t.Errorf("optool%s %s does not name --%s", name, flag, f.Name)
				}
			}
			cmd.LocalFlags().VisitAll(each)
			cmd.InheritedFlags().VisitAll(each)
		}
	}
}

// TestFlagGroups: what the tables of the help name exists, a flag is in one group only, and a flag of several commands
// is in one.
func TestFlagGroups(t *testing.T) {
	flags := map[string]int{} // commands that have it
	root := newRootCmd(&app{Streams: System()})
	everyCommand(root, func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.InitDefaultVersionFlag()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { flags[f.Name]++ })
	})
	grouped := map[string]bool{}
	for _, g := range flagGroups {
		for _, name := range g.flags {
			if grouped[name] {
				t.Errorf("--%s is in two groups", name)
			}
			if flags[name] == 0 {
				t.Errorf("group %q: no command has --%s", g.title, name)
			}
			grouped[name] = true
		}
	}
	// Those of a job on a cluster, and those that say something else in each command.
	apart := []string{"name", "cpus", "mem", "time", "retries", "resolution", "seed", "check", "no-descriptions"}
	for name, n := range flags {
		if n > 1 && !grouped[name] && !slices.Contains(apart, name) {
			t.Errorf("--%s of %d commands is in no group: add it to flagGroups", name, n)
		}
	}
	for command, names := range mainFlags {
		cmd, _, err := root.Find([]string{command})
		if err != nil || cmd == root {
			t.Errorf("main flags of %s, which is no command", command)
		}
		for _, name := range names {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("main flags: %s has no --%s", command, name)
			}
		}
	}
}

// TestSpelling: a flag answers to dashes and to underscores, and keeps its own name.
func TestSpelling(t *testing.T) {
	var names []string
	root := newRootCmd(&app{Streams: System()})
	everyCommand(root, func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, name := range []string{f.Name, strings.ReplaceAll(f.Name, "_", "-"),
				strings.ReplaceAll(f.Name, "-", "_")} {
				if c.Flags().Lookup(name) != f {
					t.Errorf("%s: --%s does not find --%s", c.Name(), name, f.Name)
				}
			}
			names = append(names, f.Name)
		})
	})
	for _, name := range underscored {
		if !slices.Contains(names, name) {
			t.Errorf("no command has --%s", name)
		}
	}
	if !slices.Contains(names, "acc_check") || !slices.Contains(names, "not-op") {
		t.Error("flags lost their names")
	}
}

// TestExamples: the help of each command of optool has an example, also of those that cobra adds.
func TestExamples(t *testing.T) {
	root := newRootCmd(&app{Streams: System()})
	found := false
	for _, c := range root.Commands() {
		found = found || c.Name() == "completion"
		if c.Example == "" && c.Name() != "help" {
			t.Errorf("%s has no example", c.CommandPath())
		}
	}
	if !found {
		t.Error("there is no command completion")
	}
}
