package cli

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/internal/run/folder"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// programOf is the folder that holds the recording of a program, below the PATH given: that of its steps.
func programOf(e *capture.Entry) string {
	return folder.Program(folder.Of(e.Rel, e.Op, e.PID, e.Rank).Folder)
}

// programDir is the directory that holds the recording of a program, of which these are the captures: its folder below
// the path or, where the folder leaves out a part of the path, the directory that they have in common.
func programDir(root, folder string, rels []string) string {
	if info, err := files.Stat(filepath.Join(root, folder)); folder != "" && err == nil && info.IsDir() {
		return filepath.Join(root, folder)
	}
	common := strings.Split(path.Dir(rels[0]), "/")
	for _, rel := range rels[1:] {
		parts := strings.Split(path.Dir(rel), "/")
		n := 0
		for n < min(len(common), len(parts)) && common[n] == parts[n] {
			n++
		}
		common = common[:n]
	}
	return filepath.Join(root, filepath.FromSlash(strings.Join(common, "/")))
}

// A recordedProgram is one of those whose recordings a PATH holds.
type recordedProgram struct {
	folder  string   // below the PATH, "" if its calls lie there
	dir     string   // that holds it
	rels    []string // of its captures
	calls   []*step.Call
	leftOut []*stepCall
	trace   *step.Trace // of the calls
}

// programs are found by the folders of calls.
type programs struct {
	folder.Programs
	list []*recordedProgram
	by   map[string]*recordedProgram
}

// of is the program of a call.
func (ps *programs) of(e *capture.Entry) *recordedProgram {
	in := programOf(e)
	p := ps.by[in]
	if p == nil {
		p = &recordedProgram{folder: in}
		if ps.by == nil {
			ps.by = map[string]*recordedProgram{}
		}
		ps.by[in], ps.list = p, append(ps.list, p)
	}
	ps.Add(in, e.Rank, e.PID >= 0 || e.Rank >= 0)
	p.rels = append(p.rels, e.Rel)
	return p
}

// programsIn finds the programs whose recordings the path holds, without reading values.
func programsIn(ctx context.Context, root string) *programs {
	ps := &programs{}
	for f := range scan(ctx, []string{root}, capture.Options{}) {
		if f.entry != nil && f.entry.NotRun() == "" && !f.entry.IsPair() {
			ps.of(f.entry)
		}
	}
	slices.SortFunc(ps.list, func(a, b *recordedProgram) int { return strings.Compare(a.folder, b.folder) })
	return ps
}

// name is how people call the program.
func (p *recordedProgram) name() string {
	if p.folder == "" {
		return "(without a folder)"
	}
	return p.folder
}

// mostPrograms is how many commands an error names.
const mostPrograms = 5

// oneProgram is an error if one of the roots holds several programs: what is asked for is about one of each. It prints
// the command for each program; of roots that hold programs of the same names, for each pair.
func (a *app) oneProgram(cmd *cobra.Command, what string, roots ...string) error {
	var found []*programs
	for _, root := range roots {
		found = append(found, programsIn(cmd.Context(), root))
	}
	several := slices.IndexFunc(found, (*programs).Several)
	if several < 0 {
		return nil
	}
	list := found[several].list
	fmt.Fprintf(a.Err, "%s holds the recordings of %d programs:\n", reports.OneLine(roots[several]), len(list))
	for i, p := range list {
		if i == mostPrograms {
			fmt.Fprintf(a.Err, "  ... and %d more\n", len(list)-i)
			break
		}
		instead := map[string]string{} // absolute: the command works anywhere
		for k, root := range roots {
			instead[root] = absolute(root)
			if q := found[k].by[p.folder]; q != nil && found[k].Several() {
				instead[root] = absolute(programDir(root, q.folder, q.rels))
			}
		}
		fmt.Fprintf(a.Err, "  %s\n", reports.Command(again(cmd, instead)))
	}
	return usageError("%s is about one program: run one of these commands", what)
}

// again is the command as it was given, with other directories in the place of paths.
func again(cmd *cobra.Command, instead map[string]string) string {
	args := []string{program(), cmd.Name()}
	put := func(path string) string { return quote(cmp.Or(instead[path], path)) }
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if s, ok := f.Value.(pflag.SliceValue); ok {
			values = s.GetSlice()
		}
		for _, v := range values {
			if args = append(args, "--"+f.Name); f.NoOptDefVal == "" || v != f.NoOptDefVal {
				args = append(args, put(v))
			}
		}
	})
	for _, arg := range cmd.Flags().Args() {
		args = append(args, put(arg))
	}
	return strings.Join(args, " ")
}
