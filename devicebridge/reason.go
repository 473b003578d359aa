package devicebridge

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/internal/lazyregexp"
)

// Codes of diopiError_t that mean "not implemented", not "wrong".
const (
	codeNoImplement      = 13
	codeFallbackToCPU    = 14
	codeDtypeUnsupported = 1000
)

// errorNames are the enumerators of diopiError_t by value.
var errorNames = sync.OnceValue(func() map[int32]string {
	m := map[int32]string{}
	for name, v := range diopi.Enums()["diopiError_t"] {
		m[v] = name
	}
	return m
})

// notImplemented matches the exceptions of a library that lacks the kernel for a dtype, such as ATen's
// "exp" not implemented for 'Half'.
var notImplemented = lazyregexp.New(`(?i)\bnot (yet )?(implemented|supported) (for|on|with) ` +
	`('\w+'|(d|data |scalar ?)?type|half|b?float|double|char|short|int|long|bool|complex)|` +
	`\b(does not|doesn't) support (d|data |scalar ?)type|\bunsupported (d|data |scalar ?)type`)

// explain turns the code and the text that a call returned into a status and a reason.
func (c *CallResult) explain() {
	if c.Status == Threw {
		if notImplemented().MatchString(c.Reason) {
			c.Status = Unsupported
		}
		c.Reason = fmt.Sprintf("%s threw %s", c.Function, cmp.Or(c.Reason, "an exception"))
		return
	}
	if c.Status != Failed {
		return
	}
	switch c.Code {
	case codeNoImplement, codeFallbackToCPU, codeDtypeUnsupported:
		c.Status = Unsupported
	}
	text := strings.TrimSpace(c.Reason)
	if c.Code == 0 {
		c.Reason = c.Function + ": " + text
		return
	}
	c.Reason = fmt.Sprintf("%s returned %d (%s)", c.Function, c.Code, cmp.Or(errorNames()[c.Code], "unknown code"))
	if text != "" {
		c.Reason += ": " + text
	}
}

// reason describes how a worker died.
func (f *Fate) reason() string {
	var s string
	switch {
	case f.Status == TimedOut:
		s = "no answer in time"
	case f.Broke != "":
		s = "it broke the connection to optool: " + f.Broke
	case f.Status == Crashed:
		s = "killed by " + f.Signal
		if f.Signal == "SIGKILL" {
			s += ", perhaps for want of memory"
		}
	default:
		s = fmt.Sprintf("it ended the process with exit code %d", f.Code)
	}
	if f.Function != "" {
		s = f.Function + ": " + s
	}
	if f.Stderr != "" {
		lines := strings.Split(f.Stderr, "\n")
		s += "; stderr ends: " + printable(lines[len(lines)-1])
	}
	return s
}

// exports sets a byte for each operator that the library exports.
func (i *Info) exports(flags []byte) {
	for k, f := range diopi.Operators() {
		if k < len(flags) && flags[k] != 0 {
			i.Functions = append(i.Functions, f.Name)
		} else {
			i.Missing = append(i.Missing, f.Name)
		}
	}
}
