package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// blockEnv is op_tools' variable for the rows between the headers of its CSV files.
const blockEnv = "OP_TOOLS_MAX_CACHE_SIZE"

// A selection is the flags that filter captures, the same for every command
// that walks them.
type selection struct {
	op, notOp, dtype, where string

	filter   capture.Filter
	sources  map[capture.Part]*reports.Setting // what each part of the filter is from
	read     pthformat.ReadMode
	csvBlock int // rows between the headers of op_tools' CSV files, 0 if not said
	own      []ownOperators
	alert    func(format string, args ...any) // warns
}

func (s *selection) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var((*commaList)(&s.op), "op",
		"only these ops, a comma-separated `LIST` of names or patterns of whole names such as '*softmax'")
	f.Var((*commaList)(&s.notOp), "not-op", "leave out the ops in this `LIST`")
	f.Var((*commaList)(&s.dtype), "dtype", "only calls with an input tensor of a dtype in this `LIST`")
	completeSelection(cmd)
	f.StringVar(&s.where, "where", "",
		"only calls for which `EXPR` is true, such as 'dtype == \"float16\" && ndim == 2'")
}

// A commaList is a flag whose values add up.
type commaList string

func (l *commaList) String() string { return string(*l) }
func (l *commaList) Type() string   { return "LIST" }

func (l *commaList) Set(s string) error {
	if *l != "" {
		s = string(*l) + "," + s
	}
	*l = commaList(s)
	return nil
}

// typed is a list of patterns as people type them: a star that has nothing to repeat, or
// would repeat a letter of a name, stands for any text.
func typed(list string) string { return loneStar().ReplaceAllString(list, "$1.*") }

var loneStar = lazyregexp.New(`(^|,|[A-Za-z0-9_])\*`)

// command is a command line that finds what this one did: the variables that decide it,
// program and command, the operators in force, words.
func (s *selection) command(name string, words ...string) []string {
	args := append(variables(os.Environ(), "AUTOCOMPARE"), program(), name)
	for _, o := range s.own {
		args = append(args, "--ops", quotePath(o.path))
	}
	return append(args, words...)
}

// parse reads the flags and op_tools' environment variables: the tool's name
// selects them, "CAPTURE" OP_CAPTURE_LIST and OP_CAPTURE_DISABLE_LIST. A flag
// that was given wins.
func (s *selection) parse(cmd *cobra.Command, a *app, tool string) error {
	var err error
	s.own, s.alert = a.own, a.warn
	if s.read, err = a.readMode(); err != nil {
		return err
	}
	if text, ok := os.LookupEnv(blockEnv); ok {
		if s.csvBlock, err = strconv.Atoi(text); err != nil || s.csvBlock < 1 {
			return usageError("environment variable %s: want a number of rows from 1 on, got %q", blockEnv, text)
		}
	}
	s.sources = map[capture.Part]*reports.Setting{}
	from := func(part capture.Part, kind, name, value string) {
		s.sources[part] = &reports.Setting{Kind: kind, Name: name, Value: value, Effect: reports.Selects}
	}
	list := func(part capture.Part, flag, value, env string) (*capture.Patterns, error) {
		source, kind := "--"+flag, byFlag
		pattern := typed(value)
		if !cmd.Flags().Changed(flag) {
			var set bool
			if value, set = os.LookupEnv(env); !set {
				return nil, nil
			}
			source, kind, pattern = env, byVariable, value
		}
		from(part, kind, source, value)
		p, err := capture.ParsePatterns(pattern)
		if err != nil {
			return nil, usageError("%s: %w", source, err)
		}
		return p, nil
	}
	if s.filter.Ops, err = list(capture.ByOps, "op", s.op, selects(tool)); err != nil {
		return err
	}
	if s.filter.NotOps, err = list(capture.ByNotOps, "not-op", s.notOp, deselects(tool)); err != nil {
		return err
	}
	for name := range strings.SplitSeq(s.dtype, ",") {
		if name == "" {
			continue
		}
		dt, ok := tensor.ParseDType(name)
		if !ok {
			return usageError("--dtype: unknown dtype %q", name)
		}
		s.filter.DTypes = append(s.filter.DTypes, dt)
		from(capture.ByDTypes, byFlag, "--dtype", s.dtype)
	}
	if s.where != "" {
		if err := s.filter.Where(s.where); err != nil {
			return usageError("--where: %w", err)
		}
		from(capture.ByWhere, byFlag, "--where", s.where)
	}
	return nil
}

// selects and deselects are op_tools' variables that list the ops of a tool.
func selects(tool string) string   { return "OP_" + tool + "_LIST" }
func deselects(tool string) string { return "OP_" + tool + "_DISABLE_LIST" }

// A found is one step of a walk: a capture, or what could not be walked.
type found struct {
	entry    *capture.Entry
	err      error
	index    int  // of the capture in the walk, from 0
	finished bool // by the same run, before it was stopped
	planned  bool // the filter was asked: hidden is the setting that leaves it out, "" if none does
	hidden   string
	bytes    int64 // of its files, if it was planned
}

// scan walks the paths. Filtering is left to the workers, since it may have to
// open files.
func scan(ctx context.Context, paths []string, opt capture.Options) iter.Seq[found] {
	return func(yield func(found) bool) {
		index := 0
		for e, err := range capture.Scan(ctx, paths, opt) {
			if !yield(found{entry: e, err: err, index: index}) {
				return
			}
			if err == nil {
				index++
			}
		}
	}
}

// A tally counts what a walk met, for the exit code.
type tally struct {
	captures int // selected
	walked   int // before filtering
	refused  int // unreadable files and directories
	nothing  int // files into which torch saved nothing
}

// refuse warns of what cannot be read.
func (t *tally) refuse(a *app, failures []error) {
	for _, err := range failures {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			t.refuse(a, joined.Unwrap())
		} else if errors.Is(err, pthformat.ErrNothingSaved) {
			t.nothing++
		} else {
			t.refused++
			a.warn("%v", err)
		}
	}
}

// found returns an error if a walk over paths found nothing to work on. It warns of the items of --op that
// no recorded op matches, if others match.
func (s *selection) found(t tally, paths []string) error {
	where := strings.Join(paths, ", ")
	switch {
	case t.captures > 0 || t.refused > 0:
		if s.op != "" && t.captures > 0 {
			for _, hint := range hints(s.filter.Ops, "recorded op") {
				s.alert("--op %s", hint)
			}
		}
		return nil
	case t.walked > 0:
		text := ""
		if s.filter.Ops != nil {
			text = strings.Join(append([]string{""}, hints(s.filter.Ops, "recorded op")...), "; ")
		}
		return &exitError{ExitFailed, fmt.Errorf("%s: none of %d captures is selected%s", where, t.walked, text)}
	}
	return noCaptures(paths)
}

// noCaptures says that no recorded call is below paths, and what marks one.
func noCaptures(paths []string) error {
	return &exitError{ExitFailed, fmt.Errorf("%s: no captures found; "+
		"a recording has a calls.jsonl (optool hook), input.pth (op_tools) or dump.json (msprobe): did the program record, and where?",
		strings.Join(paths, ", "))}
}

// maxHints is how many items of a list get a hint.
const maxHints = 3

// hints say of each item of a list that matches none of the names it was asked about which of them hold its text, or
// else which is spelt nearly so. noun is what the names are of.
func hints(list *capture.Patterns, noun string) (hints []string) {
	names := slices.DeleteFunc(list.Asked(), func(name string) bool { return name == "" })
	for _, item := range list.Unmet() {
		if len(hints) == maxHints {
			return append(hints, "...")
		}
		hint := item + " matches no " + noun
		part := strings.ToLower(strings.Trim(item, ".*"))
		holds := func(name string) bool { return strings.Contains(strings.ToLower(name), part) }
		endsIn := func(name string) bool { return strings.EqualFold(name[strings.LastIndexByte(name, '.')+1:], part) }
		like := those(names, endsIn)
		if len(like) == 0 {
			like = those(names, holds)
		}
		switch {
		case len(like) == 0:
			hint += conformance.Nearest(item, names)
		case len(like) > 3:
			like = append(like[:3], "...")
			fallthrough
		default:
			hint += fmt.Sprintf(": op patterns match whole names; did you mean %s?", strings.Join(like, ", "))
		}
		hints = append(hints, hint)
	}
	return hints
}

// those are the names for which ok holds.
func those(names []string, ok func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !ok(name) })
}

// end warns once of files into which torch saved nothing.
func (t tally) end(a *app) {
	if t.nothing > 0 {
		a.warn("%s", reports.NothingSaved(t.nothing))
	}
}

// code is the exit code of a command that only reads. Files into which torch saved nothing
// are no failure beside others.
func (t tally) code() int {
	if t.refused > 0 || t.nothing > 0 && t.nothing >= t.captures {
		return ExitFailed
	}
	return ExitOK
}

// settings are those of the filters, in the order in which they are asked.
func (s *selection) settings() reports.Settings {
	var all reports.Settings
	for _, part := range capture.Parts() {
		if x := s.sources[part]; x != nil {
			all = append(all, x)
		}
	}
	return all
}

// hides is the name of the setting that leaves a capture out, "" if none does.
func (s *selection) hides(e *capture.Entry) (name string, err error) {
	part, err := s.filter.Excludes(e, s.read)
	if x := s.sources[part]; x != nil {
		return x.Name, err
	}
	return "", err
}
