package torchbridge

import (
	"strings"
	"time"

	"github.com/optool/optool/internal/quota"
)

// Prefix is what names of devices of PyTorch begin with in command lines.
const Prefix = "torch:"

// A Config says which device to use and how.
type Config struct {
	Device string   // as torch.device takes it: cpu, cuda:0, npu:1
	Python string   // program; "" is python3
	Import []string // modules beside torch; nil: what Plugins says
	// Map are functions by the names of operators, each as "module:function".
	Map     map[string]string
	Workers int           // processes, each of which runs one call at a time; 0 is 1
	Timeout time.Duration // of one call; 0 is 1 minute; a start may take 3 minutes at least
	Env     []string      // "KEY=value", added to the environment
}

// plugins are the modules that bring devices to PyTorch, by the device's type.
var plugins = map[string]string{
	"npu": "torch_npu", "mlu": "torch_mlu", "musa": "torch_musa", "dipu": "torch_dipu", "gcu": "torch_gcu",
	"hpu": "habana_frameworks.torch", "sdaa": "torch_sdaa", "supa": "torch_br", "txda": "torch_txda",
	"directml": "torch_directml",
}

// Plugins are the modules to import for a device.
func Plugins(device string) []string {
	kind, _, _ := strings.Cut(device, ":")
	if m, ok := plugins[kind]; ok {
		return []string{m}
	}
	return nil
}

// limit is how many bytes one call may have in shared memory.
func (c *Config) limit() int64 {
	if m := quota.Memory(); m > 0 {
		return m
	}
	return 1 << 46
}
