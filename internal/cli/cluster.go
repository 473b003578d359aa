package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/internal/run/cluster"
	"github.com/optool/optool/internal/run/shard"
	"github.com/optool/optool/reports"
)

// A clusterOptions is the flags of the commands that print jobs.
type clusterOptions struct {
	name    string
	program string
	parts   int
	cpus    int
	memory  byteSize
	time    time.Duration
	retries int
}

func (o *clusterOptions) addFlags(cmd *cobra.Command, parts string) {
	f := cmd.Flags()
	f.IntVar(&o.parts, parts, 0, "run in `N` parts (default: so many that each takes about half an hour)")
	f.StringVar(&o.name, "name", "", "call the job `NAME` (default: optool and the command)")
	f.IntVar(&o.cpus, "cpus", 4, "processors for each part")
	f.Var(&o.memory, "mem", "memory of a part, in bytes or as `SIZE` like 8GiB (default: that of the largest call)")
	f.DurationVar(&o.time, "time", 0, "time limit of a part, a `TIME` such as 2h (default: three times the estimate)")
	f.IntVar(&o.retries, "retries", 3, "how many times a part that was killed continues")
}

// wholeCommand is the Args of commands that take a command of optool's.
func wholeCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError("%s: want a command after --, such as: optool %[1]s -- replay --run DIR PATH", cmd.Name())
	}
	return nil
}

func newSlurmCmd(a *app) *cobra.Command {
	var o clusterOptions
	var s cluster.SlurmOptions
	cmd := &cobra.Command{
		Use:   "slurm [flags] -- COMMAND --run DIR [PATH...]",
		Short: "Print a Slurm job that runs a command on many hosts",
		Long: `slurm prints a script that runs a command (replay, check, conformance) in parts, as a
Slurm job array, and reports all parts when they have ended. Parts that are stopped or
killed continue where they were.

The number of parts, their time and their memory come from an estimate if the captures
can be read here; the script shows it. DIR and the PATHs must be on disks that all
hosts share. Reports of the command (--html FILE, ...) cover all parts and are written
to DIR unless FILE names a directory.`,
		Example: `  optool slurm --partition cpu -- replay --run checked --html run.html op_tools_results >job.sh
  optool slurm --array 8 --time 2h --mem 16GiB -- replay --run checked op_tools_results
  optool slurm --array 4 -- conformance --mode gen_data --run made --cache_dir cache`,
		Args: wholeCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			j, _, err := o.job(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			if s.Dir, err = os.Getwd(); err != nil {
				return failed(err)
			}
			s.Quote = quote
			return failed(cluster.Slurm(a.Out, j, s))
		},
	}
	o.addFlags(cmd, "array")
	f := cmd.Flags()
	f.StringVar(&o.program, "optool", "", "`PATH` of optool on the hosts (default: of this one)")
	f.StringVar(&s.Partition, "partition", "", "`NAME` of the partition (default: that of the cluster)")
	f.StringArrayVar(&s.Further, "sbatch", nil, "further `OPTION` of sbatch, such as --account=mine; may be repeated")
	return cmd
}

func newKubernetesCmd(a *app) *cobra.Command {
	var o clusterOptions
	var k cluster.KubernetesOptions
	var claims []string
	cmd := &cobra.Command{
		Use:   "kubernetes [flags] -- COMMAND --run DIR [PATH...]",
		Short: "Print a Kubernetes job that runs a command on many hosts",
		Long: `kubernetes prints a manifest that runs a command (replay, check, conformance) in parts,
as an Indexed Job (Kubernetes 1.29 or newer), and a job that reports all parts as one
run. Parts that are stopped or killed continue where they were.

DIR and the PATHs are paths in the pods, on volumes that --claim names. The number of
parts, their time and their memory come from an estimate if the same PATHs can be read
here; the manifest shows it.`,
		Example: `  optool kubernetes --image registry.example/optool --claim captures:/data --parts 64 --mem 16GiB --time 2h \
    -- replay --run /data/checked --html run.html /data/op_tools_results`,
		Args: wholeCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, s := range claims {
				c, err := cluster.ParseClaim(s)
				if err != nil {
					return usageError("--claim: %w", err)
				}
				k.Claims = append(k.Claims, c)
			}
			j, paths, err := o.job(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			for _, path := range append(paths, j.Run) {
				if !slices.ContainsFunc(k.Claims, func(c cluster.Claim) bool { return c.Has(path) }) {
					return usageError("%s is on no volume of the pods: --claim NAME:PATH mounts one", path)
				}
			}
			if k.Image == "" {
				return usageError("--image: want the image that has optool")
			}
			return failed(cluster.Kubernetes(a.Out, j, k))
		},
	}
	o.addFlags(cmd, "parts")
	f := cmd.Flags()
	f.StringVar(&k.Image, "image", "", "`IMAGE` with optool as its entry point")
	f.StringArrayVar(&claims, "claim", nil, "mount the PersistentVolumeClaim `NAME:PATH`; may be repeated")
	f.IntVar(&k.Parallel, "parallel", 0, "parts that run at once (default: all)")
	return cmd
}

// job is the job of a command in parts, and the command's paths.
func (o *clusterOptions) job(ctx context.Context, a *app, args []string) (*cluster.Job, []string, error) {
	if o.parts < 0 || o.cpus < 1 || o.retries < 0 || o.time < 0 {
		return nil, nil, usageError("numbers of parts, processors, retries and times are not negative")
	}
	cmd, err := commandOf(a, args)
	if err != nil {
		return nil, nil, err
	}
	j := &cluster.Job{Name: cmp.Or(o.name, "optool-"+cmd.Name()), Program: o.program, Parts: o.parts, CPUs: o.cpus,
		Retries: o.retries, Command: []string{cmd.Name()}, Run: cmd.Flags().Lookup("run").Value.String()}
	if j.Program == "" {
		if j.Program, err = os.Executable(); err != nil {
			return nil, nil, failed(err)
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) { err = cmp.Or(err, addFlag(j, cmd, f)) })
	paths := cmd.Flags().Args()
	costs := func() estimated { return estimate(ctx, paths) }
	ofCases := cmd.Name() == "conformance"
	if ofCases {
		paths = []string{cmd.Flags().Lookup("cache_dir").Value.String()}
		costs = func() estimated { return estimateCases(cmd) }
	}
	switch {
	case err != nil:
		return nil, nil, err
	case j.Run == "":
		return nil, nil, usageError("%s: --run names the directory that all parts share", cmd.Name())
	case len(paths) == 0:
		return nil, nil, usageError("%s: want at least one PATH", cmd.Name())
	}
	if !ofCases {
		j.Command = append(j.Command, paths...)
	}
	o.limit(j, costs())
	return j, paths, nil
}

// commandOf finds a command that can run in parts, and parses its flags.
func commandOf(a *app, args []string) (*cobra.Command, error) {
	cmd, rest, err := newRootCmd(&app{Streams: a.Streams}).Find(args)
	if err != nil {
		return nil, usageError("%w", err)
	}
	if cmd.Flags().Lookup("shard") == nil {
		return nil, usageError("%s cannot run in parts: want replay, check or conformance after --", args[0])
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, usageError("%w", err)
	}
	return cmd, nil
}

// addFlag gives a flag of a command to its parts, or to the report that joins them. Some flags are for neither.
func addFlag(j *cluster.Job, cmd *cobra.Command, f *pflag.Flag) error {
	value := f.Value.String()
	name := cmp.Or(kitReports[f.Name], f.Name)
	if f.Name == "use_db" {
		name, value = "sqlite", databasePath(cmd.Flags().Lookup("db_path").Value.String(), kitDatabase)
	}
	if slices.ContainsFunc(reportFormats, func(x reportFormat) bool { return x.name == name }) {
		if filepath.Base(value) == value {
			value = strings.TrimSuffix(j.Run, "/") + "/" + value
		}
		j.Report = append(j.Report, "--"+name+"="+value)
		return nil
	}
	switch f.Name {
	case "shard", "jobs", "memory":
		return usageError("--%s: the job says it for each part", f.Name)
	case "json":
		return usageError("--json: the lines of each part are in the directory of the run")
	case "run", "resume", "exit-zero", "db_path":
		return nil
	}
	j.Command = append(j.Command, flagWords(f)...)
	return nil
}

// kitReports are flags of conformance for reports that others have under another name.
var kitReports = map[string]string{"html_report": "html", "test_result_path": "xlsx"}

// flagWords are a flag as it is typed.
func flagWords(f *pflag.Flag) []string {
	values := []string{f.Value.String()}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	}
	var words []string
	for _, v := range values {
		if f.Value.Type() == "bool" && v == "true" {
			words = append(words, "--"+f.Name)
		} else {
			words = append(words, "--"+f.Name+"="+v)
		}
	}
	return words
}

// What a part should take, and what limits allow beyond the estimate.
const (
	partTime      = 30 * time.Minute
	timeFactor    = 3
	timeLeast     = 10 * time.Minute
	mostParts     = 1000
	memoryLeast   = 2 << 30
	memoryFactor  = 10 // of the files of the largest call: widened, and as much again for results
	unknownParts  = 8
	unknownTime   = 4 * time.Hour
	unknownMemory = 16 << 30
)

// limit fills in the numbers that were not given, from an estimate.
func (o *clusterOptions) limit(j *cluster.Job, e estimated) {
	if e.calls == 0 {
		j.Parts, j.Time, j.Memory = cmp.Or(o.parts, unknownParts), cmp.Or(o.time, unknownTime),
			cmp.Or(int64(o.memory), unknownMemory)
		j.About = append(j.About, fmt.Sprintf("%s in %s. Nothing was estimated: the captures cannot be read here.",
			j.Name, reports.Count(j.Parts, "part")))
		return
	}
	perPart := func(parts int) time.Duration {
		return max(e.dearest.Duration(), e.total.Duration()/time.Duration(parts*o.cpus))
	}
	halfHours := int(e.total.Duration()/(partTime*time.Duration(o.cpus))) + 1
	j.Parts = cmp.Or(o.parts, min(halfHours, mostParts, e.calls))
	j.Time = cmp.Or(o.time, max(timeFactor*perPart(j.Parts), timeLeast).Round(time.Minute))
	j.Memory = cmp.Or(int64(o.memory), max(memoryFactor*e.largest, memoryLeast)>>20<<20)
	j.About = append(j.About,
		fmt.Sprintf("%s of %s, %s, in %s.", j.Name, reports.Count(e.calls, "call"), reports.Bytes(e.bytes),
			reports.Count(j.Parts, "part")),
		fmt.Sprintf("Estimated: %s of one processor in all, %s for the dearest call; a part takes about %s",
			roughly(e.total.Duration()), roughly(e.dearest.Duration()), roughly(perPart(j.Parts))),
		fmt.Sprintf("on %s. The largest call has %s on disk; of the memory a tenth is left to others.",
			reports.Count(o.cpus, "processor"), reports.Bytes(e.largest)))
}

// roughly is a time as an estimate says it.
func roughly(d time.Duration) string {
	if d < time.Second {
		return "less than 1s"
	}
	return d.Round(time.Second).String()
}

// An estimated is what calls cost together.
type estimated struct {
	calls          int
	bytes, largest int64
	total, dearest shard.Cost
}

// estimate says what the calls below paths cost, as far as they can be read.
func estimate(ctx context.Context, paths []string) (e estimated) {
	var list []found
	for f := range scan(ctx, paths, capture.Options{}) {
		if f.entry != nil {
			list = append(list, f)
		}
	}
	sizes, calls := costs(list)
	for i, c := range calls {
		e.add(sizes[i], c.Cost)
	}
	return e
}

func (e *estimated) add(bytes int64, cost shard.Cost) {
	e.calls++
	e.bytes, e.largest = e.bytes+bytes, max(e.largest, bytes)
	e.total, e.dearest = e.total+cost, max(e.dearest, cost)
}

// estimateCases says what the cases of conformance cost, as far as they can be read: those of
// the configuration, or for run_test those of the data.
func estimateCases(cmd *cobra.Command) (e estimated) {
	o := conformanceOptions{}
	for name, v := range map[string]*string{"mode": &o.mode, "model_name": &o.model, "configs": &o.configs,
		"cache_dir": &o.cacheDir} {
		*v = cmd.Flags().Lookup(name).Value.String()
	}
	for name, v := range map[string]*[]string{"fname": &o.fname, "filter_dtype": &o.filterDtype,
		"case": &o.caseNames} {
		if cmd.Flags().Changed(name) || name == "fname" {
			*v = cmd.Flags().Lookup(name).Value.(pflag.SliceValue).GetSlice()
		}
	}
	var cases []*configs.Case
	var err error
	if o.mode == "run_test" {
		var store *conformance.Store
		if store, cases, err = o.recorded(); err == nil {
			cases = slices.DeleteFunc(cases, func(c *configs.Case) bool { return !store.Has(c.Name) })
			cases, err = o.pick(cases, nil)
		}
	} else {
		_, cases, err = o.expand()
	}
	if err != nil {
		return e
	}
	for i, c := range caseCosts(cases) {
		e.add(cases[i].Bytes(), c.Cost)
	}
	return e
}
