package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	ExitOK          = 0   // all compared and passed
	ExitDiffers     = 1   // differences found, or the device failed
	ExitUsage       = 2   // wrong usage
	ExitFailed      = 3   // could not run, nothing was compared, or some input was refused
	ExitInterrupted = 130 // what was finished is saved
)

// An exitError ends a command with a code and, if it is not empty, a message.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith ends a command whose output says all there is to say.
func exitWith(code int) error {
	if code == ExitOK {
		return nil
	}
	return &exitError{code: code}
}

// unwritten ends a command that found what code says, but could not write all that was asked for: err, if
// it is not nil. 1 goes before 3.
func (s Streams) unwritten(code int, err error) error {
	if err != nil && (code == ExitDiffers || code == ExitInterrupted) {
		s.fail(err)
		err = nil
	}
	return cmp.Or(failed(err), exitWith(code))
}

// fail prints an error. Errors that were joined are printed one by one.
func (s Streams) fail(err error) {
	var e *exitError
	if errors.As(err, &e) && e.err != nil {
		err = e.err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || err.Error() != errors.Join(joined.Unwrap()...).Error() {
		s.warn("%v", err)
		return
	}
	for _, err := range joined.Unwrap() {
		s.fail(err)
	}
}

// usageError is a mistake in the command line.
func usageError(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// somePaths is the Args of commands that take one or more PATHs.
func somePaths(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError("%s: want at least one PATH", cmd.Name())
	}
	return nil
}

// exitCode is the code for the error a command returned. Errors that commands
// do not make themselves are those of the command line's parser, and of writing what it prints.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, new(*fs.PathError)):
		return ExitFailed
	}
	return ExitUsage
}

// failed turns an error of the world (files, pipes) into exit code 3. An
// interruption keeps its own.
func failed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &exitError{ExitFailed, err}
}
