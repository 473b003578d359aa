package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/adapted"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/replay/ontorch"
	"github.com/optool/optool/reports"
)

// deviceFlags say what device to use and how. They are the same for every
// command that runs on one.
type deviceFlags struct {
	device   string
	adaptor  string
	timeout  time.Duration
	memory   int64
	devices  int
	repeat   int
	casts    string
	convert  string
	fallback string
	torch    torchFlags
	// against is a second device, "" for none; againstPython is its Python, "" for the same. againstMaps are its
	// functions: those of --map-function are of the first device only, else both would run the same kernel.
	against, againstPython string
	againstMaps            map[string]string
	againstImports         []string // its modules, none for those of --torch-import
	locked                 bool     // this process holds the device already

	fallbackSource string // the flag or variable that says what falls back
	// Of what falls back; nil: nothing does.
	falls, fallsNot *capture.Patterns
	conversions     *casts
}

// How long one call may take if nothing else is said: of a device, and on the reference,
// which is slower and cannot hang on a driver.
const (
	deviceTimeout    = time.Minute
	referenceTimeout = 10 * time.Minute
)

func (d *deviceFlags) add(cmd *cobra.Command, byDefault, help string) {
	d.addWhich(cmd, byDefault, help)
	addTimeoutFlag(cmd, &d.timeout, "one call", deviceAndReference)
	cmd.Flags().IntVar(&d.devices, "devices", 1, "run the device in this many processes at once")
}

// addWhich adds the flags of a command that runs one call after the other.
func (d *deviceFlags) addWhich(cmd *cobra.Command, byDefault, help string) {
	d.devices = 1
	f := cmd.Flags()
	f.StringVar(&d.device, "device", byDefault, help)
	f.StringVar(&d.adaptor, "adaptor", "",
		"load the vendor's device functions (device_malloc, ...) from `LIBRARY`, if the device's library has "+
			"none")
	addMemoryFlag(cmd, &d.memory)
	d.torch.add(cmd)
}

// limits are those of the calls of the run. A call on a device has a deadline of its own.
func (d *deviceFlags) limits() *limits {
	timeout := cmp.Or(d.timeout, referenceTimeout)
	if !d.none() {
		timeout = max(timeout, referenceTimeout)
	}
	return limitsOf(d.memory, timeout)
}

var deviceAndReference = fmt.Sprintf("%v on a device, %v on the reference", deviceTimeout, referenceTimeout)

func addTimeoutFlag(cmd *cobra.Command, timeout *time.Duration, of, byDefault string) {
	cmd.Flags().Var((*timeLimit)(timeout), "timeout",
		fmt.Sprintf("stop %s after this `TIME` (default %s)", of, byDefault))
}

// timeLimit is a flag's duration of more than 0.
type timeLimit time.Duration

func (d *timeLimit) String() string { return time.Duration(*d).String() }
func (d *timeLimit) Type() string   { return "TIME" }

func (d *timeLimit) Set(s string) error {
	t, err := time.ParseDuration(s)
	if err == nil && t <= 0 {
		err = fmt.Errorf("want more than 0, got %v", t)
	}
	*d = timeLimit(t)
	return err
}

func addMemoryFlag(cmd *cobra.Command, bytes *int64) {
	cmd.Flags().Var((*byteSize)(bytes), "memory",
		"use at most this much memory, in bytes or as `SIZE` like 8GiB (default three quarters of what is free)")
}

// byteSize is a flag's number of bytes.
type byteSize int64

var byteUnits = []struct {
	name string
	size int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"TB", 1e12}}

// leastMemory is what optool needs besides the values of the calls.
const leastMemory = 64 << 20

func (b *byteSize) String() string { return strconv.FormatInt(int64(*b), 10) }
func (b *byteSize) Type() string   { return "SIZE" }

func (b *byteSize) Set(s string) error {
	given, unit := s, int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok && unit == 1 {
			s, unit = rest, u.size
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return errors.New("want a number with a unit, such as 512MiB or 8GiB; without a unit it is in bytes")
	}
	if n*unit < leastMemory {
		return fmt.Errorf("%s is too small: optool needs at least 64MiB", given)
	}
	*b = byteSize(n * unit)
	return nil
}

func (d *deviceFlags) addReplay(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&d.repeat, "repeat", 1, "run each call `N` times on the device; all runs must give the same bits")
	f.StringVar(&d.casts, "dtype-cast", "",
		"cast the arguments for a device call and cast the results back: \"torch.bfloat16->torch.float32\" "+
			"(OP_DTYPE_CAST_DICT)")
	f.StringVar(&d.convert, "convert-config", "",
		"convert tensors to the dtypes and layouts in a vendor's convert_config.yaml (`FILE`), and results "+
			"back")
	f.StringVar(&d.fallback, "fallback", "", "run these ops on the CPU, not on the device (OP_FALLBACK_LIST)")
}

// addAgainst adds the flags of a second device; help says what for.
func (d *deviceFlags) addAgainst(cmd *cobra.Command, help string) {
	f := cmd.Flags()
	f.StringVar(&d.against, "against-device", "", help)
	f.StringVar(&d.againstPython, "against-python", "",
		"run --against-device torch:DEVICE with this `PROGRAM` (default: that of --python)")
	f.StringSliceVar(&d.againstImports, "against-torch-import", nil,
		"import this `MODULE` to add --against-device torch:DEVICE to PyTorch (default: those of --torch-import)")
	f.StringToStringVar(&d.againstMaps, "against-map-function", nil,
		"call another function for an operator on --against-device torch:DEVICE (default: torch's own): "+
			"`NAME=MODULE:FUNCTION`")
}

// deviceName is the one name of a device: the whole path of a library.
func deviceName(device string) string {
	if path, err := filepath.Abs(device); err == nil && device != devicebridge.Host && !isTorch(device) {
		return path
	}
	return device
}

// lock waits until this process may use the device, unless it holds it already.
func (d *deviceFlags) lock(ctx context.Context, a *app, alone bool) (release func(), err error) {
	if d.locked {
		return func() {}, nil
	}
	return lockDevice(ctx, a, d.device, alone)
}

// second are the flags of --against-device.
func (d *deviceFlags) second() *deviceFlags {
	s := *d
	s.device, s.against = d.against, d.device
	s.locked = deviceName(d.device) == deviceName(d.against)
	s.torch.python, s.torch.maps = cmp.Or(d.againstPython, d.torch.python), d.againstMaps
	if len(d.againstImports) > 0 {
		s.torch.imports = d.againstImports
	}
	return &s
}

// rivalName is what the second device is called, also where the first one has the same name.
func (d *deviceFlags) rivalName() string {
	if d.against == d.device {
		return "the second " + d.against
	}
	return d.against
}

// ranInstead says of each operator for which one of two devices called a function of the user's what both called.
func (d *deviceFlags) ranInstead(names [2]string, measured func(op string) bool) (texts []string) {
	all := maps.Clone(d.torch.maps)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, d.againstMaps)
	ran := func(device string, maps map[string]string, op string) string {
		if !isTorch(device) {
			return "the library's own function"
		}
		return cmp.Or(maps[op], reports.OwnFunction(op)+" function")
	}
	for _, op := range slices.Sorted(maps.Keys(all)) {
		if measured(op) {
			texts = append(texts, reports.OneLine(fmt.Sprintf("%s: %s ran %s, %s ran %s", op, names[1],
				ran(d.device, d.torch.maps, op), names[0], ran(d.against, d.againstMaps, op))))
		}
	}
	return texts
}

// sameFunctions reports whether two devices of PyTorch are one, which runs the same functions.
func (d *deviceFlags) sameFunctions() bool {
	return isTorch(d.device) && d.device == d.against &&
		cmp.Or(d.againstPython, d.torch.python) == d.torch.python && maps.Equal(d.torch.maps, d.againstMaps) &&
		slices.Equal(d.torch.imports, d.second().torch.imports)
}

// isTorch reports whether a device is one of PyTorch.
func isTorch(device string) bool { return strings.HasPrefix(device, torchbridge.Prefix) }

// none reports that no device is wanted.
func (d *deviceFlags) none() bool { return d.device == noDevice }

func (d *deviceFlags) check() error {
	if d.devices < 1 {
		return usageError("--devices: want at least 1, got %d", d.devices)
	}
	switch {
	case d.against == noDevice || d.against != "" && d.none():
		return usageError("--against-device wants a second device beside --device")
	case d.againstPython != "" && !isTorch(d.against):
		return usageError("--against-python: --against-device is no device of PyTorch")
	case len(d.againstImports) > 0 && !isTorch(d.against):
		return usageError("--against-torch-import: --against-device is no device of PyTorch")
	case len(d.againstMaps) > 0 && !isTorch(d.against):
		return usageError("--against-map-function: --against-device is no device of PyTorch")
	case len(d.torch.maps) > 0 && !isTorch(d.device) && isTorch(d.against):
		return usageError("--map-function: --device is no device of PyTorch; --against-map-function names the functions " +
			"of --against-device")
	}
	return nil
}

// open loads the device, a library.
func (d *deviceFlags) open(ctx context.Context) (*devicebridge.Device, error) {
	if isTorch(d.device) {
		return nil, usageError("%s: this command wants a library; device, replay, step, time, reduce and bundle take "+
			"devices of PyTorch", d.device)
	}
	lib, err := devicebridge.Open(ctx, devicebridge.Config{Library: d.device, Adaptor: d.adaptor, Workers: d.devices,
		Timeout: cmp.Or(d.timeout, deviceTimeout)})
	if err != nil {
		return nil, failed(err)
	}
	return lib, nil
}

// repro are the flags that say the same in a command line.
func (d *deviceFlags) repro() []string {
	var args []string
	if !d.none() {
		args = append(args, "--device", quoteDevice(d.device))
	}
	if d.adaptor != "" {
		args = append(args, "--adaptor", quotePath(d.adaptor))
	}
	args = append(args, d.torch.repro()...)
	if d.timeout != 0 {
		args = append(args, "--timeout", d.timeout.String())
	}
	if d.memory != 0 {
		args = append(args, "--memory", strconv.FormatInt(d.memory, 10))
	}
	if d.none() {
		return args
	}
	if d.casts != "" {
		args = append(args, "--dtype-cast", quote(d.casts))
	}
	if d.convert != "" {
		args = append(args, "--convert-config", quotePath(d.convert))
	}
	if d.fallback != "" {
		args = append(args, "--fallback", quote(d.fallback))
	}
	if d.repeat > 1 {
		args = append(args, "--repeat", fmt.Sprint(d.repeat))
	}
	if d.against != "" {
		args = append(args, "--against-device", quoteDevice(d.against))
	}
	if d.againstPython != "" {
		args = append(args, "--against-python", quoteProgram(d.againstPython))
	}
	for _, m := range d.againstImports {
		args = append(args, "--against-torch-import", quote(m))
	}
	args = append(args, mapped("--against-map-function", d.againstMaps)...)
	return args
}

// options are those of running calls of ops on a device, and on a library: flags, else
// op_tools' environment variables.
func (d *deviceFlags) options(cmd *cobra.Command) (o adapted.Options, library ondevice.Options, told reports.Settings,
	err error) {
	library.Repeat = d.repeat
	if d.repeat < 1 {
		return o, library, nil, usageError("--repeat: want at least 1, got %d", d.repeat)
	}
	fallback, kind, source := d.fallback, byFlag, "--fallback"
	if !cmd.Flags().Changed("fallback") {
		fallback, kind, source = os.Getenv("OP_FALLBACK_LIST"), byVariable, "OP_FALLBACK_LIST"
	}
	if fallback != "" {
		if d.falls, err = capture.ParsePatterns(fallback); err != nil {
			return o, library, nil, usageError("%s: %w", source, err)
		}
		spared := os.Getenv(fallbackSpares)
		if d.fallsNot, err = capture.ParsePatterns(spared); err != nil {
			return o, library, nil, usageError("%s: %w", fallbackSpares, err)
		}
		d.fallbackSource = source
		told = append(told, &reports.Setting{Kind: kind, Name: source, Value: fallback, Effect: reports.Excludes})
		if spared != "" {
			told = append(told, sparing(fallbackSpares, spared))
		}
		o.Fallback = func(op string) bool { return d.falls.Match(op) && !d.fallsNot.Match(op) }
	}
	if d.conversions, err = newCasts(d.casts, cmd.Flags().Changed("dtype-cast"), os.Environ()); err != nil {
		return o, library, nil, err
	}
	if d.conversions != nil {
		o.Casts = d.conversions.of
		told = append(told, d.conversions.settings()...)
	}
	if d.convert != "" {
		if library.Convert, err = diopi.LoadConvertConfig(d.convert); err != nil {
			return o, library, nil, failed(err)
		}
		told = append(told, &reports.Setting{Kind: byFile, Name: convertFlag, Value: d.convert,
			Effect: reports.Converts})
	}
	return o, library, told, nil
}

// sparing is a variable that keeps ops from what others ask for.
func sparing(name, value string) *reports.Setting {
	return &reports.Setting{Kind: byVariable, Name: name, Value: value, Effect: reports.Spares}
}

// spared names the variables that kept an op from being converted, or from falling back.
func (d *deviceFlags) spared(op string) []string {
	var names []string
	if name := d.conversions.sparedBy(op); name != "" {
		names = append(names, name)
	}
	if d.falls != nil && d.falls.Match(op) && d.fallsNot.Match(op) {
		names = append(names, fallbackSpares)
	}
	return names
}

// effects names the settings that kept a call, or a part of it, from the device, and those
// that had it converted or spared it.
func (d *deviceFlags) effects(o *replay.Outcome) (hidden, changed []string) {
	for _, x := range o.Results {
		if x.Reason == verdict.FallsBack {
			hidden = append(hidden, d.fallbackSource)
		}
	}
	if o.Converted {
		changed = append(changed, convertFlag)
	}
	if len(o.Casts) > 0 {
		changed = append(changed, d.castSource(o.Op))
	}
	return hidden, append(changed, d.spared(o.Op)...)
}

// fallbackSpares names ops that do not fall back, whatever else says so.
const fallbackSpares = "OP_FALLBACK_DISABLE_LIST"

// convertFlag names a vendor's conversions.
const convertFlag = "--convert-config"

// castSource is the setting that has the arguments of an op cast.
func (d *deviceFlags) castSource(op string) string {
	if c := d.conversions.of(op); c != nil {
		return c.Source
	}
	return ""
}

// casts are the dtype conversions of op_tools' OpDtypeCast.
type casts struct {
	all       *adapted.Casts
	byOp      map[string]*adapted.Casts // by the last part of the name, in capitals
	only, not *capture.Patterns
}

// op_tools' variables of what is converted, and of which ops are and are not.
const (
	castVariable = "OP_DTYPE_CAST_DICT"
	castOnly     = "OP_DTYPE_CAST_LIST"
	castNot      = "OP_DTYPE_CAST_DISABLE_LIST"
)

// newCasts reads the flag, or op_tools' variables, castVariable also of one op
// (<OP>_OP_DTYPE_CAST_DICT). It returns nil if nothing is to be converted.
func newCasts(flag string, given bool, environ []string) (*casts, error) {
	c := &casts{byOp: map[string]*adapted.Casts{}}
	var err error
	if given {
		if c.all, err = adapted.ParseCasts(flag); err != nil {
			return nil, usageError("--dtype-cast: %w", err)
		}
		if c.all == nil {
			return nil, nil
		}
		c.all.Source = "--dtype-cast"
		return c, nil
	}
	for _, kv := range environ {
		key, text, _ := strings.Cut(kv, "=")
		op, ok := strings.CutSuffix(key, castVariable)
		if !ok {
			continue
		}
		m, err := adapted.ParseCasts(text)
		if err != nil {
			return nil, usageError("%s: %w", key, err)
		}
		if m != nil {
			m.Source = key
		}
		if op == "" {
			c.all = m
		} else {
			c.byOp[strings.TrimSuffix(op, "_")] = m
		}
	}
	if c.all == nil && len(c.byOp) == 0 {
		return nil, nil
	}
	for name, p := range map[string]**capture.Patterns{castOnly: &c.only, castNot: &c.not} {
		if text, ok := os.LookupEnv(name); ok {
			if *p, err = capture.ParsePatterns(text); err != nil {
				return nil, usageError("%s: %w", name, err)
			}
		}
	}
	return c, nil
}

// settings say what casts are asked for.
func (c *casts) settings() reports.Settings {
	var all reports.Settings
	add := func(m *adapted.Casts) {
		if m == nil {
			return
		}
		kind := byVariable
		if strings.HasPrefix(m.Source, "--") {
			kind = byFlag
		}
		all = append(all, &reports.Setting{Kind: kind, Name: m.Source, Value: m.Config, Effect: reports.Converts})
	}
	add(c.all)
	for _, op := range slices.Sorted(maps.Keys(c.byOp)) {
		add(c.byOp[op])
	}
	for _, list := range []struct {
		name     string
		patterns *capture.Patterns
	}{{castOnly, c.only}, {castNot, c.not}} {
		if list.patterns != nil {
			all = append(all, sparing(list.name, os.Getenv(list.name)))
		}
	}
	return all
}

// of are the conversions for an op.
func (c *casts) of(op string) *adapted.Casts {
	if c.sparedBy(op) != "" {
		return nil
	}
	return c.asked(op)
}

// sparedBy names the variable that keeps an op from conversions that are asked for.
func (c *casts) sparedBy(op string) string {
	switch {
	case c == nil || c.asked(op) == nil:
	case c.only != nil && !c.only.Match(op):
		return castOnly
	case c.not != nil && c.not.Match(op):
		return castNot
	}
	return ""
}

// asked are the conversions that are asked for, whatever the lists say.
func (c *casts) asked(op string) *adapted.Casts {
	if m, ok := c.byOp[strings.ToUpper(op[strings.LastIndexByte(op, '.')+1:])]; ok {
		return m
	}
	return c.all
}

// A checkedDevice is what replay compares with, as the flags say.
type checkedDevice struct {
	replay.Device
	told    reports.Settings // that decide what is found
	release func()
	ready   readiness
}

// A readiness waits until a device has started, and has said in one line what it is, if
// that was not said before. Calls wait too, when the reference has done its part of them.
type readiness func(say func(string)) (described string, err error)

// started waits until devices have started, the first time.
func started(devices *[]readiness, a *app, bar *progress) error {
	for _, ready := range *devices {
		if _, err := ready(func(line string) { bar.say(a, line) }); err != nil {
			return err
		}
	}
	*devices = nil
	return nil
}

// checked starts the device beside others that are checked.
func (d *deviceFlags) checked(cmd *cobra.Command, a *app) (*checkedDevice, error) {
	opt, library, told, err := d.options(cmd)
	if err != nil {
		return nil, err
	}
	if name, ok := strings.CutPrefix(d.device, torchbridge.Prefix); ok {
		if library.Convert != nil && (d.against == "" || isTorch(d.against)) {
			return nil, usageError("%s: it names functions of libraries, and --device is %s", convertFlag, d.device)
		}
		dev, ready, release, err := d.useTorch(cmd.Context(), a, name, false, ontorch.Options{Repeat: d.repeat})
		if err != nil {
			return nil, err
		}
		return &checkedDevice{adapted.New(dev, opt), told, release, ready}, nil
	}
	lib, release, err := d.use(cmd.Context(), a, false)
	if err != nil {
		return nil, err
	}
	on := ondevice.New(cmd.Context(), lib, library)
	return &checkedDevice{adapted.New(on, opt), told, release, func(func(string)) (string, error) {
		return describeDevice(filepath.Base(d.device), lib.Info()), nil
	}}, nil
}

// use waits for the device, to measure it alone or to check it beside others, opens it
// and says what it is. release gives it back.
func (d *deviceFlags) use(ctx context.Context, a *app, alone bool) (lib *devicebridge.Device, release func(),
	err error) {
	unlock, err := d.lock(ctx, a, alone)
	if err != nil {
		return nil, nil, failed(err)
	}
	if lib, err = d.open(ctx); err != nil {
		unlock()
		return nil, nil, err
	}
	a.say(describeDevice(d.device, lib.Info()))
	return lib, func() {
		lib.Close()
		unlock()
	}, nil
}

// describeDevice is one line about a device for people.
func describeDevice(name string, i devicebridge.Info) string {
	vendor := i.Vendor
	if vendor == "" {
		vendor = "unnamed vendor"
	}
	if i.Version != "" {
		vendor += " " + i.Version
	}
	text := fmt.Sprintf("device %s: %s, %d of %d functions", name, vendor, len(i.Functions), len(i.Functions)+
		len(i.Missing))
	if len(i.Remarks) > 0 {
		text += "; " + strings.Join(i.Remarks, "; ")
	}
	return text
}

// noDevice is the --device that checks what is recorded.
const noDevice = "none"
