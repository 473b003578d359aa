package cli

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/optool/optool/reports"
)

// machine reads what Linux says of the host's processors; elsewhere only their
// number is known.
func machine() reports.Machine {
	m := reports.Machine{Processors: runtime.GOMAXPROCS(0)}
	read := func(path string) string {
		text, _ := os.ReadFile(path)
		return strings.TrimSpace(string(text))
	}
	const frequency = "/sys/devices/system/cpu/cpu0/cpufreq/"
	m.Governor = read(frequency + "scaling_governor")
	if khz, err := strconv.ParseFloat(read(frequency+"scaling_cur_freq"), 64); err == nil {
		m.MHz = khz / 1000
	}
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		name, v, _ := strings.Cut(line, ":")
		switch v = strings.TrimSpace(v); strings.TrimSpace(name) {
		case "model name":
			m.Model = v
		case "cpu MHz":
			if mhz, err := strconv.ParseFloat(v, 64); err == nil && m.MHz == 0 {
				m.MHz = mhz
			}
		}
	}
	if fields := strings.Fields(read("/proc/loadavg")); len(fields) > 2 {
		for _, f := range fields[:3] {
			x, _ := strconv.ParseFloat(f, 64)
			m.Load = append(m.Load, x)
		}
	}
	return m
}

// machineText is one line about the machine, with what makes times vary.
func machineText(m reports.Machine) string {
	s := "host: " + reports.Count(m.Processors, "processor")
	if m.Model != "" {
		s += " " + m.Model
	}
	if m.MHz > 0 {
		s += fmt.Sprintf(", %.0f MHz", m.MHz)
	}
	if m.Governor != "" {
		s += ", governor " + m.Governor
	}
	if len(m.Load) > 0 {
		s += fmt.Sprintf(", load average %.2f", m.Load[0])
	}
	return s
}
